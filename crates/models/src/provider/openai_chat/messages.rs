//! Messages as Chat Completions takes them.

use std::borrow::Cow;

use helix_agents_core::message::{AssistantMessage, AssistantPart, FilePart, Message, Thinking};
use helix_agents_core::model::{MessageFormat, ModelError};
use serde_json::{Map, Value, json};

use crate::provider::Provider;
use crate::provider::arguments::object_arguments;
use crate::provider::body::write;
use crate::provider::call_ids::wire_call_id;
use crate::provider::files::{FileSource, unsupported};
use crate::provider::openai_content::user_content;
use crate::provider::wire::unknown_message;

/// The field of reasoning that comes among the parts of the content.
pub(super) const IN_CONTENT: &str = "content";

/// The format of messages for one model. Reasoning of another model is left out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChatMessages {
    model: String,
}

impl ChatMessages {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
        }
    }

    pub(super) fn model(&self) -> &str {
        &self.model
    }

    fn assistant(&self, reply: &AssistantMessage) -> Value {
        let mut message = Map::new();
        message.insert("role".to_owned(), "assistant".into());
        let calls: Vec<Value> = reply
            .tool_calls()
            .map(|call| {
                json!({
                    "id": wire_call_id(&call.id),
                    "type": "function",
                    "function": { "name": call.name, "arguments": object_arguments(call) },
                })
            })
            .collect();
        match self.content(reply) {
            Some(content) => message.insert("content".to_owned(), content),
            None if calls.is_empty() => message.insert("content".to_owned(), "".into()),
            None => None,
        };
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), calls.into());
        }
        for part in reply.parts.iter() {
            if let AssistantPart::Thinking(thinking) = part {
                self.add_reasoning(thinking, &mut message);
            }
        }
        Value::Object(message)
    }

    /// Returns the content of a reply: its text, or its parts where reasoning came among them.
    fn content(&self, reply: &AssistantMessage) -> Option<Value> {
        let is_among = |thinking: &Thinking| {
            let field = self.ours(thinking).and_then(|ours| ours.get("field"));
            field.and_then(Value::as_str) == Some(IN_CONTENT)
        };
        if !reply.thinking().any(is_among) {
            return reply.content().map(Value::from);
        }
        let part = |part: &AssistantPart| match part {
            AssistantPart::Thinking(thinking) if is_among(thinking) => {
                let text = json!({ "type": "text", "text": thinking.text });
                Some(json!({ "type": "thinking", "thinking": [text] }))
            }
            AssistantPart::Text { text, .. } if !text.is_empty() => {
                Some(json!({ "type": "text", "text": text }))
            }
            _ => None,
        };
        Some(reply.parts.iter().filter_map(part).collect())
    }

    /// Returns the data that this model gave to reasoning.
    fn ours<'a>(&self, thinking: &'a Thinking) -> Option<&'a Value> {
        let metadata = thinking.provider_metadata.as_ref();
        let ours = metadata.and_then(|data| data.get(Provider::OpenAi.name()))?;
        let is_same = ours.get("model").and_then(Value::as_str) == Some(&self.model);
        is_same.then_some(ours)
    }

    /// Gives reasoning back in the fields in which it came.
    fn add_reasoning(&self, thinking: &Thinking, message: &mut Map<String, Value>) {
        let Some(ours) = self.ours(thinking) else {
            return;
        };
        let field = ours.get("field").and_then(Value::as_str);
        if let Some(field) = field.filter(|field| *field != IN_CONTENT) {
            let so_far = message
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default();
            let text = format!("{so_far}{}", thinking.text);
            message.insert(field.to_owned(), text.into());
        }
        if let Some(details) = ours.get("details").and_then(Value::as_array) {
            let so_far = message
                .entry("reasoning_details")
                .or_insert_with(|| json!([]));
            if let Value::Array(so_far) = so_far {
                so_far.extend(details.iter().cloned());
            }
        }
    }
}

impl MessageFormat for ChatMessages {
    fn render(
        &self,
        message: &Message,
        previous: Option<&Message>,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        if previous.is_some() {
            out.push(b',');
        }
        match message {
            Message::User(user) => write(
                out,
                &json!({ "role": "user", "content": user_content(user, "text", file_part)? }),
            ),
            Message::Assistant(reply) => write(out, &self.assistant(reply)),
            Message::Tool(result) => {
                let id = wire_call_id(&result.tool_call_id);
                write(
                    out,
                    &json!({ "role": "tool", "tool_call_id": id, "content": result.content }),
                )
            }
            _ => Err(unknown_message()),
        }
    }
}

fn file_part(file: &FilePart) -> Result<Value, ModelError> {
    let source = FileSource::of(file);
    let media_type = file.media_type.as_str();
    if media_type.starts_with("image/") {
        let url = source.url(media_type);
        return Ok(json!({ "type": "image_url", "image_url": { "url": url } }));
    }
    let FileSource::Base64(data) = &source else {
        let remedy = "send its content instead of its address";
        return Err(unsupported("openai", file, remedy));
    };
    let audio = match media_type {
        "audio/wav" | "audio/x-wav" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    };
    if let Some(format) = audio {
        return Ok(
            json!({ "type": "input_audio", "input_audio": { "data": data, "format": format } }),
        );
    }
    if media_type != "application/pdf" {
        let remedy = "send an image, a PDF, a WAV or MP3 sound, or a text";
        return Err(unsupported("openai", file, remedy));
    }
    let name = file.filename.as_deref().unwrap_or("file.pdf");
    let data: Cow<'_, str> = source.url(media_type);
    Ok(json!({ "type": "file", "file": { "filename": name, "file_data": data } }))
}
