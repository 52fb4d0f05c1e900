//! Tests of the local runtime, one module per subject.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

/// Agents, gates and stores to test with.
mod kit;
/// Stores that fail when they are told to.
mod moody;

/// Recovery that nobody asked for.
mod by_itself;
/// The contract of runtimes.
mod contract;
/// What a process does whose lease has lapsed.
mod holds;
/// Leases: held, renewed, lost.
mod leases;
/// Pauses, answers and who continues.
mod pauses;
/// The same thing asked twice at once.
mod races;
/// Runs that stood still, and go on.
mod recovery;
/// Requests that are refused, and user code that panics.
mod refusals;
/// Runs from beginning to end.
mod runs;
/// The runtime comes to an end.
mod shutdown;
/// Due work, and what looks for it.
mod sweeper;
