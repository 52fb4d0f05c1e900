//! Options that exclude each other, at the one that was written second.

use helix_agents::{Reconciled, ToolResult, toolset};

struct Shop;

#[toolset]
impl Shop {
    /// Two in the order of the message.
    #[tool(client, finish_with)]
    async fn client_finish_with(&self) -> ToolResult<()>;

    /// The same two in the other order.
    #[tool(finish_with, client)]
    async fn finish_with_client(&self) -> ToolResult<()>;

    /// Two more.
    #[tool(client, approval)]
    async fn client_approval(&self) -> ToolResult<()>;

    /// A rule is approval.
    #[tool(approval_if = |_| true, client)]
    async fn client_approval_if(&self) -> ToolResult<()>;

    /// Two more.
    #[tool(approval, finish_with)]
    async fn approval_finish_with(&self) -> ToolResult<()> {
        Ok(())
    }

    /// A rule is approval.
    #[tool(finish_with, approval_if = |_| true)]
    async fn approval_if_finish_with(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Two that only the macro can see.
    #[tool(approval, approval_if = |_| true)]
    async fn approval_approval_if(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Two more.
    #[tool(client, timeout = "1s")]
    async fn client_timeout(&self) -> ToolResult<()>;

    /// Two more.
    #[tool(client, reconcile = Self::look)]
    async fn client_reconcile(&self) -> ToolResult<()>;

    async fn look(&self) -> ToolResult<Reconciled<()>> {
        Ok(Reconciled::Unknown)
    }

    /// Two more.
    #[tool(client, idempotent)]
    async fn client_idempotent(&self) -> ToolResult<()>;

    /// Two more.
    #[tool(client, on_unknown = "pause")]
    async fn client_on_unknown(&self) -> ToolResult<()>;

    /// One that needs another.
    #[tool(read_only, deadline = "10m")]
    async fn deadline_alone(&self) -> ToolResult<()> {
        Ok(())
    }

    /// Three that exclude each other are one error.
    #[tool(client, approval, finish_with)]
    async fn three(&self) -> ToolResult<()>;
}

fn main() {}
