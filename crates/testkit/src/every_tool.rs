//! A model that calls every tool.

use futures_util::stream;
use helix_agents_core::message::Message;
use helix_agents_core::model::{EventStream, Model, ModelEvent, ModelRequest, TokenUsage};
use helix_agents_core::step::{FINISH_TOOL, StopReason};
use serde_json::{Map, Value, json};

/// The largest depth of a generated value.
const MAX_DEPTH: usize = 16;

/// A model that calls every tool of its agent once, one after another, and then finishes. Arguments
/// and output are generated from their schemas. The reply is a function of the transcript.
#[derive(Debug, Clone, Copy, Default)]
pub struct EveryTool;

impl Model for EveryTool {
    fn name(&self) -> &str {
        "test/every-tool"
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let history: Vec<&Message> = request.prompt.history().iter().collect();
        let this_turn = history.iter().rev();
        let this_turn = this_turn.take_while(|message| !matches!(message, Message::User(_)));
        let at = this_turn
            .filter(|message| matches!(message, Message::Assistant(_)))
            .count();
        let tools = request.tools.iter();
        let finish = tools.clone().find(|tool| tool.name == FINISH_TOOL);
        let next = tools.filter(|tool| tool.name != FINISH_TOOL).nth(at);
        let (said, stop_reason) = match next.or(finish) {
            Some(tool) => {
                let schema = tool.input.json();
                let arguments = sample(schema, schema, 0).to_string();
                let called = vec![
                    ModelEvent::CallStart {
                        id: Some(format!("call-{}", history.len())),
                        name: tool.name.clone(),
                    },
                    ModelEvent::CallArguments {
                        call: 0,
                        delta: arguments,
                    },
                    ModelEvent::CallEnd {
                        call: 0,
                        provider_metadata: None,
                    },
                ];
                (called, StopReason::ToolUse)
            }
            None => (
                vec![ModelEvent::Text("Done.".to_owned())],
                StopReason::EndTurn,
            ),
        };
        let usage = TokenUsage::default();
        let finished = ModelEvent::Finished { stop_reason, usage };
        let events = said.into_iter().chain([finished]).map(Ok);
        Box::pin(stream::iter(events))
    }
}

/// A value that fits a schema, as far as the common keywords tell.
fn sample(schema: &Value, root: &Value, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return Value::Null;
    }
    let deeper = |schema: &Value| sample(schema, root, depth + 1);
    let pointer = schema.get("$ref").and_then(Value::as_str);
    let referred = pointer.and_then(|text| root.pointer(text.strip_prefix('#')?));
    if let Some(referred) = referred {
        return deeper(referred);
    }
    for key in ["const", "default"] {
        if let Some(value) = schema.get(key) {
            return value.clone();
        }
    }
    for key in ["enum", "examples"] {
        if let Some(value) = schema.get(key).and_then(|list| list.get(0)) {
            return value.clone();
        }
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        if let Some(first) = schema.get(key).and_then(|list| list.get(0)) {
            return deeper(first);
        }
    }
    let kind = schema.get("type");
    let kind = kind.and_then(|kind| kind.as_str().or_else(|| kind.get(0)?.as_str()));
    let least = |key: &str| schema.get(key).and_then(Value::as_u64).unwrap_or_default();
    match kind.unwrap_or("object") {
        "string" => {
            let length = usize::try_from(least("minLength").max(1)).unwrap_or(1);
            Value::String("x".repeat(length.min(1024)))
        }
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        "boolean" => Value::Bool(true),
        "array" => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            let length = least("minItems").min(16);
            (0..length).map(|_| deeper(items)).collect()
        }
        "object" => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let properties = properties.into_iter().flatten();
            let made = properties.map(|(name, schema)| (name.clone(), deeper(schema)));
            Value::Object(made.collect::<Map<_, _>>())
        }
        _ => Value::Null,
    }
}
