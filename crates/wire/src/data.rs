//! The data of our `data-NAME` chunks: what the AI SDK has no chunk for.

use helix_agents_core::session::{RunStatus, RunTrigger};
use helix_agents_core::state::{PatchOp, StateConflict};
use helix_agents_core::{CallId, CheckpointId, RunId, SessionId, UserId};
use serde::Serialize;

use crate::DataChunk;

/// Whether data stay in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// They are a part of the message.
    InMessage,
    /// They are told and forgotten.
    Transient,
}

/// Data with the name under which they are written.
pub(crate) trait Named: Serialize {
    const NAME: &'static str;
    const KEPT: Kept;

    fn chunk(&self) -> DataChunk {
        let data = serde_json::to_value(self).unwrap_or_default();
        match Self::KEPT {
            Kept::InMessage => DataChunk::new(Self::NAME, data),
            Kept::Transient => DataChunk::transient(Self::NAME, data),
        }
    }
}

macro_rules! data {
    ($($(#[$doc:meta])* $kept:ident $name:literal $type:ident { $($(#[$field_doc:meta])* $field:ident: $of:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Serialize)]
            #[cfg_attr(test, derive(ts_rs::TS))]
            #[serde(rename_all = "camelCase")]
            #[allow(clippy::allow_attributes, missing_docs, reason = "said of the whole")]
            pub(crate) struct $type {
                $($(#[$field_doc])* pub(crate) $field: $of,)*
            }

            impl Named for $type {
                const NAME: &'static str = $name;
                const KEPT: Kept = Kept::$kept;
            }
        )*

        /// The names, types and places of all data.
        #[cfg(test)]
        pub(crate) fn declared(config: &ts_rs::Config) -> Vec<(&'static str, Kept, String, String)> {
            use ts_rs::TS;
            vec![$(($name, Kept::$kept, $type::name(config), $type::decl(config)),)*]
        }
    };
}

data! {
    /// A change of the session's state, as operations of RFC 6902.
    InMessage "state-patch" StatePatchData {
        sequence: u64,
        #[cfg_attr(test, ts(type = "Array<PatchOperation>"))]
        patches: Vec<PatchOp>,
    }
    /// What a sub-agent says and does; replaced in place.
    InMessage "subagent" SubagentData {
        #[cfg_attr(test, ts(type = "string"))]
        session_id: SessionId,
        agent_type: String,
        /// The call that started it; absent where that was in an earlier turn.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        tool_call_id: Option<String>,
        #[cfg_attr(test, ts(type = "'running' | 'completed' | 'failed'"))]
        status: &'static str,
        text: String,
        tools: Vec<SubagentTool>,
    }
    /// What a person decided about a call.
    InMessage "approval" ApprovalData {
        #[cfg_attr(test, ts(type = "string"))]
        tool_call_id: CallId,
        approval_id: String,
        approved: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional, type = "string"))]
        decided_by: Option<UserId>,
    }
    /// Answers that were not taken: they came too late.
    InMessage "resume-rejected" ResumeRejectedData {
        tool_call_ids: Vec<String>,
        reason: String,
        code: String,
    }
    /// A run starts.
    Transient "run-started" RunStartedData {
        #[cfg_attr(test, ts(type = "string"))]
        run_id: RunId,
        turn: u32,
        #[cfg_attr(test, ts(type = "string"))]
        trigger: RunTrigger,
    }
    /// A run was stopped.
    Transient "run-interrupted" RunInterruptedData {
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, ts(optional))]
        reason: Option<String>,
    }
    /// A suspended session continues.
    Transient "run-resumed" RunResumedData {}
    /// A run ended because calls or sub-agents wait.
    Transient "run-paused" RunPausedData {
        #[cfg_attr(test, ts(type = "string"))]
        status: RunStatus,
        #[cfg_attr(test, ts(type = "Array<string>"))]
        tool_call_ids: Vec<CallId>,
    }
    /// A checkpoint was written.
    Transient "checkpoint-created" CheckpointCreatedData {
        #[cfg_attr(test, ts(type = "string"))]
        checkpoint_id: CheckpointId,
    }
    /// A step is in the history.
    Transient "step-committed" StepCommittedData {
        message_count: usize,
    }
    /// An attempt was thrown away.
    Transient "step-discarded" StepDiscardedData {
        reason: String,
    }
    /// What the client has shown is not what the session has: it loads the snapshot.
    Transient "stream-resync" StreamResyncData {
        reason: String,
    }
    /// Another process took the run over.
    Transient "executor-superseded" ExecutorSupersededData {}
    /// Parallel calls wrote to the same place of the state.
    Transient "state-conflict" StateConflictData {
        #[cfg_attr(test, ts(type = "Array<unknown>"))]
        conflicts: Vec<StateConflict>,
    }
    /// A sub-agent starts.
    Transient "subagent-start" SubagentStartData {
        #[cfg_attr(test, ts(type = "string"))]
        tool_call_id: CallId,
        agent_type: String,
        #[cfg_attr(test, ts(type = "string"))]
        session_id: SessionId,
    }
    /// A sub-agent has ended.
    Transient "subagent-end" SubagentEndData {
        #[cfg_attr(test, ts(type = "string"))]
        tool_call_id: CallId,
        agent_type: String,
        #[cfg_attr(test, ts(type = "string"))]
        session_id: SessionId,
        success: bool,
    }
    /// How long a call took.
    Transient "tool-timing" ToolTimingData {
        tool_call_id: String,
        duration_ms: u64,
    }
    /// The details of an error: right before the error itself, or alone if the run continues.
    Transient "error" ErrorData {
        error_text: String,
        code: String,
        recoverable: bool,
    }
}

/// A call of a sub-agent, in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubagentTool {
    pub(crate) tool_call_id: String,
    pub(crate) tool_name: String,
    #[cfg_attr(test, ts(type = "'running' | 'waiting' | 'completed' | 'failed'"))]
    pub(crate) state: &'static str,
}

impl SubagentData {
    /// The id by which the data of a sub-agent are replaced.
    pub(crate) fn part_id(session: &SessionId) -> String {
        format!("subagent-{session}")
    }
}

impl DataChunk {
    /// Tells a client that answers were not taken.
    #[must_use]
    pub fn resume_rejected(calls: Vec<String>, code: &str, reason: &str) -> Self {
        let data = ResumeRejectedData {
            tool_call_ids: calls,
            reason: reason.to_owned(),
            code: code.to_owned(),
        };
        data.chunk()
    }
}
