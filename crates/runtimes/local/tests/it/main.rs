//! Tests of the local runtime, one module per subject.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue fails"
)]

/// Streams that count how often they are read.
mod counted_streams;
/// A store that fails on request.
mod failing_store;
/// Agents, gates and stores for the tests.
mod kit;

/// Recovery that nobody asked for.
mod by_itself;
/// What a caller does while its sub-agents work.
mod callers;
mod children;
/// The contract of runtimes.
mod contract;
/// Deadlines that pass.
mod deadlines;
/// A process whose lease has lapsed.
mod holds;
/// Leases that are held, renewed and lost.
mod leases;
/// Paused runs, answers and their continuation.
mod pauses;
/// The same request twice at the same time.
mod races;
/// Runs that stalled and are recovered.
mod recovery;
/// Refused requests, and user code that panics.
mod refusals;
/// Complete runs from start to end.
mod runs;
/// Shutting the runtime down.
mod shutdown;
/// Due work and the sweeper.
mod sweeper;
