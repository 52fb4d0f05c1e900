//! An agent whose process dies at the worst moment.

use std::sync::Arc;

use anyhow::Result;
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::{Agent, ToolError, ToolResult};
use helix_agents_models::{Script, ScriptedModel};
use serde_json::{Value, json};

/// Whether the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// Inside of the call.
    Inside,
    /// Nowhere. The call fails the run, for it must not be run a second time.
    Nowhere,
}

const SCRIPT: &str = r#"{ "default": [
    { "tool_calls": [ { "id": "d1", "name": "deploy", "arguments": {} } ] },
    { "text": "deployed? {{tool_result:d1}}" } ] }"#;

/// An agent that makes one call, which has an effect and is not idempotent.
///
/// # Errors
/// When the agent is not well defined.
pub fn deployer(crash: Crash) -> Result<Agent> {
    let deploy = move |_: Value, _: ToolCx| async move {
        let again: ToolResult<Value> = Err(ToolError::fatal("it was run a second time"));
        match crash {
            // No destructor runs, as in a crash.
            Crash::Inside => std::process::abort(),
            Crash::Nowhere => again,
        }
    };
    let agent = Agent::builder("deployer")
        .model(Arc::new(ScriptedModel::new(Script::parse(SCRIPT)?)))
        .system_prompt("Deploy.")
        .tools(Tool::raw(
            "deploy",
            "Deploys.",
            json!({ "type": "object" }),
            deploy,
        ))
        .build()?;
    Ok(agent)
}
