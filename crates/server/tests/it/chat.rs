//! The chat routes, as a stock client of the AI SDK uses them.

/// The agents of these tests, and a server for them.
mod agents;
/// A page that talks to the server as the stock client does.
mod page;
/// Reads UI message streams as strictly as the strictest client.
mod reading;

/// The seven paths of a chat request.
mod paths;
