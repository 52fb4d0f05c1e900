//! The pure core of Helix Agents.
//!
//! An agent that must not lose work consists of a few data types and a few pure functions: messages
//! and a transcript that is always valid, a state whose changes are operations, steps that are
//! planned before anything is executed. They are here, together with the ports to everything else.
//! Nothing in this crate reads a clock, generates a random number, opens a file or a socket, or
//! needs an async runtime; it builds for `wasm32-unknown-unknown` as it is.
//!
//! Users depend on `helix-agents`, which re-exports this crate.

// Items with `#[doc(hidden)]` are shared with the other crates of this repository and with its tests:
// parts of the loop, constructors of stored rows, operations outside of a run. Users, and authors of
// stores, runtimes and models, need none of them; they may change without notice.

pub mod abort;
pub mod agent;
// Used by the other crates of this repository; nobody writes a store, a runtime or a model with it.
#[doc(hidden)]
pub mod bounds;
pub mod budget;
pub mod canonical;
pub mod context;
pub mod entries;
pub mod error;
mod first;
pub mod hooks;
pub mod id;
pub mod json;
pub mod lock;
pub mod machine;
// A bound in signatures; users never name it.
#[doc(hidden)]
pub mod maybe_send;
pub mod memory;
pub mod message;
// Implemented by the metrics of the server.
#[doc(hidden)]
pub mod meter;
pub mod model;
pub mod notify;
pub mod perform;
pub mod runtime;
pub mod schema;
pub mod session;
pub mod shared_state;
pub mod shared_str;
pub mod state;
pub mod step;
pub mod store;
pub mod stored;
pub mod stream;
pub mod time;
pub mod tool;
pub mod transcript;
pub mod usage;

pub use agent::{Agent, AgentRegistry, DefinitionError};
pub use error::{Coded, Error, ErrorCode, ErrorRecord};
pub use id::{
    AgentId, ApprovalId, CallId, CheckpointId, IdError, MessageId, RunId, SessionId, StepId,
    StreamId, UsageId, UserId,
};
pub use message::Message;
pub use tool::{IntoTools, Tool, ToolCx, ToolError, ToolResult};
pub use transcript::Transcript;
