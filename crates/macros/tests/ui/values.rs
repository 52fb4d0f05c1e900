//! Options with values that they do not take.

use helix_agents::{ToolResult, toolset};

struct Shop;

#[toolset]
impl Shop {
    /// Not a unit.
    #[tool(timeout = "10 minutes")]
    async fn no_unit(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Not a whole number.
    #[tool(approval, deadline = "1.5h")]
    async fn no_whole_number(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Not a text.
    #[tool(timeout = 30)]
    async fn number(&self) -> ToolResult<()> {
        Ok(())
    }

    /// No time at all.
    #[tool(timeout = "0s")]
    async fn zero(&self) -> ToolResult<()> {
        Ok(())
    }

    /// More time than there is.
    #[tool(timeout = "999999999999999d")]
    async fn endless(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Not a choice.
    #[tool(on_unknown = "retry")]
    async fn no_choice(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Not a text.
    #[tool(name = refund)]
    async fn no_text(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Not a method.
    #[tool(reconcile = |a| a)]
    async fn no_method(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Not a closure.
    #[tool(approval_if = true)]
    async fn no_closure(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A closure of nothing.
    #[tool(approval_if = || true)]
    async fn no_parameters(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A closure of three.
    #[tool(approval_if = |a, cx, more| true)]
    async fn too_many_parameters(&self) -> ToolResult<()> {
        Ok(())
    }
}

fn main() {}
