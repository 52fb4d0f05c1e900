//! The result of a model call, sorted by kind.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sub_agent_type;
use crate::error::{Coded, ErrorRecord};
use crate::id::CallId;
use crate::json::Json;
use crate::message::{AssistantMessage, Thinking, ToolCall};
use crate::model::ModelReply;
use crate::shared_str::SharedStr;

/// Why the model stopped, in terms common to all providers.
///
/// ```
/// use helix_agents::StopReason;
///
/// fn of_provider(word: &str) -> StopReason {
///     match word {
///         "end_turn" => StopReason::EndTurn,
///         "tool_use" => StopReason::ToolUse,
///         "max_tokens" => StopReason::MaxTokens,
///         _ => StopReason::Unknown,
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model completed its reply.
    EndTurn,
    /// The model wrote a stop sequence.
    StopSequence,
    /// The model requests tool calls.
    ToolUse,
    /// The token limit was reached.
    MaxTokens,
    /// The provider's content filter intervened.
    ContentFilter,
    /// The model refused.
    Refusal,
    /// The model failed.
    Error,
    /// The provider gave an unknown reason.
    Unknown,
}

impl StopReason {
    /// Whether a text with this reason ends the turn.
    #[must_use]
    pub(crate) fn should_stop(self) -> bool {
        self != Self::ToolUse
    }

    /// Whether ending with this reason is a failure.
    #[must_use]
    pub(crate) fn is_error(self) -> bool {
        match self {
            Self::EndTurn | Self::StopSequence | Self::ToolUse => false,
            Self::MaxTokens | Self::ContentFilter | Self::Refusal | Self::Error | Self::Unknown => {
                true
            }
        }
    }
}

/// The result of one model call.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::StepResult;
///
/// let agent = Agent::builder("assistant")
///     .model("anthropic/claude-sonnet-4-5")
///     .stop_when(|step: &StepResult| matches!(step, StepResult::ToolCalls(_)))
///     .build()?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StepResult {
    /// A plain text reply.
    Text(TextStep),
    /// A reply with one or more calls.
    ToolCalls(ToolCallsStep),
    /// An output that the provider produced natively.
    StructuredOutput(StructuredOutputStep),
    /// A failed call without a reply.
    Error(ErrorStep),
}

/// A plain text reply.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TextStep {
    /// The reply with its parts in order.
    pub message: AssistantMessage,
    /// Why the model stopped.
    pub stop_reason: StopReason,
}

impl TextStep {
    /// Returns the text of the reply.
    #[must_use]
    #[doc(hidden)]
    pub fn content(&self) -> String {
        self.message.content().unwrap_or_default()
    }

    /// Whether the model meant to end the turn.
    #[must_use]
    #[doc(hidden)]
    pub fn should_stop(&self) -> bool {
        self.stop_reason.should_stop()
    }
}

/// A reply that makes calls.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolCallsStep {
    /// The reply with its parts in order, calls included.
    pub message: AssistantMessage,
    /// The calls of tools, `__finish__` included, in the model's order.
    pub tool_calls: Vec<ToolCall>,
    /// The calls of sub-agents, in the model's order.
    pub sub_agent_calls: Vec<SubAgentCall>,
    /// Why the model stopped.
    pub stop_reason: StopReason,
}

/// A call of a sub-agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubAgentCall {
    /// The id of the call.
    pub id: CallId,
    /// The type of the sub-agent.
    pub agent_type: SharedStr,
    /// The arguments of the call.
    pub input: Json,
}

impl SubAgentCall {
    /// Creates a call of a sub-agent.
    #[must_use]
    #[doc(hidden)]
    pub fn new(id: CallId, agent_type: impl Into<SharedStr>, input: impl Into<Json>) -> Self {
        Self {
            id,
            agent_type: agent_type.into(),
            input: input.into(),
        }
    }
}

/// An output that the provider produced without a call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StructuredOutputStep {
    /// The output, not validated yet.
    pub output: Value,
    /// The reasoning before it.
    pub thinking: Vec<Thinking>,
    /// Why the model stopped.
    pub stop_reason: StopReason,
}

/// A model call that failed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ErrorStep {
    /// The error of the model call.
    pub error: ErrorRecord,
    /// Whether the error ends the run.
    pub should_stop: bool,
    /// Why the model stopped, if known.
    pub stop_reason: Option<StopReason>,
}

impl StepResult {
    /// Classifies a model's reply: with calls it is a tool step, else text.
    #[must_use]
    pub fn from_reply(reply: ModelReply) -> Self {
        let ModelReply {
            message,
            stop_reason,
            ..
        } = reply;
        if message.tool_calls().next().is_none() {
            return Self::Text(TextStep {
                message,
                stop_reason,
            });
        }
        let mut tool_calls = Vec::new();
        let mut sub_agent_calls = Vec::new();
        for call in message.tool_calls() {
            match sub_agent_type(&call.name) {
                Some(agent_type) => sub_agent_calls.push(SubAgentCall::new(
                    call.id.clone(),
                    agent_type,
                    call.arguments.clone(),
                )),
                None => tool_calls.push(call.clone()),
            }
        }
        Self::ToolCalls(ToolCallsStep {
            message,
            tool_calls,
            sub_agent_calls,
            stop_reason,
        })
    }

    /// Creates the result of an output that the provider produced natively.
    #[must_use]
    #[doc(hidden)]
    pub fn structured_output(output: Value) -> Self {
        Self::StructuredOutput(StructuredOutputStep {
            output,
            thinking: Vec::new(),
            stop_reason: StopReason::EndTurn,
        })
    }

    /// Creates the result of a failed model call that ends the run.
    #[must_use]
    #[doc(hidden)]
    pub fn failed(error: &dyn Coded) -> Self {
        Self::Error(ErrorStep {
            error: error.to_record(),
            should_stop: true,
            stop_reason: Some(StopReason::Error),
        })
    }

    /// Returns why the model stopped, if known.
    #[must_use]
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        match self {
            Self::Text(step) => Some(step.stop_reason),
            Self::ToolCalls(step) => Some(step.stop_reason),
            Self::StructuredOutput(step) => Some(step.stop_reason),
            Self::Error(step) => step.stop_reason,
        }
    }
}
