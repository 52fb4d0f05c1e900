//! Methods that cannot be tools.

use helix_agents::{IntoTools, ToolResult, toolset};

struct Shop;

#[toolset]
impl Shop {
    /// A method that is not async.
    #[tool]
    fn not_async(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A method that is generic.
    #[tool]
    async fn generic<T: Clone>(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A method that takes `&mut self`.
    #[tool]
    async fn mutable(&mut self) -> ToolResult<()> {
        Ok(())
    }

    /// A method that takes `self`.
    #[tool]
    async fn by_value(self) -> ToolResult<()> {
        Ok(())
    }

    /// A method without a receiver.
    #[tool]
    async fn no_receiver(cents: u64) -> ToolResult<u64> {
        Ok(cents)
    }

    /// A method with another receiver type.
    #[tool]
    async fn typed_receiver(self: std::sync::Arc<Self>) -> ToolResult<()> {
        Ok(())
    }

    /// A method that is unsafe.
    #[tool]
    async unsafe fn dangerous(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A method without a return type.
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

    /// A client tool with a body.
    #[tool(client)]
    async fn client_body(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A tool without a body that is not a client tool.
    #[tool]
    async fn no_body(&self) -> ToolResult<()>;

    /// A method without a body that is not a tool.
    fn no_tool_and_no_body(&self);

    /// The first tool of this name.
    #[tool]
    async fn first(&self) -> ToolResult<()> {
        Ok(())
    }

    /// The second tool of this name.
    #[tool(name = "first")]
    async fn second(&self) -> ToolResult<()> {
        Ok(())
    }

    /// The third tool of this name.
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
