//! The `helix` binary as an operator meets it, and the tools that it brings.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

/// Answers that came too late, and what a person at a terminal decides by.
mod answered_elsewhere;
/// A process that is asked to end while its run goes on.
mod asked_to_end;
/// One user who does its worst.
mod attacks;
/// Configuration files that cannot work, each with its message.
mod broken_configs;
/// A real browser without a screen, driven over a pipe.
mod browser;
/// The tools that are built in.
mod builtin_tools;
/// A run in a process of its own, in the middle of a call.
mod busy;
/// What `helix doctor`, `migrate` and `completions` say.
mod care;
/// The demo agents.
mod demo;
/// Numbers that look random.
mod dice;
mod documents;
/// A client generated from the description of the routes.
mod generated_client;
/// Hints that can be pasted, and values that look like flags.
mod hints;
/// The rules of tools that are services, against a service that misbehaves.
mod http_tools;
/// `helix run` in a terminal.
mod in_a_terminal;
/// An approval across processes that are killed.
mod killed_approval;
/// A server that is killed, again and again.
mod killed_server;
/// A folder, a configuration, and the binary in it.
mod kit;
/// A busy server: many runs, many readers, many starts.
mod load;
/// What is measured of a server.
mod measures;
/// Who must not get into `helix dev`, and who must not hold it up.
mod outsiders;
/// The page of `helix dev`, in a real browser.
mod page;
/// What the page shows to somebody who decides.
mod page_questions;
/// Approvals, client results, and who may answer what.
mod people;
/// Programs of the machine that some tests need.
mod programs;
/// HTTP by hand.
mod raw_http;
/// What a configuration file can say.
mod reading;
/// The reference page and the JSON Schema of `helix.toml`.
mod reference;
/// Turns: how they end, and what is printed.
mod runs;
/// A service on this machine that does as it is told.
mod secrets;
mod service;
/// `helix serve` and `helix dev`.
mod serving;
/// Listing, showing, moving and branching sessions.
mod sessions;
/// Reads server-sent events.
mod sse;
/// Runs that are stopped from outside, and runs whose process is killed.
mod stops;
/// Stores that are there, and stores that are not.
mod stores;
/// Streams of `helix serve`: live, resumed, by many at once, after a restart.
mod streams;
/// A real terminal: a private tmux.
mod terminal;
