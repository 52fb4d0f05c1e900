//! One process asks for an approval and ends; another one answers tomorrow and resumes the run.
//!
//! ```sh
//! cargo run -p approval-tomorrow                     # both, one after the other
//! cargo run -p approval-tomorrow -- ask helix.db     # today
//! cargo run -p approval-tomorrow -- answer helix.db  # tomorrow
//! ```
//!
//! The first process starts a turn with a call that needs an approval, prints the call and ends. Only
//! a SQLite file is left. The second process knows nothing of the first. It lists the pending calls in
//! the file, approves them, resumes the session, and prints the outcome. The model is scripted, so no
//! key is needed.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use helix_agents::models::{Script, ScriptedModel};
use helix_agents::prelude::*;

const SCRIPT: &str = r#"{ "default": [
    { "text": "This needs a yes.", "tool_calls": [ { "id": "deploy", "name": "deploy", "arguments": { "version": "1.4.0" } } ] },
    { "text": "Done: {{tool_result:deploy}}." } ] }"#;

struct Operations;

#[toolset]
impl Operations {
    /// Put a version into production.
    #[tool(approval)]
    async fn deploy(&self, cx: &ToolCx, version: String) -> ToolResult<String> {
        // The key is the same in every process, so a service that knows it deploys once.
        let _ = cx.idempotency_key();
        Ok(format!("version {version} is live"))
    }
}

fn operator() -> anyhow::Result<Agent> {
    let agent = Agent::builder("operator")
        .model(ScriptedModel::new(Script::parse(SCRIPT)?))
        .system_prompt("Deploy what you are told to.")
        .tools(Operations)
        .build()?;
    Ok(agent)
}

async fn open(file: &Path) -> anyhow::Result<LocalRuntime> {
    Ok(LocalRuntime::new(SqliteStore::open(file).await?))
}

/// Today: starts a turn, and ends when the turn waits for an approval.
async fn ask(file: &Path) -> anyhow::Result<()> {
    let (runtime, operator) = (open(file).await?, operator()?);
    let run = runtime.execute(&operator, "Deploy 1.4.0.").await?;
    let Outcome::Suspended(pause) = run.outcome().await? else {
        anyhow::bail!("the turn should wait for an approval");
    };
    for call in pause.pending() {
        println!(
            "ask:    {}({}) needs an approval",
            call.tool_name, call.input
        );
    }
    runtime.shutdown(Duration::from_secs(10)).await;
    println!("ask:    the process ends, the question stays");
    Ok(())
}

/// Tomorrow: approves every pending call and resumes its session.
async fn answer(file: &Path) -> anyhow::Result<()> {
    let (runtime, operator) = (open(file).await?, operator()?);
    let pending = runtime.pending(Pending::all()).await?;
    println!("answer: {} pending", pending.len());
    for call in pending {
        println!("answer: {}({}), approved", call.tool_name, call.input);
        runtime.submit(call.approve().by("ada")).await?;
        let run = runtime.resume(&operator, &call.root_session_id).await?;
        match run.outcome().await? {
            Outcome::Done(text) => println!("answer: {text}"),
            other => anyhow::bail!("the turn ended as {other:?}"),
        }
    }
    runtime.shutdown(Duration::from_secs(10)).await;
    Ok(())
}

/// Runs this program twice, once for each day, each time as a process of its own.
fn run_both() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("helix.db");
    for day in ["ask", "answer"] {
        let program = std::env::current_exe()?;
        let status = Command::new(program).arg(day).arg(&file).status()?;
        anyhow::ensure!(status.success(), "`{day}` failed: {status}");
    }
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => run_both(),
        ["ask", file] => ask(file.as_ref()).await,
        ["answer", file] => answer(file.as_ref()).await,
        _ => anyhow::bail!("usage: approval-tomorrow [ask|answer FILE]"),
    }
}
