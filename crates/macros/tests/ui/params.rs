//! Parameters that cannot be an input.

#![expect(unused_variables)]

use std::collections::HashMap;

use helix_agents::{IntoTools, ToolCx, ToolResult, toolset};

struct Shop;

#[toolset]
impl Shop {
    /// A borrowed parameter.
    #[tool]
    async fn borrowed(
        &self,
        /// A borrowed text.
        text: &str,
        list: &[String],
        map: &HashMap<String, u64>,
    ) -> ToolResult<()> {
        Ok(())
    }

    /// A parameter that contains a borrow.
    #[tool]
    async fn borrowed_inside(&self, text: Option<&'static str>) -> ToolResult<()> {
        Ok(())
    }

    /// A parameter without one type.
    #[tool]
    async fn generic(&self, text: impl Into<String>) -> ToolResult<()> {
        Ok(())
    }

    /// A parameter of the toolset's type.
    #[tool]
    async fn of_self(&self, shops: Vec<Self>) -> ToolResult<()> {
        Ok(())
    }

    /// Parameters without a name.
    #[tool]
    async fn nameless(&self, _: u64, (a, b): (u64, u64)) -> ToolResult<()> {
        Ok(())
    }

    /// A parameter under a `cfg`.
    #[tool]
    async fn sometimes(&self, #[cfg(any())] cents: u64) -> ToolResult<()> {
        Ok(())
    }

    /// The context by value.
    #[tool]
    async fn context_by_value(&self, cx: ToolCx) -> ToolResult<()> {
        Ok(())
    }

    /// The context by mutable reference.
    #[tool]
    async fn context_mutable(&self, cx: &mut ToolCx) -> ToolResult<()> {
        Ok(())
    }

    /// `#[args]` with another parameter.
    #[tool]
    async fn args_and_more(&self, cx: &ToolCx, #[args] sum: Sum, cents: u64) -> ToolResult<()> {
        Ok(())
    }

    /// `#[args]` on two parameters.
    #[tool]
    async fn args_twice(&self, #[args] one: Sum, #[args] two: Sum) -> ToolResult<()> {
        Ok(())
    }
}

struct Sum;

fn main() {
    let _ = Shop.borrowed("", &[], &HashMap::new());
    let _ = Shop.into_tools();
}
