//! Messages: what a conversation is made of.
//!
//! An assistant's message keeps its parts in the order the model gave them, so that a provider can
//! be shown exactly what it said, signatures included. The system prompt is not a message: it is
//! made anew for every model call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{CallId, MessageId};

/// Free-form data that travels with a message.
pub type Metadata = serde_json::Map<String, Value>;

/// The metadata key that keeps a message from user interfaces; the model still reads it.
pub const HIDDEN: &str = "hidden";

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Message {
    /// What a person, or the framework in a hidden message, said.
    User(UserMessage),
    /// What the model said.
    Assistant(AssistantMessage),
    /// What a call came to.
    Tool(ToolMessage),
}

/// What a person said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UserMessage {
    /// The name a client gave this message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<MessageId>,
    /// The text.
    pub content: String,
    /// Files that came with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FilePart>,
    /// Free-form data.
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
    /// A plain text message.
    #[must_use]
    pub fn new(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            ..Self::default()
        }
    }

    /// A message that the model reads and no user interface shows.
    #[must_use]
    pub fn hidden(content: impl Into<String>) -> Self {
        Self::new(content).with_metadata(HIDDEN, true)
    }

    /// Attaches a file.
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

    /// Names the message.
    #[must_use]
    pub fn with_id(mut self, id: MessageId) -> Self {
        self.id = Some(id);
        self
    }

    /// Whether user interfaces leave this message out.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.metadata.get(HIDDEN) == Some(&Value::Bool(true))
    }
}

/// A file, carried by value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FilePart {
    /// The content as a data URL, or an address the provider can fetch.
    pub data: String,
    /// The media type, like `image/png`.
    pub media_type: String,
    /// The name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
}

impl FilePart {
    /// A file without a name.
    #[must_use]
    pub fn new(data: impl Into<String>, media_type: impl Into<String>) -> Self {
        Self {
            data: data.into(),
            media_type: media_type.into(),
            filename: None,
        }
    }

    /// Gives the file a name.
    #[must_use]
    pub fn named(mut self, filename: impl Into<String>) -> Self {
        self.filename = Some(filename.into());
        self
    }
}

/// What the model said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AssistantMessage {
    /// Text, thinking and calls, in the model's order.
    pub parts: Vec<AssistantPart>,
    /// Free-form data.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl AssistantMessage {
    /// A message of these parts.
    #[must_use]
    pub fn new(parts: Vec<AssistantPart>) -> Self {
        Self {
            parts,
            metadata: Metadata::new(),
        }
    }

    /// A message that is one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![AssistantPart::Text { text: text.into() }])
    }

    /// All text parts as one string; `None` when there is no text.
    #[must_use]
    pub fn content(&self) -> Option<String> {
        let mut texts = self.parts.iter().filter_map(|part| match part {
            AssistantPart::Text { text } => Some(text.as_str()),
            _ => None,
        });
        let first = texts.next()?.to_owned();
        Some(texts.fold(first, |all, text| all + text))
    }

    /// The calls, in the model's order.
    #[must_use]
    pub fn tool_calls(&self) -> impl DoubleEndedIterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            AssistantPart::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The thinking blocks, in the model's order.
    pub fn thinking(&self) -> impl Iterator<Item = &Thinking> {
        self.parts.iter().filter_map(|part| match part {
            AssistantPart::Thinking(thinking) => Some(thinking),
            _ => None,
        })
    }
}

/// One part of what the model said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AssistantPart {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning.
    Thinking(Thinking),
    /// A call of a tool or a sub-agent.
    ToolCall(ToolCall),
}

/// A block of reasoning, kept so that the provider can be shown it again unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Thinking {
    /// The readable part; empty when the provider gave none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The provider's proof that the text is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// An encrypted block that only the provider can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<String>,
    /// What else the provider wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_metadata: Option<Value>,
}

impl Thinking {
    /// A block of readable reasoning.
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

/// The model asks for a tool or a sub-agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolCall {
    /// Unique in the session.
    pub id: CallId,
    /// The tool's name; sub-agents carry the prefix `subagent__`.
    pub name: String,
    /// The arguments, as the model gave them.
    pub arguments: Value,
    /// What else the provider wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_metadata: Option<Value>,
}

impl ToolCall {
    /// A call without provider metadata.
    #[must_use]
    pub fn new(id: CallId, name: impl Into<String>, arguments: Value) -> Self {
        Self {
            id,
            name: name.into(),
            arguments,
            provider_metadata: None,
        }
    }
}

/// How a call came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResultStatus {
    /// It ran and gave a result.
    #[default]
    Success,
    /// It ran and failed, or its input was refused.
    Error,
    /// A person said no.
    Denied,
    /// Nobody answered in time.
    TimedOut,
    /// It was never started.
    NotExecuted,
    /// It was started and nobody knows whether it took effect.
    Unknown,
}

impl ResultStatus {
    /// True only for a call that ran and gave a result.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Success
    }
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolMessage {
    /// The call this answers.
    pub tool_call_id: CallId,
    /// The tool's name; sub-agents carry the prefix `subagent__`.
    pub tool_name: String,
    /// What the model reads.
    pub content: String,
    /// How it came out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status: ResultStatus,
    /// Whether `content` is a text as the tool gave it, rather than the JSON of a value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub verbatim: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl ToolMessage {
    /// What the model reads of a failure; empty for a success.
    #[must_use]
    pub fn error_text(&self) -> String {
        if self.status.is_success() {
            return String::new();
        }
        match self.value().get("error").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => self.content.clone(),
        }
    }

    /// The result as a value: a verbatim text as a string, JSON parsed.
    #[must_use]
    pub fn value(&self) -> Value {
        if self.verbatim {
            return Value::from(self.content.as_str());
        }
        serde_json::from_str(&self.content).unwrap_or_else(|_| Value::from(self.content.as_str()))
    }
}
