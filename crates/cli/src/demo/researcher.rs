//! A demo agent that takes notes and gives an output of a fixed shape.

use helix_agents_core::agent::{Agent, AnyAgent};
use serde_json::json;

use crate::tools::{Allowed, Builtin};

const SCRIPT: &str = r#"{
  "default": [
    { "thinking": "First the facts, then the sum.", "text": "Taking notes. ",
      "tool_calls": [
        { "id": "note", "name": "notes", "arguments": { "action": "add", "text": "Asked: {{last_user}}" } },
        { "id": "sum", "name": "calculator", "arguments": { "expression": "6 * 7" } } ] },
    { "finish": { "summary": "The answer is {{tool_result:sum}}.", "sources": ["calculator", "notes"] } } ]
}"#;

pub(super) fn agent() -> anyhow::Result<AnyAgent> {
    let builtin =
        |which: Builtin, name| which.tool(name, which.description(), Allowed::public(), None);
    let agent = Agent::builder("researcher")
        .description("Takes notes and gives a summary")
        .model(super::scripted(SCRIPT)?)
        .system_prompt("Research the question, take notes, and finish with a summary.")
        .tools([
            builtin(Builtin::Notes, "notes"),
            builtin(Builtin::Calculator, "calculator"),
            builtin(Builtin::Clock, "clock"),
        ])
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
