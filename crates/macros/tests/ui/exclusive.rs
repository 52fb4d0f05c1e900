//! Options that exclude each other; the error is at the one that was written second.

use helix_agents::{Reconciled, ToolResult, toolset};

struct Shop;

#[toolset]
impl Shop {
    /// Two options in the order of the message.
    #[tool(client, finish_with)]
    async fn client_finish_with(&self) -> ToolResult<()>;

    /// The same two options in the other order.
    #[tool(finish_with, client)]
    async fn finish_with_client(&self) -> ToolResult<()>;

    /// A client tool with approval.
    #[tool(client, approval)]
    async fn client_approval(&self) -> ToolResult<()>;

    /// A rule counts as approval.
    #[tool(approval_if = |_| true, client)]
    async fn client_approval_if(&self) -> ToolResult<()>;

    /// A gated tool that ends the turn.
    #[tool(approval, finish_with)]
    async fn approval_finish_with(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A rule counts as approval.
    #[tool(finish_with, approval_if = |_| true)]
    async fn approval_if_finish_with(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A pair that only the macro can detect.
    #[tool(approval, approval_if = |_| true)]
    async fn approval_approval_if(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A client tool with a timeout.
    #[tool(client, timeout = "1s")]
    async fn client_timeout(&self) -> ToolResult<()>;

    /// A client tool with a reconciler.
    #[tool(client, reconcile = Self::look)]
    async fn client_reconcile(&self) -> ToolResult<()>;

    async fn look(&self) -> ToolResult<Reconciled<()>> {
        Ok(Reconciled::Unknown)
    }

    /// A client tool that is idempotent.
    #[tool(client, idempotent)]
    async fn client_idempotent(&self) -> ToolResult<()>;

    /// A client tool with `on_unknown`.
    #[tool(client, on_unknown = "pause")]
    async fn client_on_unknown(&self) -> ToolResult<()>;

    /// An option that needs another one.
    #[tool(read_only, deadline = "10m")]
    async fn deadline_alone(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Three exclusive options give one error.
    #[tool(client, approval, finish_with)]
    async fn three(&self) -> ToolResult<()>;
}

fn main() {}
