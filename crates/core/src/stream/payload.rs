//! What a chunk says.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::Digest;
use crate::error::ErrorCode;
use crate::id::{ApprovalId, CallId, CheckpointId, SessionId, UserId};
use crate::session::{RunStatus, RunTrigger};
use crate::state::{PatchOp, StateConflict};

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum ChunkPayload {
    /// More text.
    TextDelta {
        /// The next piece.
        delta: String,
    },
    /// More reasoning.
    Thinking {
        /// The next piece.
        content: String,
        /// Whether the block is complete.
        is_complete: bool,
    },
    /// The model begins a call.
    ToolArgStreamStart {
        /// The call.
        tool_call_id: CallId,
        /// The tool.
        tool_name: String,
    },
    /// More of a call's arguments.
    ToolArgStreamDelta {
        /// The call.
        tool_call_id: CallId,
        /// The next piece of JSON text.
        delta: String,
    },
    /// A call's arguments are complete.
    ToolArgStreamEnd {
        /// The call.
        tool_call_id: CallId,
    },
    /// A call is under way.
    ToolStart {
        /// The call.
        tool_call_id: CallId,
        /// The tool.
        tool_name: String,
        /// Its arguments.
        arguments: Value,
    },
    /// A call is settled.
    ToolEnd {
        /// The call.
        tool_call_id: CallId,
        /// The tool.
        tool_name: String,
        /// What it gave.
        result: Value,
        /// Whether it gave a result.
        success: bool,
        /// What the model was told, when it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A call failed, was denied, or was never started.
    ToolError {
        /// The call.
        tool_call_id: CallId,
        /// The tool.
        tool_name: String,
        /// What the model was told.
        error: String,
    },
    /// A call's arguments were refused.
    ToolInputError {
        /// The call.
        tool_call_id: CallId,
        /// The tool.
        tool_name: String,
        /// The arguments.
        input: Value,
        /// What the model was told.
        error: String,
    },
    /// A call's result was refused.
    ToolOutputError {
        /// The call.
        tool_call_id: CallId,
        /// The tool.
        tool_name: String,
        /// What the model was told.
        error: String,
    },
    /// A person is asked about a call.
    ToolApprovalRequest {
        /// The call.
        tool_call_id: CallId,
        /// The tool.
        tool_name: String,
        /// Which question it is.
        approval_id: ApprovalId,
        /// The arguments.
        input: Value,
        /// What the answer is bound to.
        digest: Digest,
    },
    /// A person decided about a call.
    ToolApprovalResponse {
        /// The call.
        tool_call_id: CallId,
        /// Which question it was.
        approval_id: ApprovalId,
        /// The decision.
        approved: bool,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who decided, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decided_by: Option<UserId>,
    },
    /// A sub-agent starts.
    SubagentStart {
        /// The parent's call.
        tool_call_id: CallId,
        /// The child's agent.
        sub_agent_type: String,
        /// The child.
        sub_session_id: SessionId,
    },
    /// A sub-agent ended.
    SubagentEnd {
        /// The parent's call.
        tool_call_id: CallId,
        /// The child's agent.
        sub_agent_type: String,
        /// The child.
        sub_session_id: SessionId,
        /// Whether it gave its output.
        success: bool,
        /// The output.
        #[serde(
            default,
            deserialize_with = "crate::stored::present",
            skip_serializing_if = "Option::is_none"
        )]
        result: Option<Value>,
    },
    /// The state changed.
    StatePatch {
        /// How.
        patches: Vec<PatchOp>,
    },
    /// Parallel calls wrote the same place.
    StateConflict {
        /// Where, and whose write counts.
        conflicts: Vec<StateConflict>,
    },
    /// An event of the user's own.
    Custom {
        /// Its name.
        event_name: String,
        /// Its data.
        data: Value,
    },
    /// Something failed.
    Error {
        /// A sentence that can be shown to anyone.
        error: String,
        /// What a developer needs to know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// The machine-readable name.
        code: ErrorCode,
        /// Whether the run goes on.
        recoverable: bool,
    },
    /// The turn's output.
    Output {
        /// It.
        output: Value,
    },
    /// A run starts.
    RunStarted {
        /// What started it.
        trigger: RunTrigger,
        /// The turn, from 1.
        turn: u32,
    },
    /// A run was stopped.
    RunInterrupted {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A paused session goes on.
    RunResumed {},
    /// A run ended because something waits.
    RunPaused {
        /// As what.
        status: RunStatus,
        /// The calls that wait.
        tool_call_ids: Vec<CallId>,
    },
    /// There is a new place to go back to.
    CheckpointCreated {
        /// Its name.
        checkpoint_id: CheckpointId,
    },
    /// A step is in the history; a client's state equals the server's.
    StepCommitted {
        /// How many messages there are now.
        message_count: usize,
    },
    /// What was streamed of this step is thrown away.
    StepDiscarded {
        /// Why.
        reason: String,
    },
    /// A reader shall forget what it saw of this step.
    StreamResync {
        /// Why.
        reason: String,
    },
    /// Another process took the run over.
    ExecutorSuperseded {},
}

impl ChunkPayload {
    /// Whether it may be written outside of a commit, and thrown away with an attempt.
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

    /// How many bytes its content has when nothing in it is escaped, or a little more. Counting ends
    /// when it is more than `enough`.
    pub(super) fn content_bytes(&self, enough: usize) -> usize {
        let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let value = |value| value_bytes(value, enough);
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
            }
            | Self::Custom {
                event_name: tool_name,
                data: content,
            } => tool_name.len() + value(content),
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
            // Lists: whoever wants to know has to write them out.
            Self::StatePatch { .. } | Self::StateConflict { .. } | Self::RunPaused { .. } => {
                usize::MAX
            }
        }
    }
}

/// How many bytes a value has as JSON when nothing in it is escaped, or a little more.
fn value_bytes<'a>(value: &'a Value, enough: usize) -> usize {
    /// No number is longer, with the comma after it.
    const NUMBER: usize = 26;
    let mut bytes = 0;
    // Only lists and objects wait, so that a flat value takes no memory.
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

    /// A new variant does not compile until it has its name here, and then wants a golden sample.
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
