//! A rule that returns neither a `bool` nor a `Result<bool, _>`.

use helix_agents::{ToolResult, toolset};

struct Shop;

#[toolset]
impl Shop {
    /// Refund an order.
    #[tool(approval_if = |a| a.cents)]
    async fn refund(&self, cents: u64) -> ToolResult<u64> {
        Ok(cents)
    }
}

fn main() {}
