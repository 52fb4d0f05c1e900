//! Tests of the models through their public API: each rule of the format of scripts has a test here, and
//! each provider a folder of cassettes.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a helper of a test fails the test"
)]

mod errors;
mod format;
mod pace;
mod placeholders;
#[cfg(feature = "providers")]
mod providers;
mod reply;
mod rules;
mod scene;
mod wrappers;
