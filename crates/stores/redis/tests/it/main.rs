//! Tests of the Redis store, one module per subject.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot continue fails"
)]

/// Stores for tests, each with keys of its own.
mod stores;

/// The contract suites of the ports.
mod contract;
/// Every scenario, killed at some or all points.
mod crashes;
/// Servers that die, lose answers, are full or cannot be reached.
mod faults;
/// What stays of sessions that were deleted.
mod leftovers;
/// Clusters that move keys while they are used.
mod moving;
/// What opening a store refuses.
mod opening;
/// Deltas of past turns.
mod retention;
/// Users of the server who may not do everything.
mod rights;
/// How many commands operations need, and that changes wake those who wait elsewhere.
mod round_trips;
/// Every scenario under random schedules.
mod schedules;
/// Large states.
mod states;
/// A process that is stopped while it holds a session.
mod stopped;
