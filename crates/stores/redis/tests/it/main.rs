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
