//! What a stock client sends.

use helix_agents_core::message::{FilePart, Metadata, UserMessage};
use helix_agents_core::{IdError, MessageId};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::FrontendError;

/// The largest metadata of a message, in bytes of its JSON. Larger ones are dropped, and the message stays.
const MAX_METADATA_BYTES: usize = 64 * 1024;

/// The metadata key that hides a message from user interfaces.
const HIDDEN: &str = "hidden";

/// The body of a chat request, as the AI SDK's transport writes it. Fields that apps add are ignored.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChatRequest {
    /// The id of the chat, which is the id of the session.
    #[serde(default)]
    pub id: Option<String>,
    /// All messages of the chat. Only the end of them counts; the server has the others.
    pub messages: Vec<IncomingMessage>,
    /// Why the request is made.
    #[serde(default)]
    pub trigger: Trigger,
    /// The message that is edited, continued or made again.
    #[serde(default)]
    pub message_id: Option<String>,
    /// The agent of a new session.
    #[serde(default)]
    pub agent_type: Option<String>,
    /// Metadata of a new session, and of messages that have none.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
}

/// Why a client sends a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Trigger {
    /// A new or edited message, or answers to calls.
    #[default]
    SubmitMessage,
    /// The last answer is wanted once more.
    RegenerateMessage,
    /// The stream of the last answer is wanted.
    ResumeStream,
}

/// A message as a client has it. Nothing of it is trusted but what the user of the session may say.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct IncomingMessage {
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
    /// Who wrote it: `system`, `user` or `assistant`.
    pub role: String,
    /// Its parts.
    #[serde(default)]
    pub parts: Vec<Map<String, Value>>,
    /// Its text, from clients that have no parts.
    #[serde(default)]
    pub content: Option<String>,
    /// Its metadata.
    #[serde(default)]
    pub metadata: Option<Value>,
}

impl ChatRequest {
    /// The last messages, as far as users wrote them; oldest first.
    #[must_use]
    pub fn trailing_user_messages(&self) -> &[IncomingMessage] {
        let is_user = |message: &&IncomingMessage| message.is_user();
        let count = self.messages.iter().rev().take_while(is_user).count();
        let from = self.messages.len() - count;
        self.messages.get(from..).unwrap_or_default()
    }

    /// The last assistant message, if nothing follows it.
    #[must_use]
    pub fn trailing_assistant_message(&self) -> Option<&IncomingMessage> {
        self.messages.last().filter(|last| last.role == "assistant")
    }
}

impl IncomingMessage {
    /// Whether a user wrote it.
    #[must_use]
    pub fn is_user(&self) -> bool {
        self.role == "user"
    }

    /// The text of its parts.
    #[must_use]
    pub fn text(&self) -> String {
        let parts = self.parts.iter();
        let texts = parts.filter(|part| part.get("type").and_then(Value::as_str) == Some("text"));
        let text: String = texts
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect();
        match &self.content {
            Some(content) if self.parts.is_empty() => content.clone(),
            _ => text,
        }
    }

    /// Whether user interfaces hide it.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        let metadata = self.metadata.as_ref();
        metadata.is_some_and(|metadata| metadata.get(HIDDEN) == Some(&Value::Bool(true)))
    }

    /// Returns it as a message to store, with its id, its files and its metadata. Metadata that is too large is
    /// dropped.
    ///
    /// # Errors
    /// [`FrontendError::Validation`] for a message that says nothing, or whose id is none.
    pub fn to_user_message(
        &self,
        fallback: Option<&Metadata>,
    ) -> Result<UserMessage, FrontendError> {
        let mut message = UserMessage::new(self.text());
        let id = self.id.as_deref().map(MessageId::new).transpose();
        message.id = id.map_err(|error: IdError| FrontendError::Validation(error.to_string()))?;
        message.files = self.parts.iter().filter_map(file).collect();
        if message.content.is_empty() && message.files.is_empty() {
            let id = self.id.as_deref().unwrap_or("without an id");
            return Err(FrontendError::Validation(format!(
                "message {id:?} is empty; give it a part with a text or a file"
            )));
        }
        let own = match &self.metadata {
            Some(Value::Object(metadata)) => Some(metadata),
            _ => None,
        };
        if let Some(metadata) = own.or(fallback) {
            let bytes = serde_json::to_string(metadata).map_or(usize::MAX, |json| json.len());
            if bytes <= MAX_METADATA_BYTES {
                message.metadata = metadata.clone();
            } else if self.is_hidden() {
                // What hides it stays, or the user would see it.
                message
                    .metadata
                    .insert(HIDDEN.to_owned(), Value::Bool(true));
            }
        }
        Ok(message)
    }
}

fn file(part: &Map<String, Value>) -> Option<FilePart> {
    let text = |key| part.get(key).and_then(Value::as_str);
    if text("type") != Some("file") {
        return None;
    }
    let file = FilePart::new(
        text("url")?,
        text("mediaType").unwrap_or("application/octet-stream"),
    );
    Some(match text("filename") {
        Some(name) => file.named(name),
        None => file,
    })
}
