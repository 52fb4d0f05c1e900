//! Messages as other programs read them.

use helix_agents_core::Message;
use helix_agents_core::session::OpenStep;
use serde_json::{Map, Value, json};

/// The open step as messages: what the model said, and the results that are there. They are marked,
/// for the step may still come to nothing.
pub(crate) fn open(step: &OpenStep) -> Vec<Value> {
    let mut views: Vec<Value> = messages(step).iter().map(of).collect();
    for view in &mut views {
        if let Value::Object(view) = view {
            view.insert("open".to_owned(), true.into());
        }
    }
    views
}

/// The messages of an open step.
pub(crate) fn messages(step: &OpenStep) -> Vec<Message> {
    let said = Message::Assistant(step.message.clone());
    let results = step.calls.iter().filter_map(|call| call.result.clone());
    std::iter::once(said)
        .chain(results.map(Message::Tool))
        .collect()
}

/// A message as `{role, content?, toolCalls?, toolCallId?, toolName?, thinking?, files?, metadata?}`.
pub(crate) fn of(message: &Message) -> Value {
    let mut view = Map::new();
    let mut put = |key: &str, value: Value| view.insert(key.to_owned(), value);
    match message {
        Message::User(user) => {
            put("role", "user".into());
            put("content", user.content.as_str().into());
            if !user.files.is_empty() {
                put("files", json!(user.files));
            }
            if !user.metadata.is_empty() {
                put("metadata", json!(user.metadata));
            }
        }
        Message::Assistant(assistant) => {
            put("role", "assistant".into());
            if let Some(text) = assistant.content() {
                put("content", text.into());
            }
            let calls: Vec<Value> = assistant
                .tool_calls()
                .map(
                    |call| json!({ "id": call.id, "name": call.name, "arguments": call.arguments }),
                )
                .collect();
            if !calls.is_empty() {
                put("toolCalls", calls.into());
            }
            let thoughts: Vec<&str> = assistant
                .thinking()
                .map(|thinking| thinking.text.as_str())
                .collect();
            if !thoughts.is_empty() {
                put("thinking", json!({ "content": thoughts.join("\n") }));
            }
            if !assistant.metadata.is_empty() {
                put("metadata", json!(assistant.metadata));
            }
        }
        Message::Tool(result) => {
            put("role", "tool".into());
            put("content", result.content.as_str().into());
            put("toolCallId", json!(result.tool_call_id));
            put("toolName", result.tool_name.as_str().into());
        }
        _ => {}
    }
    Value::Object(view)
}
