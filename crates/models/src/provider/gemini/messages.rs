//! Messages as Gemini takes them: contents with parts.

use helix_agents_core::message::{
    AssistantMessage, AssistantPart, FilePart, Message, Thinking, ToolCall, ToolMessage,
    UserMessage,
};
use helix_agents_core::model::{MessageFormat, ModelError};
use serde_json::{Map, Value, json};

use crate::provider::Provider;
use crate::provider::body::write;
use crate::provider::call_ids::wire_call_id;
use crate::provider::files::{FileSource, text_of, unsupported};
use crate::provider::wire::unknown_message;

/// The signature that Google documents for calls which have none, because another model made them. Without
/// it a request to a model that checks signatures is refused.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The texts of messages that have no part which can be sent. A content without parts is refused.
const EMPTY_MESSAGE: &str = "(empty message)";
const EMPTY_REPLY: &str = "(no reply)";

/// Closes a content.
pub(super) const CLOSED: &[u8] = b"]}";

/// The format of messages for one model. Thoughts and signatures of another model are left out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GeminiContents {
    model: String,
}

impl GeminiContents {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
        }
    }

    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// Whether the model refuses calls without a signature. The models before Gemini 3 take them.
    fn checks_signatures(&self) -> bool {
        let name = self.model.strip_prefix("models/").unwrap_or(&self.model);
        let version = name.strip_prefix("gemini-");
        version.is_some_and(|version| !version.starts_with(['1', '2']))
    }

    fn reply(&self, reply: &AssistantMessage) -> Vec<Value> {
        let parts = reply.parts.iter().filter_map(|part| self.part(part));
        let mut parts: Vec<Value> = parts.collect();
        let is_signed = parts.iter().any(|part| part.get(SIGNATURE).is_some());
        if !is_signed && self.checks_signatures() {
            let mut calls = parts.iter_mut().filter_map(Value::as_object_mut);
            // One signature is enough for all calls of a reply; the first has it.
            if let Some(call) = calls.find(|part| part.contains_key("functionCall")) {
                call.insert(SIGNATURE.to_owned(), NO_SIGNATURE.into());
            }
        }
        if parts.is_empty() {
            parts.push(json!({ "text": EMPTY_REPLY }));
        }
        parts
    }

    fn part(&self, part: &AssistantPart) -> Option<Value> {
        match part {
            AssistantPart::Text {
                text,
                provider_metadata,
            } => self.text(text, provider_metadata.as_ref()),
            AssistantPart::Thinking(thinking) => self.thought(thinking),
            AssistantPart::ToolCall(call) => Some(self.call(call)),
            _ => None,
        }
    }

    fn text(&self, text: &str, metadata: Option<&Value>) -> Option<Value> {
        let ours = self.ours(metadata);
        if let Some(part) = ours.and_then(|ours| ours.get(PART)) {
            return Some(part.clone());
        }
        let signature = ours.and_then(|ours| ours.get(SIGNATURE));
        if text.is_empty() && signature.is_none() {
            return None;
        }
        Some(signed(json!({ "text": text }), signature.cloned()))
    }

    fn thought(&self, thinking: &Thinking) -> Option<Value> {
        self.ours(thinking.provider_metadata.as_ref())?;
        let part = json!({ "text": thinking.text, "thought": true });
        Some(signed(part, thinking.signature.clone().map(Value::from)))
    }

    fn call(&self, call: &ToolCall) -> Value {
        // Arguments are an object here; others have been refused, and the model is shown them as they were.
        let arguments = match &*call.arguments {
            Value::Object(arguments) => json!(arguments),
            other => json!({ "arguments": other }),
        };
        let id = wire_call_id(&call.id);
        let part = json!({ "functionCall": { "id": id, "name": call.name, "args": arguments } });
        let ours = self.ours(call.provider_metadata.as_ref());
        signed(part, ours.and_then(|ours| ours.get(SIGNATURE)).cloned())
    }

    /// Returns the data of this model among that of all providers.
    fn ours<'a>(&self, metadata: Option<&'a Value>) -> Option<&'a Map<String, Value>> {
        let ours = metadata?.get(Provider::Gemini.name())?.as_object()?;
        let is_same = ours.get(MODEL).and_then(Value::as_str) == Some(&self.model);
        is_same.then_some(ours)
    }
}

