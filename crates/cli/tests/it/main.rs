//! Tests of the `helix` binary as an operator uses it, and of its tools.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot continue fails"
)]

/// Answers that came too late, and what a user at a terminal sees before a decision.
mod answered_elsewhere;
/// One user who overloads the server.
mod attacks;
/// Invalid configuration files, each with its message.
mod broken_configs;
/// A headless browser, controlled over a pipe.
mod browser;
/// The builtin tools of the program.
mod builtin_tools;
/// A run in a separate process, during a call.
mod busy;
/// Many chats with many readers.
mod chat_readers;
/// Context limits of agents in a file.
mod contexts;
/// The stores that several processes can share.
mod databases;
/// The built-in demo agents.
mod demo;
/// Pseudorandom numbers with a seed.
mod dice;
/// The commands `helix doctor`, `migrate` and `completions`.
mod doctor;
mod documents;
/// Requests that must not reach or block `helix dev`.
mod foreign_requests;
/// A client generated from the OpenAPI document.
mod generated_client;
/// Hints that can be pasted, and values that look like flags.
mod hints;
/// The rules of HTTP tools, against a service that misbehaves.
mod http_tools;
/// The command `helix run` in a terminal.
mod in_a_terminal;
/// An approval across processes that are killed.
mod killed_approval;
mod killed_children;
/// A server that is killed repeatedly.
mod killed_server;
/// A folder with a configuration, in which the binary is run.
mod kit;
/// A busy server: many runs, many readers, many starts.
mod load;
/// Memory and latencies of a server under load.
mod measures;
/// The page of `helix dev`, in a real browser.
mod page;
/// The questions that the page shows to a user.
mod page_questions;
/// Approvals, client results, and who may answer what.
mod people;
/// Programs that some tests need.
mod programs;
/// Reading of configuration files.
mod providers;
/// HTTP by hand.
mod raw_http;
mod reading;
/// The reference page and the JSON Schema of `helix.toml`.
mod reference;
/// Turns: how they end, and what is printed.
mod runs;
/// Configured secrets, which are never shown.
mod secrets;
/// Stores on servers.
mod server_stores;
/// A scripted HTTP service for the tests.
mod service;
/// The commands `helix serve` and `helix dev`.
mod serving;
/// Listing, showing, exporting, importing and branching sessions.
mod sessions;
/// A process that is asked to end while its run is running.
mod signals;
/// A reader of server-sent events.
mod sse;
/// Runs that are stopped from outside, and runs whose process is killed.
mod stops;
/// Existing and missing stores.
mod stores;
/// Streams of `helix serve`: live, resumed, by many readers, after a restart.
mod streams;
/// Two servers, of which one is killed or frozen while it performs a run.
mod taken_over;
/// A real terminal, in a private tmux.
mod terminal;
/// Two servers over one store.
mod two_servers;
