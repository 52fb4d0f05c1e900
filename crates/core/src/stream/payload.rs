//! The payload of a chunk.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::Digest;
use crate::error::ErrorCode;
use crate::id::{ApprovalId, CallId, CheckpointId, SessionId, UserId};
use crate::json::Json;
use crate::session::{RunStatus, RunTrigger};
use crate::shared_str::SharedStr;
use crate::state::{PatchOp, StateConflict};

/// The content of a chunk.
///
/// ```
/// use helix_agents::ChunkPayload;
///
/// fn show(payload: &ChunkPayload) {
///     match payload {
///         ChunkPayload::TextDelta { delta } => print!("{delta}"),
///         ChunkPayload::ToolStart { tool_name, .. } => println!("runs {tool_name}"),
///         _ => {}
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum ChunkPayload {
    /// The next piece of the model's text.
    TextDelta {
        /// The text to append.
        delta: String,
    },
    /// The next piece of the model's reasoning.
    Thinking {
        /// The text to append.
        content: String,
        /// Whether the reasoning block is complete.
        is_complete: bool,
    },
    /// The model begins a call.
    ToolArgStreamStart {
        /// The id of the call.
        tool_call_id: CallId,
        /// The name of the tool.
        tool_name: SharedStr,
    },
    /// The next piece of a call's arguments.
    ToolArgStreamDelta {
        /// The id of the call.
        tool_call_id: CallId,
        /// The JSON text to append.
        delta: String,
    },
    /// A call's arguments are complete.
    ToolArgStreamEnd {
        /// The id of the call.
        tool_call_id: CallId,
    },
    /// A call is running.
    ToolStart {
        /// The id of the call.
        tool_call_id: CallId,
        /// The name of the tool.
        tool_name: SharedStr,
        /// The arguments of the call.
        arguments: Json,
    },
    /// A call is settled.
    ToolEnd {
        /// The id of the call.
        tool_call_id: CallId,
        /// The name of the tool.
        tool_name: SharedStr,
        /// The result of the call.
        result: Value,
        /// Whether the call succeeded.
        success: bool,
        /// The error text for the model, if it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A call failed, was denied, or was never started.
    ToolError {
        /// The id of the call.
        tool_call_id: CallId,
        /// The name of the tool.
        tool_name: SharedStr,
        /// The error text for the model.
        error: String,
    },
    /// A call's arguments were refused.
    ToolInputError {
        /// The id of the call.
        tool_call_id: CallId,
        /// The name of the tool.
        tool_name: SharedStr,
        /// The arguments of the call.
        input: Json,
        /// The error text for the model.
        error: String,
    },
    /// A call's result was refused.
    ToolOutputError {
        /// The id of the call.
        tool_call_id: CallId,
        /// The name of the tool.
        tool_name: SharedStr,
        /// The error text for the model.
        error: String,
    },
    /// A call needs a person's approval.
    ToolApprovalRequest {
        /// The id of the call.
        tool_call_id: CallId,
        /// The name of the tool.
        tool_name: SharedStr,
        /// The id of the approval request.
        approval_id: ApprovalId,
        /// The arguments of the call.
        input: Json,
        /// The digest to which the answer is bound.
        digest: Digest,
    },
    /// A person decided about a call.
    ToolApprovalResponse {
        /// The id of the call.
        tool_call_id: CallId,
        /// The id of the approval request.
        approval_id: ApprovalId,
        /// Whether the call may be run.
        approved: bool,
        /// The reason for the decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The user who decided, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decided_by: Option<UserId>,
    },
    /// A sub-agent starts.
    SubagentStart {
        /// The id of the parent's call.
        tool_call_id: CallId,
        /// The agent of the child.
        sub_agent_type: String,
        /// The session of the child.
        sub_session_id: SessionId,
    },
    /// A sub-agent ended.
    SubagentEnd {
        /// The id of the parent's call.
        tool_call_id: CallId,
        /// The agent of the child.
        sub_agent_type: String,
        /// The session of the child.
        sub_session_id: SessionId,
        /// Whether the sub-agent succeeded.
        success: bool,
        /// The output of the sub-agent.
        #[serde(
            default,
            deserialize_with = "crate::stored::present",
            skip_serializing_if = "Option::is_none"
        )]
        result: Option<Value>,
    },
    /// The state changed.
    StatePatch {
        /// The changes as RFC 6902 operations.
        patches: Vec<PatchOp>,
    },
    /// Parallel calls wrote to the same place of the state.
    StateConflict {
        /// The places, and whose write counts.
        conflicts: Vec<StateConflict>,
    },
    /// A custom event that a tool emitted.
    Custom {
        /// The name of the event.
        event_name: String,
        /// The data of the event.
        data: Value,
    },
    /// An error occurred.
    Error {
        /// A sentence that is safe to show to any user.
        error: String,
        /// Details for a developer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// The machine-readable error code.
        code: ErrorCode,
        /// Whether the run continues.
        recoverable: bool,
    },
    /// The output of the turn.
    Output {
        /// The value of the output.
        output: Value,
    },
    /// A run starts.
    RunStarted {
        /// The operation that started it.
        trigger: RunTrigger,
        /// The number of the turn, from 1.
        turn: u32,
    },
    /// A run was stopped.
    RunInterrupted {
        /// The reason that the caller gave.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A suspended session continues.
    RunResumed {},
    /// A run ended because calls or children wait.
    RunPaused {
        /// The status with which the run ended.
        status: RunStatus,
        /// The calls that wait for an answer.
        tool_call_ids: Vec<CallId>,
    },
    /// A checkpoint was written.
    CheckpointCreated {
        /// The id of the checkpoint.
        checkpoint_id: CheckpointId,
    },
    /// A step is in the history; a client's state equals the server's.
    StepCommitted {
        /// The number of messages in the history.
        message_count: usize,
    },
    /// The deltas of this step are discarded.
    StepDiscarded {
        /// Why they are discarded.
        reason: String,
    },
    /// A reader must discard what it has read of this step.
    StreamResync {
        /// Why it must be discarded.
        reason: String,
    },
    /// Another process took the run over.
    ExecutorSuperseded {},
}

