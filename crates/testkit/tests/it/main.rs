//! The test kit's own tests: what other tests stand on.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod agents;
mod block_on;
mod broken;
mod clock;
mod ids;
mod models;
mod on_tokio;
mod schedules;
mod sharded;
mod threads;
mod unreliable;
