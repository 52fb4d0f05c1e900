//! The messages of a conversation.
//!
//! An assistant message keeps its parts in the model's order, so that a provider gets back
//! exactly what it sent, signatures included. The system prompt is not a message: it is rendered
//! for every model call.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{CallId, MessageId};
use crate::json::Json;
use crate::shared_str::SharedStr;

/// Free-form data that belongs to a message.
pub type Metadata = serde_json::Map<String, Value>;

/// The metadata key that hides a message from user interfaces; the model still reads it.
pub(crate) const HIDDEN: &str = "hidden";

/// The metadata key of a reply after which the size of the conversation was noted.
const CONTEXT_TOKENS: &str = "helixContextTokens";

/// One message of a conversation.
///
/// ```
/// use helix_agents::{Message, UserMessage};
///
/// fn text(message: &Message) -> Option<String> {
///     match message {
///         Message::User(user) => Some(user.content.clone()),
///         Message::Assistant(reply) => reply.content(),
///         _ => None,
///     }
/// }
/// assert_eq!(text(&Message::User(UserMessage::new("Hi"))).as_deref(), Some("Hi"));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Message {
    /// A message from a user, or a hidden one from the framework.
    User(UserMessage),
    /// A message from the model.
    Assistant(AssistantMessage),
    /// The result of a call.
    Tool(ToolMessage),
}

/// A message from a user.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::{FilePart, UserMessage};
///
/// let photo = FilePart::new("aGVsbG8=", "image/png").named("broken.png");
/// let turn = Turn::new(UserMessage::new("This arrived broken.").with_file(photo));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UserMessage {
    /// The id that a client gave this message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<MessageId>,
    /// The text of the message.
    pub content: String,
    /// The files attached to the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FilePart>,
    /// Free-form data of the message.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl From<&str> for UserMessage {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for UserMessage {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl UserMessage {
    /// Creates a plain text message.
    #[must_use]
    pub fn new(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            ..Self::default()
        }
    }

    /// Creates a message that the model reads and no user interface shows.
    #[must_use]
    pub fn hidden(content: impl Into<String>) -> Self {
        Self::new(content).with_metadata(HIDDEN, true)
    }

    /// Attaches a file to the message.
    #[must_use]
    pub fn with_file(mut self, file: FilePart) -> Self {
        self.files.push(file);
        self
    }

    /// Sets one metadata entry.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets the id of the message.
    #[must_use]
    pub fn with_id(mut self, id: MessageId) -> Self {
        self.id = Some(id);
        self
    }

    /// Whether user interfaces hide this message.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.metadata.get(HIDDEN) == Some(&Value::Bool(true))
    }
}

/// A file, carried by value.
///
/// ```
/// use helix_agents::FilePart;
///
/// let file = FilePart::new("aGVsbG8=", "image/png").named("broken.png");
/// assert_eq!(file.filename.as_deref(), Some("broken.png"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FilePart {
    /// The content as a data URL, or a URL that the provider can fetch.
    pub data: String,
    /// The media type, like `image/png`.
    pub media_type: String,
    /// The file name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
}

impl FilePart {
    /// Creates a file without a name.
    #[must_use]
    pub fn new(data: impl Into<String>, media_type: impl Into<String>) -> Self {
        Self {
            data: data.into(),
            media_type: media_type.into(),
            filename: None,
        }
    }

    /// Sets the name of the file.
    #[must_use]
    pub fn named(mut self, filename: impl Into<String>) -> Self {
        self.filename = Some(filename.into());
        self
    }
}

