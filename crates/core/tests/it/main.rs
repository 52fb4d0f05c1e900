//! Core, seen from outside. One module per concept; what needs the test kit lives here, because an
//! inline test would see a second copy of core.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests read files, and start threads and processes"
)]

/// Helpers that several modules use: short ways to write messages and ids.
mod make;

/// How agents, tools and the registry are defined, and what is refused.
mod agents;
/// Canonical JSON, digests, idempotency keys.
mod canonical;
/// The in-memory ports pass the contract suites.
mod contracts;
/// Every scenario, killed at every point.
mod crashes;
/// Codes, categories, user texts.
mod errors;
/// What is stored, in its present form and in the golden files.
mod golden;
/// What a process knows of its lease.
mod holds;
/// Ids and where they come from.
mod ids;
/// What is told to whoever keeps logs.
mod logs;
mod machine;
/// What a plan says to a backend.
mod plans;
/// A stream's reader between changes.
mod readers;
/// From a model's events to a reply.
mod replies;
/// Handles and outcomes.
mod runtimes;
/// Sessions, runs, statuses, open steps, submissions.
mod sessions;
/// The state: drafts, writes, patches, merges.
mod state;
/// Step processing.
mod steps;
/// The transcript: pairing, healing, counters, call ids.
mod transcripts;
