//! Messages as other programs read them.

use helix_agents_core::Message;
use serde_json::{Map, Value, json};

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