/// The names of what is kept with a part.
pub(super) const MODEL: &str = "model";
pub(super) const SIGNATURE: &str = "thoughtSignature";
/// A whole part, of a kind that only Gemini knows.
pub(super) const PART: &str = "part";

fn signed(mut part: Value, signature: Option<Value>) -> Value {
    if let (Some(part), Some(signature)) = (part.as_object_mut(), signature) {
        part.insert(SIGNATURE.to_owned(), signature);
    }
    part
}

impl MessageFormat for GeminiContents {
    fn render(
        &self,
        message: &Message,
        previous: Option<&Message>,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        let (role, parts) = match message {
            Message::User(user) => ("user", user_parts(user)?),
            Message::Assistant(reply) => ("model", self.reply(reply)),
            Message::Tool(result) => ("user", vec![response(result)]),
            _ => return Err(unknown_message()),
        };
        // Messages of one kind are one content: results of a step must be, and a reply behind a reply that
        // was cut off may call functions only where it is one with it. Results and a message behind them
        // are two, because only results may answer calls.
        let joins = matches!(
            (message, previous),
            (Message::User(_), Some(Message::User(_)))
                | (Message::Assistant(_), Some(Message::Assistant(_)))
                | (Message::Tool(_), Some(Message::Tool(_)))
        );
        if joins {
            out.push(b',');
        } else {
            if previous.is_some() {
                out.extend(CLOSED);
                out.push(b',');
            }
            out.extend(br#"{"role":"#);
            write(out, role)?;
            out.extend(br#","parts":["#);
        }
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write(out, part)?;
        }
        Ok(())
    }
}

/// A result as an object: Gemini takes nothing else.
fn response(result: &ToolMessage) -> Value {
    let value = result.value();
    let has_error = value.get("error").is_some();
    let response = match value {
        Value::Object(fields) if result.status.is_success() || has_error => Value::Object(fields),
        other if result.status.is_success() => json!({ "result": other }),
        other => json!({ "error": other }),
    };
    let id = wire_call_id(&result.tool_call_id);
    json!({ "functionResponse": { "id": id, "name": result.tool_name, "response": response } })
}

fn user_parts(user: &UserMessage) -> Result<Vec<Value>, ModelError> {
    let mut parts = Vec::with_capacity(user.files.len() + 1);
    if !user.content.is_empty() {
        parts.push(json!({ "text": user.content }));
    }
    for file in &user.files {
        parts.push(file_part(file)?);
    }
    if parts.is_empty() {
        parts.push(json!({ "text": EMPTY_MESSAGE }));
    }
    Ok(parts)
}

fn file_part(file: &FilePart) -> Result<Value, ModelError> {
    let media_type = file.media_type.as_str();
    let data = match FileSource::of(file) {
        FileSource::Url(url) => {
            return Ok(json!({ "fileData": { "mimeType": media_type, "fileUri": url } }));
        }
        FileSource::Base64(data) => data,
    };
    if let Some(text) = text_of(file) {
        return Ok(json!({ "text": text }));
    }
    let known = ["image/", "audio/", "video/", "text/"];
    let is_known = known.iter().any(|kind| media_type.starts_with(kind));
    if !is_known && media_type != "application/pdf" {
        let remedy = "send an image, a sound, a video, a PDF or a text";
        return Err(unsupported("gemini", file, remedy));
    }
    Ok(json!({ "inlineData": { "mimeType": media_type, "data": data } }))
}