impl ChunkPayload {
    /// Whether the payload may be written outside of a commit, and discarded with an attempt.
    pub(crate) fn is_delta(&self) -> bool {
        matches!(
            self,
            Self::TextDelta { .. }
                | Self::Thinking { .. }
                | Self::ToolArgStreamStart { .. }
                | Self::ToolArgStreamDelta { .. }
                | Self::ToolArgStreamEnd { .. }
                | Self::StatePatch { .. }
                | Self::Custom { .. }
        )
    }

    /// Whether the content is in the messages, too, once the step is committed: a reader can make the chunk
    /// again from them.
    #[must_use]
    pub fn is_in_messages(&self) -> bool {
        matches!(
            self,
            Self::TextDelta { .. }
                | Self::Thinking { .. }
                | Self::ToolArgStreamStart { .. }
                | Self::ToolArgStreamDelta { .. }
                | Self::ToolArgStreamEnd { .. }
        )
    }

    /// Keeps arguments as their text alone, which takes less memory.
    pub(crate) fn pack(&mut self) {
        if let Self::ToolStart { arguments, .. }
        | Self::ToolInputError {
            input: arguments, ..
        }
        | Self::ToolApprovalRequest {
            input: arguments, ..
        } = self
        {
            *arguments = arguments.packed();
        }
    }

    /// Whether such a chunk is written after the reply of its step, and no later than its end.
    pub(super) fn follows_reply(&self) -> bool {
        matches!(
            self,
            Self::ToolStart { .. }
                | Self::ToolEnd { .. }
                | Self::ToolError { .. }
                | Self::ToolInputError { .. }
                | Self::ToolOutputError { .. }
                | Self::ToolApprovalRequest { .. }
                | Self::SubagentStart { .. }
                | Self::StepCommitted { .. }
        )
    }

