//! The record of a run: one execution within a session.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RunStatus;
use crate::error::ErrorRecord;
use crate::id::{CallId, RunId, SessionId, StepId};
use crate::shared_str::SharedStr;
use crate::step::StopCause;
use crate::stored::Stored;
use crate::time::Timestamp;

/// The operation that started a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunTrigger {
    /// A message in a new or completed session.
    Execute,
    /// The answers to the calls of a suspended run.
    Continue,
    /// A message in a session that has ended.
    WithMessage,
    /// A retry of the same message.
    Retry,
    /// A rewind to a checkpoint.
    FromCheckpoint,
}

/// The record of one run.
///
/// ```
/// use helix_agents::prelude::*;
///
/// async fn log(run: &Handle<String>) -> Result<(), Error> {
///     let record = run.ended().await?;
///     println!("run {} took {} steps: {:?}", record.id, record.step_count, record.status);
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunRecord {
    /// The id of the run.
    pub id: RunId,
    /// The session of the run.
    pub session_id: SessionId,
    /// The operation that started the run.
    pub trigger: RunTrigger,
    /// The number of its turn, from 1. A turn that suspends has several runs.
    pub turn: u32,
    /// The number of user messages with which the run started.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub messages: u32,
    /// The rows of the inbox with whose messages the run started, and the entry that took them: how an entry
    /// whose acknowledgement was lost finds out what became of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbox: Vec<String>,
    /// The number of steps in the turn so far.
    pub step_count: u32,
    /// The number of those steps that earlier runs of the turn made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps_before: u32,
    /// How many times the model was asked for a missing output. Those steps do not
    /// count against the limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corrections: u32,
    /// The number of steps of the turn at which the step budget of the run began. A retry begins a
    /// fresh one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub budget_from: u32,
    /// The session before the turn of the run, so that the turn can be rewound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_start: Option<TurnStart>,
    /// The status of the run.
    pub status: RunStatus,
    /// The last sequence of the stream before the run: its own chunks come after it.
    pub start_sequence: u64,
    /// When the run started.
    pub started_at: Timestamp,
    /// When the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The rule that ended the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_reason: Option<StopCause>,
    /// The output, for agents that have one.
    #[serde(
        default,
        deserialize_with = "crate::stored::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub output: Option<Value>,
    /// The error that ended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorRecord>,
    /// The calls and children that the run waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspended>,
    /// The kind of host that performs the run, so that only that kind recovers it.
    pub host: SharedStr,
    /// The call of the parent session that the run works on, in the session of a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_call: Option<CallId>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl Stored for RunRecord {
    const KIND: &'static str = "run";
    const VERSION: u32 = 1;
}

impl RunRecord {
    /// Creates the record of a run that starts.
    #[must_use]
    #[doc(hidden)]
    pub fn started(
        id: RunId,
        session_id: SessionId,
        trigger: RunTrigger,
        host: impl Into<SharedStr>,
        started_at: Timestamp,
    ) -> Self {
        Self {
            id,
            session_id,
            trigger,
            turn: 1,
            messages: 0,
            inbox: Vec::new(),
            step_count: 0,
            steps_before: 0,
            corrections: 0,
            budget_from: 0,
            turn_start: None,
            status: RunStatus::Running,
            start_sequence: 0,
            started_at,
            ended_at: None,
            completion_reason: None,
            output: None,
            error: None,
            suspended: None,
            host: host.into(),
            parent_call: None,
        }
    }
}

/// The session as it was before a turn began.
///
/// The commit that starts a turn fills in the counts: see [`Change::StartRun`](crate::store::Change::StartRun).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TurnStart {
    /// The number of messages before the user messages of the turn.
    pub messages: usize,
    /// The number of user messages with which the turn began.
    pub user_messages: u32,
    /// The version of the state before the turn.
    pub state_version: u64,
    /// The version of the state once the turn had begun. It is a later one if the request set keys of
    /// the state.
    pub state_after: u64,
    /// The last sequence of the stream before the turn.
    pub sequence: u64,
}

impl TurnStart {
    /// Creates the start of a turn whose counts are not filled in yet.
    #[must_use]
    #[doc(hidden)]
    pub fn after(sequence: u64) -> Self {
        Self {
            sequence,
            ..Self::default()
        }
    }

    /// Sets the version of the state before a commit that also replaces the state.
    pub(crate) fn replacing(mut self, state_version: u64) -> Self {
        self.state_version = state_version;
        self
    }

    /// Fills in the counts of the session as it is when the run starts: after the user messages of the turn, and
    /// after the state of the request.
    pub(crate) fn filled(self, user_messages: u32, messages: usize, state_after: u64) -> Self {
        let before = usize::try_from(user_messages).unwrap_or(usize::MAX);
        let is_replaced = self.state_version > 0;
        Self {
            messages: messages.saturating_sub(before),
            user_messages,
            state_version: if is_replaced {
                self.state_version
            } else {
                state_after
            },
            state_after,
            sequence: self.sequence,
        }
    }
}

/// The session as it was before a step, which a rewind to the pause in that step restores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StepStart {
    /// The version of the state before the step.
    pub state_version: u64,
    /// A position in the stream before the step's own chunks.
    pub sequence: u64,
}

impl StepStart {
    /// Creates the start of a step.
    #[must_use]
    #[doc(hidden)]
    pub fn new(state_version: u64, sequence: u64) -> Self {
        Self {
            state_version,
            sequence,
        }
    }
}

/// The calls and children that a suspended run waits for: all that is needed to continue
/// it, in any process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Suspended {
    /// The calls that wait for an answer.
    pub tool_call_ids: Vec<CallId>,
    /// The child sessions that the run waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<SessionId>,
    /// The open step in which the run suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// The session before that step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<StepStart>,
}

impl Suspended {
    /// Creates a suspension in a step.
    #[must_use]
    #[doc(hidden)]
    pub fn new(step_id: StepId, tool_call_ids: Vec<CallId>, children: Vec<SessionId>) -> Self {
        Self {
            tool_call_ids,
            children,
            step_id: Some(step_id),
            before: None,
        }
    }
}
