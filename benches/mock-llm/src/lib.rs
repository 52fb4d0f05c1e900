//! An OpenAI-compatible server with scripted replies, for benchmarks over HTTP.
//!
//! A benchmark of an agent framework needs a model that answers at once and costs next to nothing,
//! so that the client is what is measured. [`MockLlm`] serves `POST /v1/chat/completions` on the
//! loopback interface, streaming (server-sent events) or not, over connections that are kept alive.
//! It runs in a thread of its own, or in a process of its own: the binary `mock-llm`.
//!
//! The name of the model selects the reply ([`Script`]):
//!
//! | model | reply |
//! |---|---|
//! | `text` | one short text |
//! | `steps-N` | a call of the tool `add`, N times, and then a text |
//! | `deltas-N` | a text that is streamed in N deltas |
//!
//! The server keeps no conversations. The number of tool messages in a request says which step it
//! asks for. Each reply is rendered once, including its HTTP headers, and then sent as it is.
//!
//! ```
//! use helix_agents_mock_llm::MockLlm;
//!
//! let server = MockLlm::spawn()?;
//! println!("point a client at {}", server.base_url());
//! # Ok::<(), std::io::Error>(())
//! ```

mod reply;
mod request;
mod script;
mod server;

pub use script::Script;
pub use server::MockLlm;
