//! Parameters that cannot be an input.

#![expect(unused_variables)]

use std::collections::HashMap;

use helix_agents::{IntoTools, ToolCx, ToolResult, toolset};

struct Shop;

#[toolset]
impl Shop {
    /// Borrowed.
    #[tool]
    async fn borrowed(
        &self,
        /// A text.
        text: &str,
        list: &[String],
        map: &HashMap<String, u64>,
    ) -> ToolResult<()> {
        Ok(())
    }

    /// Borrowed inside.
    #[tool]
    async fn borrowed_inside(&self, text: Option<&'static str>) -> ToolResult<()> {
        Ok(())
    }

    /// Of no one type.
    #[tool]
    async fn generic(&self, text: impl Into<String>) -> ToolResult<()> {
        Ok(())
    }

    /// Of the toolset's type.
    #[tool]
    async fn of_self(&self, shops: Vec<Self>) -> ToolResult<()> {
        Ok(())
    }

    /// Without a name.
    #[tool]
    async fn nameless(&self, _: u64, (a, b): (u64, u64)) -> ToolResult<()> {
        Ok(())
    }

    /// Not always there.
    #[tool]
    async fn sometimes(&self, #[cfg(any())] cents: u64) -> ToolResult<()> {
        Ok(())
    }

    /// The context by value.
    #[tool]
    async fn context_by_value(&self, cx: ToolCx) -> ToolResult<()> {
        Ok(())
    }

    /// The context for itself.
    #[tool]
    async fn context_mutable(&self, cx: &mut ToolCx) -> ToolResult<()> {
        Ok(())
    }

    /// Args and more.
    #[tool]
    async fn args_and_more(&self, cx: &ToolCx, #[args] sum: Sum, cents: u64) -> ToolResult<()> {
        Ok(())
    }

    /// Args twice.
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
