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
//! [`core`] is all of `helix-agents-core`, for those who write a loop, a store or a runtime.

#[doc(hidden)]
pub mod __private;

pub use helix_agents_core as core;
pub use helix_agents_core::agent::{AgentBuilder, ModelRef};
pub use helix_agents_core::tool::{
    ApprovalMode, ExecutedBy, OnUnknown, Reconciled, ToolBuilder, ToolSpec,
};
pub use helix_agents_core::{
    Agent, AgentId, AgentRegistry, ApprovalId, CallId, CheckpointId, Coded, DefinitionError,
    ErrorCode, ErrorRecord, IdError, IntoTools, Message, MessageId, RunId, SessionId, StepId,
    StreamId, Tool, ToolCx, ToolError, ToolResult, Transcript, UsageId, UserId,
};
pub use helix_agents_macros::{tool, toolset};
#[cfg(feature = "models")]
pub use helix_agents_models as models;
