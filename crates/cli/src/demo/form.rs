//! A demo agent that asks the user to fill in a form.

use helix_agents_core::Tool;
use helix_agents_core::agent::{Agent, AnyAgent};
use serde_json::json;

const SCRIPT: &str = r#"{
  "default": [
    { "text": "Please fill this in. ",
      "tool_calls": [ { "id": "form", "name": "fill_form", "arguments": { "title": "Your delivery", "fields": ["name", "color"] } } ] },
    { "text": "Thank you. I noted: {{tool_result:form}}" } ]
}"#;

pub(super) fn agent() -> anyhow::Result<AnyAgent> {
    let fill_form = Tool::client_raw(
        "fill_form",
        "Shows a form to the user and waits until it is filled in.",
        json!({
            "type": "object",
            "required": ["title", "fields"],
            "properties": {
                "title": { "type": "string" },
                "fields": { "type": "array", "items": { "type": "string" } },
            },
        }),
    );
    let agent = Agent::builder("form")
        .description("Asks the user to fill in a form")
        .examples(["I would like to have something delivered."])
        .model(super::scripted(SCRIPT)?)
        .system_prompt("Ask for what you need with a form.")
        .tools(fill_form)
        .build()?;
    Ok(agent.erase())
}
