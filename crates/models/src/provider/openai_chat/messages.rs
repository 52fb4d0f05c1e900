//! Messages as Chat Completions takes them.

use std::borrow::Cow;

use helix_agents_core::message::{
    AssistantMessage, AssistantPart, FilePart, Message, Thinking, UserMessage,
};
use helix_agents_core::model::{MessageFormat, ModelError, ModelErrorKind};
use serde_json::{Map, Value, json};

use crate::provider::Provider;
use crate::provider::arguments::object_arguments;
use crate::provider::body::write;
use crate::provider::call_ids::wire_call_id;
use crate::provider::files::{FileSource, text_of, unsupported};

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
        match reply.content() {
            Some(text) => message.insert("content".to_owned(), text.into()),
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

    /// Gives reasoning back in the fields in which it came.
    fn add_reasoning(&self, thinking: &Thinking, message: &mut Map<String, Value>) {
        let metadata = thinking.provider_metadata.as_ref();
        let Some(ours) = metadata.and_then(|data| data.get(Provider::OpenAi.name())) else {
            return;
        };
        if ours.get("model").and_then(Value::as_str) != Some(&self.model) {
            return;
        }
        if let Some(field) = ours.get("field").and_then(Value::as_str) {
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
            Message::User(user) => {
                write(out, &json!({ "role": "user", "content": content(user)? }))
            }
            Message::Assistant(reply) => write(out, &self.assistant(reply)),
            Message::Tool(result) => {
                let id = wire_call_id(&result.tool_call_id);
                write(
                    out,
                    &json!({ "role": "tool", "tool_call_id": id, "content": result.content }),
                )
            }
            _ => Err(ModelError::new(
                ModelErrorKind::Invalid,
                "the conversation has a kind of message that this client does not know",
            )),
        }
    }
}

fn content(user: &UserMessage) -> Result<Value, ModelError> {
    if user.files.is_empty() {
        return Ok(user.content.as_str().into());
    }
    let mut parts = Vec::with_capacity(user.files.len() + 1);
    if !user.content.is_empty() {
        parts.push(json!({ "type": "text", "text": user.content }));
    }
    for file in &user.files {
        parts.push(file_part(file)?);
    }
    Ok(parts.into())
}

fn file_part(file: &FilePart) -> Result<Value, ModelError> {
    let source = FileSource::of(file);
    let media_type = file.media_type.as_str();
    if media_type.starts_with("image/") {
        let url = source.url(media_type);
        return Ok(json!({ "type": "image_url", "image_url": { "url": url } }));
    }
    if let Some(text) = text_of(file) {
        return Ok(json!({ "type": "text", "text": text }));
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
