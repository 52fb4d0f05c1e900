//! Tests of the SQLite store, one module per subject.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue fails"
)]

/// Builders of sessions, commits and steps.
mod builders;
/// Temporary folders.
mod folder;

/// Answered calls, also in files of an earlier version.
mod answered_calls;
/// Who wrote the chunks of a stream.
mod authors;
/// The contract suites of the ports.
mod contract;
/// Every scenario, killed at every point.
mod crashes;
/// What is left of a batch from which deltas are removed.
mod discarded_deltas;
/// A full disk, and a locked file.
mod full_disk;
/// Commits that share a transaction.
mod group_commits;
/// Large values are stored once.
mod large_values;
/// Errors of opening a file, and migrations.
mod opening;
/// Removal of old chunks.
mod retention;
/// Every kind of value is read back as it was written.
mod round_trips;
/// Every scenario under random schedules.
mod schedules;
/// The bytes that a session takes on disk.
mod size_on_disk;
/// The cache of the writer, with several writers of one file.
mod write_cache;
