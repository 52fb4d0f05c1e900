//! Messages as `genai` takes them.

use ::genai::chat::{ChatMessage, ContentPart, MessageContent, ToolCall, ToolResponse};
use helix_agents_core::Transcript;
use helix_agents_core::message::{
    AssistantMessage, FilePart, Message, Thinking, ToolMessage, UserMessage,
};
use helix_agents_core::model::ModelError;
use serde_json::{Map, Value, json};

use super::PROVIDER;
use super::support::Support;
use crate::provider::call_ids::wire_call_id;
use crate::provider::files::{FileSource, text_of};
use crate::provider::wire::unknown_message;

/// The names of what is kept with reasoning.
pub(super) const MODEL: &str = "model";
/// Parts that `genai` wants back at the beginning of the reply: signatures, and what they sign.
pub(super) const PARTS: &str = "parts";

/// The text of a reply that would have no content, which many providers refuse.
const EMPTY_REPLY: &str = "(no reply)";

/// Returns a conversation for one model. Reasoning of another model is left out.
pub(super) fn messages(
    history: &Transcript,
    model: &str,
    support: Support,
) -> Result<Vec<ChatMessage>, ModelError> {
    let mut messages = Vec::with_capacity(history.len());
    let mut results = Vec::new();
    for message in history.iter() {
        if let Message::Tool(one) = message {
            results.push(result(one));
            continue;
        }
        flush(&mut results, &mut messages);
        messages.push(match message {
            Message::User(user) => ChatMessage::user(user_content(user, support)?),
            Message::Assistant(reply) => ChatMessage::assistant(reply_content(reply, model)?),
            _ => return Err(unknown_message()),
        });
    }
    flush(&mut results, &mut messages);
    Ok(messages)
}

/// Adds the results of a step as one message, which some providers demand.
fn flush(results: &mut Vec<ToolResponse>, messages: &mut Vec<ChatMessage>) {
    if !results.is_empty() {
        messages.push(ChatMessage::from(std::mem::take(results)));
    }
}

fn result(result: &ToolMessage) -> ToolResponse {
    let id = wire_call_id(&result.tool_call_id);
    ToolResponse::new(id, result.content.as_str()).with_fn_name(&result.tool_name)
}

fn user_content(user: &UserMessage, support: Support) -> Result<MessageContent, ModelError> {
    let mut parts = Vec::with_capacity(user.files.len() + 1);
    if !user.content.is_empty() || user.files.is_empty() {
        parts.push(ContentPart::from_text(user.content.as_str()));
    }
    for file in &user.files {
        parts.push(file_part(file, support)?);
    }
    Ok(MessageContent::from_parts(parts))
}

fn file_part(file: &FilePart, support: Support) -> Result<ContentPart, ModelError> {
    if let Some(text) = text_of(file) {
        return Ok(ContentPart::from_text(text));
    }
    support.require_file(file)?;
    let (media_type, name) = (file.media_type.as_str(), file.filename.clone());
    Ok(match FileSource::of(file) {
        FileSource::Url(url) => ContentPart::from_binary_url(media_type, url, name),
        FileSource::Base64(data) => ContentPart::from_binary_base64(media_type, &*data, name),
    })
}

fn reply_content(reply: &AssistantMessage, model: &str) -> Result<MessageContent, ModelError> {
    let mut parts = reasoning(reply, model)?;
    let text = reply.content();
    let has_calls = reply.tool_calls().next().is_some();
    // One part: `genai` puts lines between several.
    if let Some(text) = text.or((!has_calls).then(|| EMPTY_REPLY.to_owned())) {
        parts.push(ContentPart::from_text(text));
    }
    parts.extend(reply.tool_calls().map(|call| {
        ContentPart::ToolCall(ToolCall {
            call_id: wire_call_id(&call.id).into_owned(),
            fn_name: call.name.to_string(),
            fn_arguments: match &*call.arguments {
                Value::Object(arguments) => Value::Object(arguments.clone()),
                other => json!({ "arguments": other }),
            },
            thought_signatures: None,
        })
    }));
    Ok(MessageContent::from_parts(parts))
}

/// Returns the reasoning of a reply of this model: the parts that were kept, or else its text.
fn reasoning(reply: &AssistantMessage, model: &str) -> Result<Vec<ContentPart>, ModelError> {
    let ours = || {
        reply
            .thinking()
            .filter_map(|it| Some((it, ours(it, model)?)))
    };
    if let Some(parts) = ours().find_map(|(_, ours)| ours.get(PARTS)) {
        return serde_json::from_value(parts.clone()).map_err(|_| unknown_message());
    }
    let text: String = ours().map(|(thinking, _)| thinking.text.as_str()).collect();
    let part = (!text.is_empty()).then_some(ContentPart::ReasoningContent(text));
    Ok(part.into_iter().collect())
}

fn ours<'a>(thinking: &'a Thinking, model: &str) -> Option<&'a Map<String, Value>> {
    let ours = thinking.provider_metadata.as_ref()?.get(PROVIDER)?;
    let is_same = ours.get(MODEL).and_then(Value::as_str) == Some(model);
    ours.as_object().filter(|_| is_same)
}
