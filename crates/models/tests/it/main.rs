//! The scripted model from outside: each rule of its file format has a test here.

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
