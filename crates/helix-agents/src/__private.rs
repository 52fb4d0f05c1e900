//! The names that the macros expand to. Not part of the public API: they change without notice.
//!
//! The names of the standard library are here because a user's module may have its own `Result`.

mod reconcile;
mod rule;

pub use std::clone::Clone;
pub use std::concat;
pub use std::marker::{PhantomData, Send, Sync};
pub use std::result::Result::{self, Ok};
pub use std::sync::Arc;
pub use std::time::Duration;
pub use std::vec::Vec;

pub use helix_agents_core::tool::{OnUnknown, parse_input};
pub use helix_agents_core::{DefinitionError, IntoTools, Tool, ToolCx, ToolResult};
pub use reconcile::reconciled;
pub use rule::{IntoVerdict, ask, ask_async};
pub use serde_json::Value;
pub use {schemars, serde};
