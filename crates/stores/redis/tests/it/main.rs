//! Tests of the Redis store, one module per subject.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue fails"
)]

/// Stores for tests, each with keys of its own.
mod stores;

/// The contract suites of the ports.
mod contract;
/// Every scenario, killed at every point.
mod crashes;
/// Servers that die, lose answers, are full or cannot be reached.
mod faults;
/// What opening a store refuses.
mod opening;
/// How many commands operations need, and that changes wake those who wait elsewhere.
mod round_trips;
/// Every scenario under random schedules.
mod schedules;
