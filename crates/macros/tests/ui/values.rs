//! Options with invalid values.

use helix_agents::{ToolResult, toolset};

struct Shop;

#[toolset]
impl Shop {
    /// A duration with an unknown unit.
    #[tool(timeout = "10 minutes")]
    async fn no_unit(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A duration that is not a whole number.
    #[tool(approval, deadline = "1.5h")]
    async fn no_whole_number(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A duration that is not a string.
    #[tool(timeout = 30)]
    async fn number(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A duration of zero.
    #[tool(timeout = "0s")]
    async fn zero(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A duration that is too long.
    #[tool(timeout = "999999999999999d")]
    async fn endless(&self) -> ToolResult<()> {
        Ok(())
    }

    /// An unknown choice of `on_unknown`.
    #[tool(on_unknown = "retry")]
    async fn no_choice(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A name that is not a string.
    #[tool(name = refund)]
    async fn no_text(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A reconciler that is not a method.
    #[tool(reconcile = |a| a)]
    async fn no_method(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A rule that is not a closure.
    #[tool(approval_if = true)]
    async fn no_closure(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A rule without parameters.
    #[tool(approval_if = || true)]
    async fn no_parameters(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A rule with three parameters.
    #[tool(approval_if = |a, cx, more| true)]
    async fn too_many_parameters(&self) -> ToolResult<()> {
        Ok(())
    }
}

fn main() {}
