//! Tests of the server over its HTTP face: in process by `oneshot`, and over a loopback socket where
//! time limits, open streams or the end of the server matter.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

/// A store that cannot be reached.
mod broken;
/// A desk with an agent, a server before it, and clients that ask it.
mod kit;
/// A server on a loopback socket.
mod loopback;
/// A store in which something happens right before or after somebody reads.
mod meanwhile;

/// Approvals that outlive the process that asked for them.
mod approvals;
/// What a server is built from.
mod building;
/// Connections that do not read, do not write, or are too many.
mod crowds;
/// Answers beside the description of them.
mod described;
/// The very end of a stream that is read.
mod endings;
/// Errors, limits, ids, and what the server says about itself.
mod errors;
/// Histories that are too large for one answer.
mod large;
/// Lists of agents, sessions and pending calls.
mod lists;
/// What an operator reads of runs and of the store.
mod metrics;
/// The router in somebody else's application.
mod nesting;
/// Web pages that may, and those from elsewhere.
mod pages;
/// How much one user may start.
mod quotas;
/// Bodies and queries that nobody meant.
mod random;
/// Whether the server can do its work.
mod readiness;
/// `/resume`.
mod resuming;
/// Sockets: time limits, and the end of a server.
mod serving;
/// One session and what belongs to it.
mod session;
/// `/start`.
mod starting;
/// `/interrupt` and `/abort`.
mod stopping;
/// Who may not.
mod strangers;
/// `/sse`.
mod streams;
/// `/submit-tool-result`.
mod submitting;
