//! The chat routes, as a stock client of the AI SDK uses them.

/// The agents of these tests, and a server for them.
mod agents;
/// A page that talks to the server as the stock client does.
mod page;
/// Reads UI message streams as strictly as the strictest client.
mod reading;

/// Sub-agents in the bubble of their root.
mod children;
/// Where a stream goes on.
mod cursors;
/// A new message while a run goes on.
mod double_texting;
/// Edited messages.
mod edits;
/// Answers that are not what they seem.
mod forged;
/// Sessions that were imported.
mod imported;
/// New user messages.
mod incoming;
/// Pages of the history.
mod pages;
/// The seven paths of a chat request.
mod paths;
/// Random chat bodies.
mod random;
/// Every route of a chat.
mod routes;
/// A message is the same however a client came by it.
mod same;