/// A message from the model.
///
/// ```
/// use helix_agents::AssistantMessage;
///
/// let message = AssistantMessage::text("Refunded.");
/// assert_eq!(message.content().as_deref(), Some("Refunded."));
/// assert_eq!(message.tool_calls().count(), 0);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AssistantMessage {
    /// Text, thinking and calls, in the model's order. Clones of the message share them.
    pub parts: Arc<Vec<AssistantPart>>,
    /// Free-form data of the message.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl AssistantMessage {
    /// Creates a message of these parts.
    #[must_use]
    pub fn new(parts: Vec<AssistantPart>) -> Self {
        Self {
            parts: Arc::new(parts),
            metadata: Metadata::new(),
        }
    }

    /// Creates a message with one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![AssistantPart::text(text)])
    }

    /// Notes the size of the conversation up to and with this message, as the provider counted it.
    pub(crate) fn set_context_tokens(&mut self, tokens: u64) {
        self.metadata
            .insert(CONTEXT_TOKENS.to_owned(), tokens.into());
    }

    /// The size of the conversation up to and with this message, where it was noted.
    pub(crate) fn context_tokens(&self) -> Option<u64> {
        self.metadata.get(CONTEXT_TOKENS)?.as_u64()
    }

    /// Keeps the arguments of its calls as texts only, which takes less memory.
    pub(crate) fn pack(&mut self) {
        if self.tool_calls().next().is_none() {
            return;
        }
        let parts = self.parts.iter().map(|part| match part {
            AssistantPart::ToolCall(call) => AssistantPart::ToolCall(ToolCall {
                arguments: call.arguments.packed(),
                ..call.clone()
            }),
            other => other.clone(),
        });
        self.parts = Arc::new(parts.collect());
    }

    /// Returns all text parts as one string; `None` if there is no text.
    #[must_use]
    pub fn content(&self) -> Option<String> {
        let mut texts = self.parts.iter().filter_map(|part| match part {
            AssistantPart::Text { text, .. } if !text.is_empty() => Some(text.as_str()),
            _ => None,
        });
        let first = texts.next()?.to_owned();
        Some(texts.fold(first, |all, text| all + text))
    }

    /// Iterates over the calls, in the model's order.
    #[must_use]
    pub fn tool_calls(&self) -> impl DoubleEndedIterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            AssistantPart::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Iterates over the thinking blocks, in the model's order.
    pub fn thinking(&self) -> impl Iterator<Item = &Thinking> {
        self.parts.iter().filter_map(|part| match part {
            AssistantPart::Thinking(thinking) => Some(thinking),
            _ => None,
        })
    }
}

/// One part of an assistant message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum AssistantPart {
    /// Text for the user.
    Text {
        /// The text of the part; empty if the provider gave only data to send back.
        text: String,
        /// Other data that the provider expects back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_metadata: Option<Value>,
    },
    /// A block of reasoning.
    Thinking(Thinking),
    /// A call of a tool or a sub-agent.
    ToolCall(ToolCall),
}

impl AssistantPart {
    /// Creates a text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            provider_metadata: None,
        }
    }
}

/// A block of reasoning, kept unchanged so that it can be sent back to the provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Thinking {
    /// The readable part; empty if the provider gave none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The provider's signature of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// An encrypted block that only the provider can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<String>,
    /// Other data that the provider expects back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_metadata: Option<Value>,
}

impl Thinking {
    /// Creates a block of readable reasoning.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Adds the provider's signature.
    #[must_use]
    pub fn signed(mut self, signature: impl Into<String>) -> Self {
        self.signature = Some(signature.into());
        self
    }
}

/// A call of a tool or a sub-agent, made by the model.
///
/// ```
/// use helix_agents::{ModelReply, prelude::*};
///
/// let reply = ModelReply::call("refund", json!({ "order_id": "42" }));
/// for call in reply.message.tool_calls() {
///     println!("{}({})", call.name, call.arguments);
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolCall {
    /// The id of the call, unique in the session.
    pub id: CallId,
    /// The name of the tool; sub-agents have the prefix `subagent__`.
    pub name: SharedStr,
    /// The arguments, as the model gave them.
    pub arguments: Json,
    /// Other data that the provider expects back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_metadata: Option<Value>,
}

impl ToolCall {
    /// Creates a call without provider metadata.
    #[must_use]
    pub fn new(id: CallId, name: impl Into<SharedStr>, arguments: impl Into<Json>) -> Self {
        Self {
            id,
            name: name.into(),
            arguments: arguments.into(),
            provider_metadata: None,
        }
    }
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResultStatus {
    /// The call ran and returned a result.
    #[default]
    Success,
    /// The call ran and failed, or its input was refused.
    Error,
    /// A person denied the call.
    Denied,
    /// The call was not answered in time.
    TimedOut,
    /// The call was never started.
    NotExecuted,
    /// The call was started, and it is not known whether it took effect.
    Unknown,
}

impl ResultStatus {
    /// Whether the call ran and returned a result.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Success
    }
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolMessage {
    /// The id of the call.
    pub tool_call_id: CallId,
    /// The name of the tool; sub-agents have the prefix `subagent__`.
    pub tool_name: SharedStr,
    /// The text that the model reads.
    pub content: SharedStr,
    /// The outcome of the call.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status: ResultStatus,
    /// Whether `content` is a text that the tool returned, rather than the JSON of a value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub verbatim: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl ToolMessage {
    /// Returns the error text that the model reads; empty for a success.
    #[must_use]
    pub fn error_text(&self) -> String {
        if self.status.is_success() {
            return String::new();
        }
        match self.value().get("error").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => self.content.to_string(),
        }
    }

    /// Returns the result as a value: a verbatim text as a string, JSON parsed.
    #[must_use]
    pub fn value(&self) -> Value {
        if self.verbatim {
            return Value::from(self.content.as_str());
        }
        serde_json::from_str(&self.content).unwrap_or_else(|_| Value::from(self.content.as_str()))
    }
}
