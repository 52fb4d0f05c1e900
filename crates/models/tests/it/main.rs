//! Tests of the scripted model through its public API: each rule of the file format has a test
//! here.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test fails the test"
)]

mod errors;
mod format;
mod pace;
mod placeholders;
mod reply;
mod rules;
mod scene;
