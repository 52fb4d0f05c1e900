//! Tests of the PostgreSQL store, one module per subject. They need a server, and say so where there is none.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot continue fails, and says what it tried"
)]

/// Builders of sessions, commits and steps.
mod builders;
/// A proxy that counts what is asked.
mod counting_proxy;
/// The server, its schemas, and the runtime.
mod server;

/// The contract suites of the ports.
mod contract;
/// Every scenario, killed at some or all points.
mod crashes;
/// Lost connections, and servers that die.
mod faults;
/// Notifications that cannot be had.
mod listening;
/// Errors of opening a store, and migrations.
mod opening;
/// How often the database is asked.
mod round_trips;
/// Every scenario under random schedules.
mod schedules;
/// What reads and removals of chunks fetch, and appends whose answer does not come.
mod streams;
/// Writes of one process wake those who wait in another.
mod waking;