    /// Returns the size of the content without escaping, or slightly more. Counting stops
    /// when it exceeds `enough`.
    pub(super) fn content_bytes(&self, enough: usize) -> usize {
        let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let value = |value: &Value| value_bytes(value, enough);
        match self {
            Self::TextDelta { delta } | Self::ToolArgStreamDelta { delta, .. } => delta.len(),
            Self::Thinking { content, .. } => content.len(),
            Self::ToolStart {
                tool_name,
                arguments: content,
                ..
            }
            | Self::ToolApprovalRequest {
                tool_name,
                input: content,
                ..
            } => tool_name.len() + value(content),
            Self::Custom { event_name, data } => event_name.len() + value(data),
            Self::ToolEnd {
                tool_name,
                result,
                error,
                ..
            } => tool_name.len() + value(result) + optional(error),
            Self::ToolError {
                tool_name, error, ..
            }
            | Self::ToolOutputError {
                tool_name, error, ..
            } => tool_name.len() + error.len(),
            Self::ToolInputError {
                tool_name,
                input,
                error,
                ..
            } => tool_name.len() + value(input) + error.len(),
            Self::ToolApprovalResponse { reason, .. } | Self::RunInterrupted { reason } => {
                optional(reason)
            }
            Self::SubagentStart { sub_agent_type, .. } => sub_agent_type.len(),
            Self::SubagentEnd {
                sub_agent_type,
                result,
                ..
            } => sub_agent_type.len() + result.as_ref().map_or(0, value),
            Self::Error { error, detail, .. } => error.len() + optional(detail),
            Self::Output { output } => value(output),
            Self::StepDiscarded { reason } | Self::StreamResync { reason } => reason.len(),
            Self::ToolArgStreamStart { tool_name, .. } => tool_name.len(),
            Self::ToolArgStreamEnd { .. }
            | Self::RunStarted { .. }
            | Self::RunResumed {}
            | Self::CheckpointCreated { .. }
            | Self::StepCommitted { .. }
            | Self::ExecutorSuperseded {} => 0,
            // The size of a list is known only once it is serialized.
            Self::StatePatch { .. } | Self::StateConflict { .. } | Self::RunPaused { .. } => {
                usize::MAX
            }
        }
    }
}

/// Returns the size of a value as JSON without escaping, or slightly more.
fn value_bytes<'a>(value: &'a Value, enough: usize) -> usize {
    /// The maximum length of a number, including the comma after it.
    const NUMBER: usize = 26;
    let mut bytes = 0;
    // Only lists and objects are queued, so that a flat value allocates nothing.
    let mut waiting = Vec::new();
    let mut next = Some(value);
    while let Some(value) = next {
        let mut count = |value: &'a Value| match value {
            Value::Null | Value::Bool(_) => 6,
            Value::Number(_) => NUMBER,
            Value::String(text) => text.len() + 3,
            nested => {
                waiting.push(nested);
                0
            }
        };
        bytes += match value {
            Value::Array(items) => 3 + items.iter().map(count).sum::<usize>(),
            Value::Object(fields) => {
                let fields = fields.iter();
                3 + fields
                    .map(|(key, value)| key.len() + 3 + count(value))
                    .sum::<usize>()
            }
            scalar => count(scalar),
        };
        next = waiting.pop().filter(|_| bytes <= enough);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::stored::{Stored, decode};
    use crate::stream::Chunk;

    /// A new variant does not compile until it has its name here, and then needs a golden sample.
    macro_rules! names {
        ($($variant:ident $name:literal)*) => {
            const NAMES: &[&str] = &[$($name),*];

            fn name(payload: &ChunkPayload) -> &'static str {
                match payload { $(ChunkPayload::$variant { .. } => $name),* }
            }
        };
    }

    names! {
        TextDelta "text_delta"
        Thinking "thinking"
        ToolArgStreamStart "tool_arg_stream_start"
        ToolArgStreamDelta "tool_arg_stream_delta"
        ToolArgStreamEnd "tool_arg_stream_end"
        ToolStart "tool_start"
        ToolEnd "tool_end"
        ToolError "tool_error"
        ToolInputError "tool_input_error"
        ToolOutputError "tool_output_error"
        ToolApprovalRequest "tool_approval_request"
        ToolApprovalResponse "tool_approval_response"
        SubagentStart "subagent_start"
        SubagentEnd "subagent_end"
        StatePatch "state_patch"
        StateConflict "state_conflict"
        Custom "custom"
        Error "error"
        Output "output"
        RunStarted "run_started"
        RunInterrupted "run_interrupted"
        RunResumed "run_resumed"
        RunPaused "run_paused"
        CheckpointCreated "checkpoint_created"
        StepCommitted "step_committed"
        StepDiscarded "step_discarded"
        StreamResync "stream_resync"
        ExecutorSuperseded "executor_superseded"
    }

    #[test]
    fn every_chunk_has_its_name_and_a_golden_sample() {
        assert_eq!((Chunk::KIND, Chunk::VERSION), ("chunk", 1));
        let samples = include_str!("../../tests/golden/chunk.v1.jsonl");
        let mut seen = BTreeSet::new();
        for line in samples.lines() {
            let payload = decode::<Chunk>(line).unwrap().payload;
            let json = serde_json::to_value(&payload).unwrap();
            assert_eq!(json["type"], name(&payload));
            seen.insert(name(&payload));
        }
        assert_eq!(seen, NAMES.iter().copied().collect());
    }
}
