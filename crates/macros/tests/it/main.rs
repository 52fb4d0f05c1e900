//! Tests of `#[toolset]`, one module per guarantee.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod approval;
mod calls;
mod generic;
mod hygiene;
mod messages;
mod options;
mod schemas;
mod support;
