//! Tests of the PostgreSQL store, one module per subject. They need a server, and say so where there is none.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue fails"
)]

/// The server, its schemas, and the runtime.
mod server;

/// The contract suites of the ports.
mod contract;
