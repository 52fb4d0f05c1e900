//! A rule that gives neither a `bool` nor a `Result` of one.

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
