//! A shop, as a user of Helix Agents writes it: an agent with a tool, typed and not.

use helix_agents::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stand-in for a database pool.
#[derive(Debug, Clone, Default)]
pub struct Pool;

/// The error of a database query.
#[derive(Debug)]
pub struct PoolError;

impl std::fmt::Display for PoolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the database failed")
    }
}

impl std::error::Error for PoolError {}

impl Pool {
    async fn refund(
        &self,
        tenant: &str,
        order_id: &str,
        cents: u64,
        key: &str,
    ) -> Result<Receipt, PoolError> {
        if order_id.is_empty() || key.is_empty() {
            return Err(PoolError);
        }
        Ok(Receipt {
            text: format!("{tenant}: {cents} of {order_id}"),
        })
    }
}

/// The result of a refund.
#[derive(Debug, Serialize)]
pub struct Receipt {
    text: String,
}

/// The state of a session.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cart {
    /// How many refunds there were.
    pub refunds: u32,
}

/// The tools of the shop, with the database they need.
#[derive(Debug)]
pub struct Shop {
    db: Pool,
}

#[toolset]
impl Shop {
    /// Refund part or all of an order.
    #[tool(approval_if = |a| a.cents > 10_000)]
    async fn refund(&self, cx: &ToolCx, order_id: String, cents: u64) -> ToolResult<Receipt> {
        let tenant: String = cx.metadata("tenant")?;
        cx.update_state(|s: &mut Cart| s.refunds += 1)?;
        Ok(self
            .db
            .refund(&tenant, &order_id, cents, cx.idempotency_key())
            .await?)
    }
}

/// An agent that answers in text.
pub fn support() -> anyhow::Result<Agent> {
    let agent = Agent::builder("support")
        .model("anthropic/claude-sonnet-4-5")
        .system_prompt("Be brief.")
        .tools(Shop { db: Pool })
        .build()?;
    Ok(agent)
}

/// The typed output of the analyst.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
pub struct Report {
    /// One sentence.
    pub summary: String,
}

/// An agent that answers with a report.
pub fn analyst() -> Result<Agent<Report>, Error> {
    let agent = Agent::builder("analyst")
        .model("anthropic/claude-sonnet-4-5")
        .output::<Report>()
        .build()?;
    Ok(agent)
}
