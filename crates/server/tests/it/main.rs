//! Tests of the server over HTTP: in process with `oneshot`, and over a loopback socket where time
//! limits, open streams or shutdown matter.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot continue fails"
)]

/// A store in which a commit happens just before or after a session is read, and in which callers meet.
mod interleaved_store;
/// A test agent, a server for it, and clients.
mod kit;
/// A server on a loopback socket.
mod loopback;
/// A store that cannot be reached.
mod unreachable_store;

/// Callers without access to a session.
mod access;
/// Approvals that outlive the process that asked for them.
mod approvals;
/// Budgets over HTTP.
mod budgets;
/// Authentication, tokens and origins of a server.
mod building;
/// The chat routes, as a stock client of the AI SDK uses them.
mod chat;
/// Connections that do not read, do not write, or are too many.
mod connections;
/// The end of a stream while it is read.
mod endings;
/// Errors, limits, ids, probes and metrics.
mod errors;
/// Histories that are too large for one response.
mod large;
/// Lists of agents, sessions and pending calls.
mod lists;
/// Metrics of runs and of the store.
mod metrics;
/// The router nested in another application.
mod nesting;
/// Responses compared with the OpenAPI document.
mod openapi;
/// Web pages of allowed and of other sites.
mod pages;
/// Limits on the runs that one user may start.
mod quotas;
/// Random bodies and queries.
mod random;
/// The readiness probe `/readyz`.
mod readiness;
/// Tests of `/resume`.
mod resuming;
/// Time limits and shutdown of a server on a socket.
mod serving;
/// One session and its parts.
mod session;
/// Tests of `/start`.
mod starting;
/// Tests of `/interrupt` and `/abort`.
mod stopping;
/// Tests of `/sse`.
mod streams;
/// Tests of `/submit-tool-result`.
mod submitting;
