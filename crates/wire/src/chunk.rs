//! The chunks of the AI SDK's UI message stream, as far as every client of versions 6 and 7 accepts them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One chunk of a UI message stream.
///
/// ```
/// use helix_agents_wire::UiChunk;
///
/// let chunk = UiChunk::TextDelta { id: "text-1".into(), delta: "Hi".into() };
/// let json = serde_json::to_string(&chunk)?;
/// assert_eq!(json, r#"{"type":"text-delta","id":"text-1","delta":"Hi"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum UiChunk {
    /// Begins the message, or continues the one that has this id.
    Start {
        /// The id of the message.
        message_id: String,
    },
    /// Ends the message for now.
    Finish {
        /// Why it ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        finish_reason: Option<FinishReason>,
    },
    /// A model call begins.
    StartStep {},
    /// A model call has ended, with the calls that it made.
    FinishStep {},
    /// The turn failed. Clients show the text and read nothing after it.
    Error {
        /// A sentence that is safe to show to any user.
        error_text: String,
    },
    /// A block of text begins.
    TextStart {
        /// The id of the block.
        id: String,
    },
    /// The next piece of a block of text.
    TextDelta {
        /// The id of the block.
        id: String,
        /// The text to append.
        delta: String,
    },
    /// A block of text is complete.
    TextEnd {
        /// The id of the block.
        id: String,
    },
    /// A block of reasoning begins.
    ReasoningStart {
        /// The id of the block.
        id: String,
    },
    /// The next piece of a block of reasoning.
    ReasoningDelta {
        /// The id of the block.
        id: String,
        /// The text to append.
        delta: String,
    },
    /// A block of reasoning is complete.
    ReasoningEnd {
        /// The id of the block.
        id: String,
    },
    /// The arguments of a call begin.
    ToolInputStart {
        /// The id of the call.
        tool_call_id: String,
        /// The name of the tool.
        tool_name: String,
        /// Always true: our tools are not known when a front end is built.
        dynamic: bool,
    },
    /// The next piece of a call's arguments.
    ToolInputDelta {
        /// The id of the call.
        tool_call_id: String,
        /// The JSON text to append.
        input_text_delta: String,
    },
    /// The arguments of a call are complete.
    ToolInputAvailable {
        /// The id of the call.
        tool_call_id: String,
        /// The name of the tool.
        tool_name: String,
        /// The arguments.
        input: Value,
        /// Whether the server runs it, without asking anybody.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        provider_executed: Option<bool>,
        /// Always true.
        dynamic: bool,
    },
    /// The arguments of a call were refused.
    ToolInputError {
        /// The id of the call.
        tool_call_id: String,
        /// The name of the tool.
        tool_name: String,
        /// The arguments.
        input: Value,
        /// The reason.
        error_text: String,
        /// Whether the server would have run it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        provider_executed: Option<bool>,
        /// Always true.
        dynamic: bool,
    },
    /// A person must approve a call.
    ToolApprovalRequest {
        /// The id of the request, which the answer repeats.
        approval_id: String,
        /// The id of the call.
        tool_call_id: String,
    },
    /// A call has a result.
    ToolOutputAvailable {
        /// The id of the call.
        tool_call_id: String,
        /// The result.
        output: Value,
        /// Whether the server ran it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        provider_executed: Option<bool>,
        /// Always true.
        dynamic: bool,
    },
    /// A call failed, timed out, or was never executed.
    ToolOutputError {
        /// The id of the call.
        tool_call_id: String,
        /// The reason.
        error_text: String,
        /// Whether the server ran it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        provider_executed: Option<bool>,
        /// Always true.
        dynamic: bool,
    },
    /// A person denied a call.
    ToolOutputDenied {
        /// The id of the call.
        tool_call_id: String,
    },
    /// Everything that the AI SDK has no chunk for.
    #[serde(untagged)]
    Data(DataChunk),
}

/// A chunk whose type is `data-NAME`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[non_exhaustive]
pub struct DataChunk {
    /// `data-` and the name.
    #[serde(rename = "type")]
    #[cfg_attr(test, ts(type = "`data-${string}`"))]
    pub kind: String,
    /// A later chunk of the same type and id replaces this one; without it each one is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub id: Option<String>,
    /// The data.
    pub data: Value,
    /// Whether it is told and not kept in the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub transient: Option<bool>,
}

impl DataChunk {
    /// Creates data that stay in the message.
    #[must_use]
    pub fn new(name: &str, data: Value) -> Self {
        Self {
            kind: format!("data-{name}"),
            id: None,
            data,
            transient: None,
        }
    }

    /// Creates data that are told and not kept.
    #[must_use]
    pub fn transient(name: &str, data: Value) -> Self {
        Self {
            transient: Some(true),
            ..Self::new(name, data)
        }
    }

    /// Sets the id: these data replace earlier ones of the same type and id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The name after `data-`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.kind.strip_prefix("data-").unwrap_or(&self.kind)
    }
}

impl From<DataChunk> for UiChunk {
    fn from(data: DataChunk) -> Self {
        Self::Data(data)
    }
}

/// Why a message ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The turn is complete.
    Stop,
    /// Calls wait for an answer.
    ToolCalls,
    /// The turn failed.
    Error,
    /// The turn was stopped.
    Other,
}
