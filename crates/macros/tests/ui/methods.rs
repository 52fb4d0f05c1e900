//! Methods that cannot be tools.

use helix_agents::{IntoTools, ToolResult, toolset};

struct Shop;

#[toolset]
impl Shop {
    /// Not async.
    #[tool]
    fn not_async(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Generic.
    #[tool]
    async fn generic<T: Clone>(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Wants the toolset for itself.
    #[tool]
    async fn mutable(&mut self) -> ToolResult<()> {
        Ok(())
    }

    /// Wants to have the toolset.
    #[tool]
    async fn by_value(self) -> ToolResult<()> {
        Ok(())
    }

    /// Is not about the toolset.
    #[tool]
    async fn no_receiver(cents: u64) -> ToolResult<u64> {
        Ok(cents)
    }

    /// Has a receiver of another type.
    #[tool]
    async fn typed_receiver(self: std::sync::Arc<Self>) -> ToolResult<()> {
        Ok(())
    }

    /// Is not for everyone to call.
    #[tool]
    async unsafe fn dangerous(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Does not say what it gives.
    #[tool]
    async fn no_result(&self) {}

    /// Gives a plain text.
    #[tool]
    async fn plain(&self) -> String {
        String::new()
    }

    #[tool]
    async fn no_description(&self) -> ToolResult<()> {
        Ok(())
    }

    ///
    #[tool]
    async fn empty_description(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A client's tool with a body.
    #[tool(client)]
    async fn client_body(&self) -> ToolResult<()> {
        Ok(())
    }

    /// No client's tool, and no body.
    #[tool]
    async fn no_body(&self) -> ToolResult<()>;

    /// No tool at all, and no body.
    fn no_tool_and_no_body(&self);

    /// The first of its name.
    #[tool]
    async fn first(&self) -> ToolResult<()> {
        Ok(())
    }

    /// The second of its name.
    #[tool(name = "first")]
    async fn second(&self) -> ToolResult<()> {
        Ok(())
    }

    /// The third of its name.
    #[tool]
    async fn first(&self) -> ToolResult<()> {
        Ok(())
    }
}

fn main() {
    let _ = Shop.not_async();
    let _ = Shop.mutable();
    let _ = Shop.no_body();
    let _ = Shop.into_tools();
}
