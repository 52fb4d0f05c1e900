//! A demo agent that takes notes, has another agent check the facts and a third one write, and gives an output of a
//! fixed shape.

use std::sync::Arc;

use helix_agents_core::agent::{Agent, AnyAgent};
use helix_agents_core::model::Model;
use helix_agents_core::tool::{PersistentAgent, Tool};
use serde_json::json;

use crate::tools::{Allowed, Builtin};

const SCRIPT: &str = r#"{
  "default": [
    { "thinking": "First the facts, then the sum.", "text": "Taking notes. ",
      "tool_calls": [
        { "id": "note", "name": "notes", "arguments": { "action": "add", "text": "Asked: {{last_user}}" } },
        { "id": "sum", "name": "calculator", "arguments": { "expression": "6 * 7" } },
        { "id": "check", "name": "subagent__checker", "arguments": { "message": "Is 6 * 7 = 42?" } },
        { "id": "draft", "name": "companion__spawnAgent",
          "arguments": { "agent": "writer", "name": "draft", "initialMessage": "Draft a sentence about 6 * 7." } } ] },
    { "text": "Shorter, please. ",
      "tool_calls": [
        { "id": "again", "name": "companion__sendMessage",
          "arguments": { "name": "draft", "message": "Shorter." } } ] },
    { "finish": { "summary": "The answer is {{tool_result:sum}}.", "sources": ["calculator", "notes", "checker", "writer"] } } ]
}"#;

const CHECKER: &str = r#"{
  "default": [
    { "tool_calls": [ { "id": "again", "name": "calculator", "arguments": { "expression": "6 * 7" } } ] },
    { "text": "Checked: it is {{tool_result:again}}." } ]
}"#;

const WRITER: &str = r#"{
  "default": [
    { "text": "Six times seven is forty-two." },
    { "text": "It is 42." } ]
}"#;

/// The agent, with its own model or with this one.
pub(super) fn agent(model: Option<&Arc<dyn Model>>) -> anyhow::Result<AnyAgent> {
    let model_of = |script| -> anyhow::Result<Arc<dyn Model>> {
        match model {
            Some(model) => Ok(Arc::clone(model)),
            None => Ok(super::scripted(script)?),
        }
    };
    let builtin =
        |which: Builtin, name| which.tool(name, which.description(), Allowed::public(), None);
    let checker = Agent::builder("checker")
        .description("Checks a fact that can be computed, and says whether it is right")
        .model(model_of(CHECKER)?)
        .system_prompt("Compute what you are asked, and say whether it is right.")
        .tools(builtin(Builtin::Calculator, "calculator"))
        .build()?;
    let writer = Agent::builder("writer")
        .description("Writes a sentence, and improves it when asked")
        .model(model_of(WRITER)?)
        .system_prompt("Write what you are asked for, in one sentence.")
        .build()?;
    let agent = Agent::builder("researcher")
        .description("Takes notes and gives a summary")
        .examples(["Look into how much six times seven is."])
        .model(model_of(SCRIPT)?)
        .system_prompt(
            "Research the question, take notes, have facts checked, and finish with a summary.",
        )
        .tools([
            builtin(Builtin::Notes, "notes"),
            builtin(Builtin::Calculator, "calculator"),
            builtin(Builtin::Clock, "clock"),
        ])
        .tools(Tool::sub_agent(&checker))
        .persistent_agents([PersistentAgent::blocking(&writer)])
        .initial_state(json!({ "notes": [] }))
        .output_schema(json!({
            "type": "object",
            "required": ["summary", "sources"],
            "properties": {
                "summary": { "type": "string" },
                "sources": { "type": "array", "items": { "type": "string" } },
            },
        }))
        .build()?;
    Ok(agent)
}
