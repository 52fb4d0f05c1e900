//! An editor gives tasks to two other agents; one of them asks a person before it publishes.
//!
//! ```sh
//! cargo run -p sub-agents
//! ```
//!
//! Each agent works in a session of its own. What all of them do is on the one stream of the editor's session, from
//! which this program prints the tree as it works. The publisher needs an approval, so the whole tree pauses: nothing
//! is kept in memory, and the answer is given to the editor's session, which knows whose call it is. The models are
//! scripted, so no key is needed.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::HashMap;

use helix_agents::core::stream::{Chunk, ChunkPayload};
use helix_agents::models::{Script, ScriptedModel};
use helix_agents::prelude::*;

const EDITOR: &str = r#"{ "default": [
    { "text": "Facts first.", "tool_calls": [
        { "id": "facts", "name": "subagent__researcher", "arguments": { "message": "How tall is the tower?" } },
        { "id": "print", "name": "subagent__publisher", "arguments": { "message": "Publish: the tower is open." } } ] },
    { "text": "{{tool_result:facts}} And: {{tool_result:print}}" } ] }"#;

const RESEARCHER: &str = r#"{ "default": [
    { "tool_calls": [ { "id": "look", "name": "look_up", "arguments": { "what": "tower" } } ] },
    { "text": "It is {{tool_result:look}} tall." } ] }"#;

const PUBLISHER: &str = r#"{ "default": [
    { "tool_calls": [ { "id": "publish", "name": "publish", "arguments": { "text": "The tower is open." } } ] },
    { "text": "it is published." } ] }"#;

struct Library;

#[toolset]
impl Library {
    /// Look a thing up.
    #[tool(read_only)]
    async fn look_up(&self, what: String) -> ToolResult<String> {
        Ok(match what.as_str() {
            "tower" => "330 m",
            _ => "unknown",
        }
        .to_owned())
    }
}

struct Press;

#[toolset]
impl Press {
    /// Publish a text for everybody.
    #[tool(approval)]
    async fn publish(&self, text: String) -> ToolResult<String> {
        Ok(format!("published {text:?}"))
    }
}

fn scripted(script: &str) -> anyhow::Result<ScriptedModel> {
    Ok(ScriptedModel::new(Script::parse(script)?))
}

fn editor() -> anyhow::Result<Agent> {
    let researcher = Agent::builder("researcher")
        .description("Finds facts.")
        .model(scripted(RESEARCHER)?)
        .tools(Library)
        .build()?;
    let publisher = Agent::builder("publisher")
        .description("Publishes texts, if somebody agrees.")
        .model(scripted(PUBLISHER)?)
        .tools(Press)
        .build()?;
    let editor = Agent::builder("editor")
        .model(scripted(EDITOR)?)
        .system_prompt("Let others find the facts and publish.")
        .tools(Tool::sub_agent(&researcher))
        .tools(Tool::sub_agent(&publisher))
        .build()?;
    Ok(editor)
}

/// Prints what happens, indented by how deep in the tree it does.
#[derive(Default)]
struct Tree {
    depths: HashMap<SessionId, usize>,
}

impl Tree {
    fn print(&mut self, chunk: &Chunk) {
        let base = &chunk.base;
        let depth = self.depths.get(&base.session_id).copied().unwrap_or(0);
        let line = match &chunk.payload {
            ChunkPayload::SubagentStart {
                sub_agent_type,
                sub_session_id,
                ..
            } => {
                self.depths.insert(sub_session_id.clone(), depth + 1);
                format!("starts {sub_agent_type}")
            }
            ChunkPayload::SubagentEnd { sub_agent_type, .. } => {
                format!("hears from {sub_agent_type}")
            }
            ChunkPayload::ToolStart { tool_name, .. } if !tool_name.starts_with("subagent__") => {
                format!("calls {tool_name}")
            }
            ChunkPayload::ToolApprovalRequest { tool_name, .. } => {
                format!("wants to call {tool_name}")
            }
            ChunkPayload::RunPaused { .. } => "waits".to_owned(),
            ChunkPayload::RunResumed {} => "goes on".to_owned(),
            _ => return,
        };
        println!(
            "{:indent$}{} {line}",
            "",
            base.agent_type,
            indent = 2 * depth
        );
    }

    /// Prints a run until it has ended.
    async fn follow(&mut self, run: &Handle<String>) -> anyhow::Result<Outcome<String>> {
        let mut chunks = run.chunks();
        while let Some(stored) = chunks.next().await {
            self.print(&stored?.chunk);
        }
        Ok(run.outcome().await?)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (runtime, editor) = (LocalRuntime::new(MemoryStore::new()), editor()?);
    let mut tree = Tree::default();
    let run = runtime.execute(&editor, "Write about the tower.").await?;
    let Outcome::Suspended(pause) = tree.follow(&run).await? else {
        anyhow::bail!("the publisher should wait for an approval");
    };
    for call in pause.pending() {
        println!("you: yes, {}({})", call.tool_name, call.input);
        runtime.submit(call.approve()).await?;
    }
    let run = runtime.resume(&editor, pause.session()).await?;
    match tree.follow(&run).await? {
        Outcome::Done(text) => println!("{text}"),
        other => anyhow::bail!("the turn should be done: {other:?}"),
    }
    Ok(())
}
