//! Gives the outcome of a `reconcile` method the form that core knows.

use helix_agents_core::ToolResult;
use helix_agents_core::tool::{Reconciled, give_output};
use serde::Serialize;
use serde_json::Value;

/// The outcome with its result as JSON.
///
/// # Errors
/// The method's own; else what [`give_output`] has to say about the result.
pub fn reconciled<T: Serialize>(
    tool: &str,
    outcome: ToolResult<Reconciled<T>>,
) -> ToolResult<Reconciled<Value>> {
    outcome?.try_map(|result| give_output(tool, &result))
}
