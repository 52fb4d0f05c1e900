//! Processes that are killed, and processes that write at once.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot continue fails"
)]

/// A process dies during a run, and another one continues it.
mod killed_run;
/// A writer is killed at random: every acknowledged commit is there, whole.
mod killed_writer;
/// Leases and locks of a dead process, and the writes of another process.
mod other_process;
/// Two processes write to the same and to different sessions.
mod two_writers;
