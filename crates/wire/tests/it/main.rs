//! Tests of the crate from outside.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot continue fails"
)]

/// What a bubble shows of its sub-agents.
mod children;
/// From stored messages to UI messages.
mod converting;
/// Stored messages, whole and in pages.
mod history;
/// The answers in what a client sends back.
mod intents;
/// Chunks that are made for tests, and the rules of the strictest client.
mod kit;
/// From our chunks to those of the AI SDK.
mod mapping;
/// What clients send.
mod requests;
