//! Tests of sessions in PostgreSQL whose streams are in Redis. They need both servers, and say so where one is missing.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot continue fails, and says what it tried"
)]

/// Processes of one deployment.
mod deployment;
/// A model that says what a test lets it say.
mod spoken;

/// The contract suites of the ports.
mod contract;
/// Every scenario, killed at some or all points.
mod crashes;
/// Servers that cannot be reached or die, and processes that die between a commit and its relay.
mod faults;
/// Streams that were lost, whole or in part.
mod losses;
/// Every scenario under random schedules.
mod schedules;
/// How often the database is asked while many runs stream.
mod sharing;
