//! Histories and streams as lines of text, for comparison in a case.

use helix_agents_core::message::{AssistantPart, Message};
use helix_agents_core::stream::ChunkPayload;
use serde_json::Value;

/// A line for each message: its role and content, without metadata.
pub(super) fn transcript_lines(messages: &[Message]) -> Vec<String> {
    messages.iter().map(line).collect()
}

fn line(message: &Message) -> String {
    match message {
        Message::User(user) if user.is_hidden() => format!("hidden: {}", user.content),
        Message::User(user) => format!("user: {}", user.content),
        Message::Assistant(assistant) => {
            let parts = assistant.parts.iter().map(|part| match part {
                AssistantPart::Text { text, .. } => format!(" {text}"),
                AssistantPart::Thinking(thinking) => format!(" ({})", thinking.text),
                AssistantPart::ToolCall(call) => {
                    format!(" {}={}{}", call.id, call.name, call.arguments)
                }
                other => format!(" {other:?}"),
            });
            format!("assistant:{}", parts.collect::<String>())
        }
        Message::Tool(result) => {
            let status = serde_json::to_value(result.status).unwrap();
            let status = status.as_str().unwrap_or_default();
            format!("{}={status}: {}", result.tool_call_id, result.content)
        }
        other => format!("{other:?}"),
    }
}

/// The type of a chunk, and the id of its call.
pub(super) fn named(payload: &ChunkPayload) -> String {
    let json = serde_json::to_value(payload).unwrap();
    let text = |key: &str| json.get(key).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}", text("type"), text("toolCallId"))
        .trim_end()
        .to_owned()
}

/// The types of the chunks that are not deltas.
pub(super) fn names(payloads: &[ChunkPayload]) -> Vec<String> {
    let is_piece = |name: &str| {
        ["text_delta", "thinking", "tool_arg_stream"]
            .iter()
            .any(|piece| name.starts_with(piece))
    };
    let names = payloads.iter().map(named);
    names.filter(|name| !is_piece(name)).collect()
}
