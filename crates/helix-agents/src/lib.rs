//! Agents that do not lose work.
//!
//! An agent is a model, its tools and a few rules. It is written once, as plain types and documented
//! async methods; which runtime drives it, where its sessions are stored and who reads its stream
//! are decided elsewhere. This crate is what a user depends on: it gathers the pieces that are
//! needed to write an agent, so that one name and one version cover them.
//!
//! ```
//! use helix_agents::{Agent, DefinitionError, ToolCx, ToolError, ToolResult, toolset};
//! # use std::collections::HashMap;
//! # use schemars::JsonSchema;
//! # use serde::Deserialize;
//!
//! struct Shop {
//!     paid_cents: HashMap<String, u64>,
//! }
//!
//! #[toolset]
//! impl Shop {
//!     /// Look up what was paid for an order, in cents.
//!     #[tool(read_only)]
//!     async fn paid(&self, order_id: String) -> ToolResult<u64> {
//!         let paid = self.paid_cents.get(&order_id).copied();
//!         paid.ok_or_else(|| ToolError::tell_model("order ids look like `42`"))
//!     }
//!
//!     /// Refund part or all of an order.
//!     #[tool(approval_if = |a| a.cents > 10_000)]
//!     async fn refund(
//!         &self,
//!         cx: &ToolCx,
//!         order_id: String,
//!         /// Amount in cents, never more than was paid.
//!         cents: u64,
//!     ) -> ToolResult<String> {
//!         Ok(format!("refunded {cents} of {order_id}, receipt {}", cx.idempotency_key()))
//!     }
//! }
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Resolution {
//!     summary: String,
//!     refunded_cents: u64,
//! }
//!
//! let support = Agent::builder("support")
//!     .model("anthropic/claude-sonnet")
//!     .system_prompt("Resolve the complaint. Refund only what the order shows was paid.")
//!     .tools(Shop { paid_cents: HashMap::from([("42".to_owned(), 5_000)]) })
//!     .output::<Resolution>()
//!     .max_steps(8)
//!     .build()?;
//! assert_eq!(support.tools().len(), 2);
//! # Ok::<(), DefinitionError>(())
//! ```
//!
//! A runtime performs it. A pause is an outcome and not an error: what waits is plain data, can be
//! answered tomorrow and in another process, and resuming goes on where the run had paused.
//!
//! ```
//! use helix_agents::prelude::*;
//!
//! async fn resolve(runtime: &dyn Runtime, support: &Agent) -> Result<(), Error> {
//!     let mut run = runtime.execute(support, "Order 42 arrived broken.").await?;
//!     while let Outcome::Suspended(pause) = run.outcome().await? {
//!         for call in pause.pending() {
//!             runtime.submit(call.approve()).await?;
//!         }
//!         run = runtime.resume(support, pause.session()).await?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Features
//!
//! - `models` (on by default): the models, among them one that plays a script.
//! - `runtime-local`: `LocalRuntime`, which runs agents in your own process.
//! - `server`: the agent routes, as a router to serve or to nest.
//! - `store-sqlite`: `SqliteStore`, which keeps sessions in a file. `MemoryStore` is always there.
//!
//! [`core`] is all of `helix-agents-core`, for those who write a loop, a store or a runtime.

#[doc(hidden)]
pub mod __private;
pub mod prelude;

pub use helix_agents_core as core;
pub use helix_agents_core::agent::{AgentBuilder, AnyAgent, ModelRef};
pub use helix_agents_core::entries::{Continuation, EntryError, Expects, Submitted, ToolAnswer};
pub use helix_agents_core::hooks::{AgentHooks, HookCx, HookResult};
pub use helix_agents_core::memory::MemoryStore;
pub use helix_agents_core::runtime::{
    Backend, ChunkStream, Handle, NoOutput, Outcome, Pause, Pending, Runtime, RuntimeError,
    RuntimeExt, StartedRun, Stop, TextStream, Turn,
};
pub use helix_agents_core::session::{
    PendingCall, PendingKind, RunRecord, RunStatus, Submission, SubmissionOutcome,
};
pub use helix_agents_core::stream::{Chunk, ChunkPayload, Sequence, StoredChunk, StreamItem};
pub use helix_agents_core::tool::{
    ApprovalMode, ExecutedBy, OnUnknown, Reconciled, ToolBuilder, ToolSpec,
};
pub use helix_agents_core::{
    Agent, AgentId, AgentRegistry, ApprovalId, CallId, CheckpointId, Coded, DefinitionError, Error,
    ErrorCode, ErrorRecord, IdError, IntoTools, Message, MessageId, RunId, SessionId, StepId,
    StreamId, Tool, ToolCx, ToolError, ToolResult, Transcript, UsageId, UserId,
};
pub use helix_agents_macros::{tool, toolset};
#[cfg(feature = "models")]
pub use helix_agents_models as models;
#[cfg(feature = "runtime-local")]
pub use helix_agents_runtime_local::{
    LocalRuntime, LocalRuntimeBuilder, ShutdownReport, SweepReport, SystemClock, UuidIds, blocking,
};
#[cfg(feature = "server")]
pub use helix_agents_server as server;
#[cfg(feature = "store-sqlite")]
pub use helix_agents_store_sqlite::{SqliteConfig, SqliteStore};

/// What the README shows compiles.
#[cfg(all(doctest, feature = "runtime-local", feature = "store-sqlite"))]
#[doc = include_str!("../../../README.md")]
#[derive(Debug)]
pub struct Readme;
