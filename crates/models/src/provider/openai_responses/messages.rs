//! Messages as Responses takes them: as items.

use helix_agents_core::message::{AssistantMessage, AssistantPart, FilePart, Message, Thinking};
use helix_agents_core::model::{MessageFormat, ModelError};
use serde_json::{Value, json};

use crate::provider::Provider;
use crate::provider::arguments::object_arguments;
use crate::provider::body::write;
use crate::provider::call_ids::wire_call_id;
use crate::provider::files::{FileSource, unsupported};
use crate::provider::openai_content::user_content;
use crate::provider::wire::unknown_message;

/// The format of messages for one model. Reasoning of another model is left out.
///
/// Each item ends with a comma, because a reply may have no item at all.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ResponsesMessages {
    model: String,
}

impl ResponsesMessages {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
        }
    }

    pub(super) fn model(&self) -> &str {
        &self.model
    }

    fn assistant(&self, reply: &AssistantMessage) -> Vec<Value> {
        let mut items: Vec<Value> = reply
            .parts
            .iter()
            .filter_map(|part| self.item(part))
            .collect();
        // The provider refuses reasoning that nothing follows, as in a reply that was cut off.
        let is_reasoning =
            |item: &Value| item.get("type").and_then(Value::as_str) == Some("reasoning");
        while items.last().is_some_and(is_reasoning) {
            items.pop();
        }
        items
    }

    /// Returns a part as an item. Only reasoning has its id: the provider looks up the ids of other items, and
    /// wants all the reasoning that it gave with them.
    fn item(&self, part: &AssistantPart) -> Option<Value> {
        match part {
            AssistantPart::Text { text, .. } if text.is_empty() => None,
            AssistantPart::Text {
                text,
                provider_metadata,
            } => {
                let ours = self.ours(provider_metadata.as_ref());
                Some(match ours.and_then(|ours| ours.get("phase")) {
                    Some(phase) => json!({
                        "type": "message", "role": "assistant", "content": text, "phase": phase,
                    }),
                    None => json!({ "type": "message", "role": "assistant", "content": text }),
                })
            }
            AssistantPart::Thinking(thinking) => self.kept(thinking),
            AssistantPart::ToolCall(call) => Some(json!({
                "type": "function_call",
                "call_id": wire_call_id(&call.id),
                "name": call.name,
                "arguments": object_arguments(call),
            })),
            _ => None,
        }
    }

    /// Returns an item that is given back as it came.
    fn kept(&self, thinking: &Thinking) -> Option<Value> {
        let ours = self.ours(thinking.provider_metadata.as_ref())?;
        let mut item = ours.get("item")?.clone();
        let fields = item.as_object_mut()?;
        let is_reasoning = fields.get("type").and_then(Value::as_str) == Some("reasoning");
        if is_reasoning && !fields.contains_key("summary") {
            let summary = if thinking.text.is_empty() {
                json!([])
            } else {
                json!([{ "type": "summary_text", "text": thinking.text }])
            };
            fields.insert("summary".to_owned(), summary);
        }
        Some(item)
    }

    /// Returns the data that this model gave to a part.
    fn ours<'a>(&self, metadata: Option<&'a Value>) -> Option<&'a Value> {
        let ours = metadata?.get(Provider::OpenAiResponses.name())?;
        let is_same = ours.get("model").and_then(Value::as_str) == Some(&self.model);
        is_same.then_some(ours)
    }
}

impl MessageFormat for ResponsesMessages {
    fn render(
        &self,
        message: &Message,
        _previous: Option<&Message>,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        let items = match message {
            Message::User(user) => {
                vec![
                    json!({ "type": "message", "role": "user", "content": user_content(user, "input_text", file_part)? }),
                ]
            }
            Message::Assistant(reply) => self.assistant(reply),
            Message::Tool(result) => vec![json!({
                "type": "function_call_output",
                "call_id": wire_call_id(&result.tool_call_id),
                "output": result.content,
            })],
            _ => return Err(unknown_message()),
        };
        for item in &items {
            write(out, item)?;
            out.push(b',');
        }
        Ok(())
    }
}

fn file_part(file: &FilePart) -> Result<Value, ModelError> {
    let source = FileSource::of(file);
    let media_type = file.media_type.as_str();
    if media_type.starts_with("image/") {
        let url = source.url(media_type);
        return Ok(json!({ "type": "input_image", "detail": "auto", "image_url": url }));
    }
    if media_type.starts_with("audio/") || media_type.starts_with("video/") {
        let remedy = "send an image, a document or a text";
        return Err(unsupported("openai-responses", file, remedy));
    }
    if let FileSource::Url(url) = source {
        return Ok(json!({ "type": "input_file", "file_url": url }));
    }
    let unnamed = match media_type {
        "application/pdf" => "file.pdf",
        _ => "file",
    };
    let name = file.filename.as_deref().unwrap_or(unnamed);
    let data = source.url(media_type);
    Ok(json!({ "type": "input_file", "filename": name, "file_data": data }))
}
