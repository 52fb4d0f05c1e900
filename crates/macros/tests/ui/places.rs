//! The macros in wrong places.

use helix_agents::{ToolResult, tool, toolset};

struct Shop;

/// A tool outside of a toolset.
#[tool]
async fn alone() -> ToolResult<()> {
    Ok(())
}

impl Shop {
    /// A tool outside of a toolset.
    #[tool(approval)]
    async fn in_an_impl(&self) -> ToolResult<()> {
        Ok(())
    }
}

#[toolset]
struct NotAnImpl;

trait Trait {
    async fn of_a_trait(&self) -> ToolResult<()>;
}

#[toolset]
impl Trait for Shop {
    /// A tool in a trait implementation.
    #[tool]
    async fn of_a_trait(&self) -> ToolResult<()> {
        Ok(())
    }
}

#[toolset(approval)]
impl Shop {
    /// A tool in a toolset with options.
    #[tool]
    async fn tool(&self) -> ToolResult<()> {
        Ok(())
    }
}

struct Empty;

#[toolset]
impl Empty {
    fn no_tool(&self) {}
}

fn main() {
    let _ = (NotAnImpl, alone(), Shop.in_an_impl(), Shop.tool(), Empty.no_tool());
}
