//! Options that are not options. Everything else in the block still works.

use helix_agents::{IntoTools, ToolResult, toolset};

struct Shop;

#[toolset]
impl Shop {
    /// A misspelt option is told from an unknown one.
    #[tool(idempotnt, strict)]
    async fn misspelt(&self, cents: u64) -> ToolResult<u64> {
        Ok(cents)
    }

    /// A misspelt option has no second error.
    #[tool(clientt, deadline = "10m")]
    async fn misspelt_client(&self) -> ToolResult<u64>;

    /// What is not near to any option.
    #[tool(cache = Some(|a, b| 1), read_only)]
    async fn unknown(&self) -> ToolResult<()> {
        Ok(())
    }

    /// One option twice.
    #[tool(strict, read_only, strict)]
    async fn twice(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A value too few.
    #[tool(timeout)]
    async fn no_value(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Half a value.
    #[tool(timeout =)]
    async fn half_a_value(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A value too many.
    #[tool(approval = true)]
    async fn a_value(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Not a list.
    #[tool = "approval"]
    async fn no_list(&self) -> ToolResult<()> {
        Ok(())
    }

    /// No comma.
    #[tool(strict approval)]
    async fn no_comma(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Two marks.
    #[tool(strict)]
    #[tool(approval)]
    async fn two_marks(&self) -> ToolResult<()> {
        Ok(())
    }
}

fn main() {
    let _ = Shop.misspelt(1);
    let _ = Shop.misspelt_client();
    let _ = Shop.into_tools();
}
