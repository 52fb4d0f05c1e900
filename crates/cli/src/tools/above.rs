//! Asks a person about calls whose argument is above a limit.

use async_trait::async_trait;
use helix_agents_core::tool::{ApprovalRule, ToolCx, ToolError, ToolResult};
use serde_json::Value;

/// Asks a person when the number at a pointer of the arguments is above a limit, and when there is
/// no number.
#[derive(Debug, Clone, PartialEq)]
pub struct Above {
    pointer: String,
    limit: f64,
}

impl Above {
    /// A rule.
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
