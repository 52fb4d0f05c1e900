//! An agent that asks before it pays, and does not forget the question.
//!
//! ```sh
//! cargo run -p quickstart
//! ```
//!
//! A customer complains. The agent looks the order up, wants to refund it, and stops: that much
//! money needs a yes. The run is over at this point, and everything is in a SQLite file, so the
//! process could end here and the yes come tomorrow. The program gives it by itself, resumes, and
//! shows the typed result. The model is scripted, so no key is needed.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use helix_agents::models::{Script, ScriptedModel};
use helix_agents::prelude::*;
use helix_agents::{ChunkPayload, Handle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The scripted replies of the model, so that the example runs without a key. A real agent names a
/// model instead.
const SCRIPT: &str = include_str!("script.json");

struct Shop;

#[derive(Serialize)]
struct Order {
    item: String,
    paid_cents: u64,
}

#[toolset]
impl Shop {
    /// Look up an order by its id.
    #[tool(read_only)]
    async fn find_order(&self, order_id: String) -> ToolResult<Order> {
        if order_id != "42" {
            return Err(ToolError::tell_model("order ids look like `42`"));
        }
        let item = "a teapot".to_owned();
        Ok(Order {
            item,
            paid_cents: 4_900,
        })
    }

    /// Refund part or all of an order.
    #[tool(approval_if = |a| a.cents > 1_000)]
    async fn refund(
        &self,
        order_id: String,
        /// Amount in cents, never more than was paid.
        cents: u64,
    ) -> ToolResult<String> {
        Ok(format!("refunded {cents} cents of order {order_id}"))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Resolution {
    summary: String,
    refunded_cents: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let support = Agent::builder("support")
        .model(ScriptedModel::new(Script::parse(SCRIPT)?))
        .system_prompt("Resolve the complaint. Refund only what the order shows was paid.")
        .tools(Shop)
        .output::<Resolution>()
        .build()?;

    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("helix.db")).await?;
    let runtime = LocalRuntime::new(store);

    let complaint = "Order 42 arrived broken.";
    println!("customer: {complaint}");
    let mut run = runtime.execute(&support, complaint).await?;
    let resolution = loop {
        show(&run).await?;
        match run.outcome().await? {
            Outcome::Done(resolution) => break resolution,
            // Nothing waits in memory now: store the session's id, exit, and answer tomorrow.
            Outcome::Suspended(pause) => {
                for call in pause.pending() {
                    println!("\nmay it {}({})?", call.tool_name, call.input);
                    println!("  yes, says this program; you would ask somebody\n");
                    runtime.submit(call.approve()).await?;
                }
                run = runtime.resume(&support, pause.session()).await?;
            }
            other => anyhow::bail!("the turn came out as {other:?}"),
        }
    };

    println!("\nresult: {}", resolution.summary);
    println!("refunded: {} cents", resolution.refunded_cents);
    let usage = run.usage().await?;
    let (tokens, tools) = (usage.tokens, usage.tools);
    println!(
        "used: {} tokens in, {} out, {} tool calls",
        tokens.input, tokens.output, tools.calls
    );
    runtime.shutdown(Duration::from_secs(10)).await;
    Ok(())
}

/// Prints what a run says while it says it.
async fn show<Out>(run: &Handle<Out>) -> anyhow::Result<()> {
    let mut chunks = run.chunks();
    let mut in_text = false;
    while let Some(stored) = chunks.next().await {
        let payload = stored?.chunk.payload;
        if let ChunkPayload::TextDelta { delta } = &payload {
            print!("{}{delta}", if in_text { "" } else { "agent: " });
            in_text = true;
            continue;
        }
        if std::mem::take(&mut in_text) {
            println!();
        }
        match payload {
            ChunkPayload::ToolStart {
                tool_name,
                arguments,
                ..
            } => {
                println!("  -> {tool_name}({arguments})");
            }
            ChunkPayload::ToolEnd { result, .. } => println!("  <- {result}"),
            ChunkPayload::ToolError { error, .. } => println!("  <- failed: {error}"),
            ChunkPayload::RunPaused { .. } => println!("  (paused: nothing runs, all is stored)"),
            _ => {}
        }
    }
    Ok(())
}
