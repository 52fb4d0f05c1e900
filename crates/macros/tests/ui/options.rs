//! Unknown and malformed options. The rest of the block still compiles.

use helix_agents::{IntoTools, ToolResult, toolset};

struct Shop;

#[toolset]
impl Shop {
    /// A misspelt option gets a suggestion.
    #[tool(idempotnt, strict)]
    async fn misspelt(&self, cents: u64) -> ToolResult<u64> {
        Ok(cents)
    }

    /// A misspelt option causes no second error.
    #[tool(clientt, deadline = "10m")]
    async fn misspelt_client(&self) -> ToolResult<u64>;

    /// An option with no similar name.
    #[tool(cache = Some(|a, b| 1), read_only)]
    async fn unknown(&self) -> ToolResult<()> {
        Ok(())
    }

    /// The same option given twice.
    #[tool(strict, read_only, strict)]
    async fn twice(&self) -> ToolResult<()> {
        Ok(())
    }

    /// An option without its value.
    #[tool(timeout)]
    async fn no_value(&self) -> ToolResult<()> {
        Ok(())
    }

    /// An option with an incomplete value.
    #[tool(timeout =)]
    async fn half_a_value(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A value for an option that takes none.
    #[tool(approval = true)]
    async fn a_value(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Options that are not a list.
    #[tool = "approval"]
    async fn no_list(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Options without a comma between them.
    #[tool(strict approval)]
    async fn no_comma(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A method with two `#[tool]` attributes.
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
