//! Tests of core from outside. One module per concept; tests that need the test kit are here,
//! because an inline test would see a second copy of core.

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

/// Helpers for several modules: short ways to create messages and ids.
mod make;

/// The definitions of agents, tools and the registry, and which are refused.
mod agents;
/// Budgets: time, prices, reservations, trees.
mod budgets;
/// Canonical JSON, digests, idempotency keys.
mod canonical;
/// The in-memory ports pass the contract suites.
mod context_limits;
mod contexts;
mod contracts;
/// Every scenario, with a crash at every point.
mod crashes;
/// Codes, categories, user texts.
mod errors;
/// Stored records, in their current form and in the golden files.
mod golden;
/// Leases as the process that holds them knows them.
mod holds;
/// Ids and their sources.
mod ids;
/// The sessions of a runtime, and the messages of a session.
mod listings;
/// The events in the log.
mod logs;
mod machine;
/// The plan of a commit.
mod plans;
/// The reader of a changing stream.
mod readers;
/// Streams in another place than the store.
mod relayed;
/// Histories in the format of a provider.
mod renderings;
/// From a model's events to a reply.
mod replies;
/// Handles and outcomes.
mod runtimes;
/// Sessions, runs, statuses, open steps, submissions.
mod sessions;
/// The state: drafts, writes, patches, merges.
mod state;
/// Step processing and stop rules.
mod steps;
/// The text of a run whose model fails in the middle of a reply.
mod texts;
/// The transcript: pairing, healing, counters, call ids.
mod transcripts;
/// The verbs that users call on a runtime.
mod verbs;
