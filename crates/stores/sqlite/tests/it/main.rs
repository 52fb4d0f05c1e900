//! Tests of the SQLite store, one module per subject.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

/// Short ways to write sessions and commits.
mod builders;
/// Folders that go away.
mod folder;

/// Calls that were answered, also in files of an earlier version.
mod answered_calls;
/// The contracts of the ports.
mod contract;
/// Every scenario, killed at every point.
mod crashes;
/// A disk without room.
mod full_disk;
/// Commits that share a transaction.
mod group_commits;
/// Large values, kept once.
mod large_values;
/// What can be wrong with a file, and bringing its schema up to date.
mod opening;
/// Chunks that are kept for a while.
mod retention;
/// What was written is read back.
mod round_trips;
/// Every scenario by random schedules.
mod schedules;
/// What a session costs on disk.
mod size_on_disk;
/// What the writer remembers of the file.
mod write_cache;
