//! The messages of the AI SDK.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message as front ends keep it. An assistant message is one *bubble*: a whole turn, with all its steps.
///
/// ```
/// use helix_agents_wire::{UiMessage, UiPart, UiRole};
///
/// let message = UiMessage::new("u-1", UiRole::User, vec![UiPart::text("Hi")]);
/// let json = serde_json::to_value(&message)?;
/// assert_eq!(json["parts"][0]["text"], "Hi");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[non_exhaustive]
pub struct UiMessage {
    /// The id of the message: the same in the stream, in a snapshot and in the history.
    pub id: String,
    /// Who wrote it.
    pub role: UiRole,
    /// Its content, in order.
    pub parts: Vec<UiPart>,
    /// Free-form data of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub metadata: Option<Value>,
}

impl UiMessage {
    /// Creates a message without metadata.
    #[must_use]
    pub fn new(id: impl Into<String>, role: UiRole, parts: Vec<UiPart>) -> Self {
        Self {
            id: id.into(),
            role,
            parts,
            metadata: None,
        }
    }
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum UiRole {
    /// The system.
    System,
    /// A user.
    User,
    /// The agent.
    Assistant,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum UiPart {
    /// A model call begins here.
    StepStart {},
    /// Text.
    Text {
        /// The text.
        text: String,
        /// `done` in an assistant message that is complete.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        state: Option<String>,
    },
    /// Reasoning of the model.
    Reasoning {
        /// The text.
        text: String,
        /// `done` in an assistant message that is complete.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        state: Option<String>,
    },
    /// A file.
    File {
        /// The media type, like `image/png`.
        media_type: String,
        /// A data URL, or an address.
        url: String,
        /// The name to show.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        filename: Option<String>,
    },
    /// A call of a tool.
    DynamicTool {
        /// The name of the tool.
        tool_name: String,
        /// The id of the call.
        tool_call_id: String,
        /// How far it is.
        state: ToolState,
        /// The arguments.
        input: Value,
        /// The result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        output: Option<Value>,
        /// Why there is no result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        error_text: Option<String>,
        /// Whether the server runs it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        provider_executed: Option<bool>,
        /// The request for approval, and its answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        approval: Option<ToolApproval>,
    },
    /// Everything that the AI SDK has no part for.
    #[serde(untagged)]
    Data(DataPart),
}

impl UiPart {
    /// Creates a text as users write it.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            state: None,
        }
    }
}

/// A part whose type is `data-NAME`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[non_exhaustive]
pub struct DataPart {
    /// `data-` and the name.
    #[serde(rename = "type")]
    #[cfg_attr(test, ts(type = "`data-${string}`"))]
    pub kind: String,
    /// The id by which it is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub id: Option<String>,
    /// The data.
    pub data: Value,
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ToolState {
    /// Its arguments are being written.
    InputStreaming,
    /// Its arguments are complete.
    InputAvailable,
    /// A person must approve it.
    ApprovalRequested,
    /// A person has decided.
    ApprovalResponded,
    /// It has a result.
    OutputAvailable,
    /// It failed.
    OutputError,
    /// It was denied.
    OutputDenied,
}

/// A request for approval, and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[non_exhaustive]
pub struct ToolApproval {
    /// The id of the request.
    pub id: String,
    /// The decision, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub approved: Option<bool>,
    /// The reason for the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub reason: Option<String>,
}
