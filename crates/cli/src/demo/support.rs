//! A demo agent that looks up and refunds an order.

use helix_agents_core::Tool;
use helix_agents_core::agent::{Agent, AnyAgent};
use helix_agents_core::tool::{ToolCx, ToolError, ToolResult};
use serde_json::{Value, json};

const SCRIPT: &str = r#"{
  "rules": [
    { "match": "efund", "steps": [
      { "thinking": "The order comes first.", "text": "Let me look at the order. ",
        "tool_calls": [ { "id": "lookup", "name": "lookup_order", "arguments": { "order": "42" } } ] },
      { "text": "It was paid and arrived broken, so I can refund it. ",
        "tool_calls": [ { "id": "refund", "name": "refund", "arguments": { "order": "42", "cents": 1999 } } ] },
      { "text": "The result of the refund: {{tool_result:refund}}" } ] },
    { "match": "rder", "steps": [
      { "tool_calls": [ { "id": "lookup", "name": "lookup_order", "arguments": { "order": "42" } } ] },
      { "text": "Order 42: {{tool_result:lookup}}" } ] } ],
  "default": [ { "text": "Hello! I am a scripted demo. Ask me to refund your order, or where it is. You said: {{last_user}}" } ]
}"#;

pub(super) fn agent() -> anyhow::Result<AnyAgent> {
    let lookup = Tool::raw(
        "lookup_order",
        "Looks an order up by its number.",
        json!({ "type": "object", "required": ["order"], "properties": { "order": { "type": "string" } } }),
        async |input: Value, _| match input.get("order").and_then(Value::as_str) {
            Some("42") => Ok(json!({ "order": "42", "paidCents": 1999, "status": "delivered" })),
            _ => Err(ToolError::tell_model("order not found; the demo has order 42")),
        },
    )
    .read_only();
    let refund = Tool::raw(
        "refund",
        "Refunds an order. A person has to approve.",
        json!({
            "type": "object",
            "required": ["order", "cents"],
            "properties": { "order": { "type": "string" }, "cents": { "type": "integer", "minimum": 1 } },
        }),
        refund,
    )
    .approval();
    let agent = Agent::builder("support")
        .description("Answers customers; refunds need an approval")
        .examples([
            "Refund my order 42, it arrived broken.",
            "Where is my order 42?",
        ])
        .model(super::scripted(SCRIPT)?)
        .system_prompt("You help customers with their orders.")
        .tools([lookup, refund])
        .initial_state(json!({ "refundedCents": 0 }))
        .build()?;
    Ok(agent.erase())
}

async fn refund(input: Value, cx: ToolCx) -> ToolResult<Value> {
    let cents = input
        .get("cents")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    cx.edit_state(|draft| draft.increment("/refundedCents", cents))?;
    Ok(json!({ "refundedCents": cents }))
}
