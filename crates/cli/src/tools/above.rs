//! Approval for calls with an argument above a limit.

use async_trait::async_trait;
use helix_agents_core::tool::{ApprovalRule, ToolCx, ToolError, ToolResult};
use serde_json::Value;

/// Requires approval if the number at a pointer of the arguments is above a limit, or if there is
/// no number.
#[derive(Debug, Clone, PartialEq)]
pub struct Above {
    pointer: String,
    limit: f64,
}

impl Above {
    /// Creates a rule for the number at a pointer.
    #[must_use]
    pub fn new(pointer: impl Into<String>, limit: f64) -> Self {
        Self {
            pointer: pointer.into(),
            limit,
        }
    }
}

#[async_trait]
impl ApprovalRule for Above {
    async fn needs_approval(&self, arguments: &Value, _cx: &ToolCx) -> ToolResult<bool> {
        let number = arguments.pointer(&self.pointer).and_then(Value::as_f64);
        match number {
            Some(number) => Ok(number > self.limit),
            None => Err(ToolError::tell_model(format!(
                "there is no number at {} to compare with {}",
                self.pointer, self.limit
            ))),
        }
    }
}
