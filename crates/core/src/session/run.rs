//! Runs: executions within a session.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RunStatus;
use crate::error::ErrorRecord;
use crate::id::{CallId, RunId, SessionId, StepId};
use crate::step::StopCause;
use crate::stored::Stored;
use crate::time::Timestamp;

/// What started a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunTrigger {
    /// A message on a new or completed session.
    Execute,
    /// The answers of a paused run.
    Continue,
    /// A message on a session that has ended.
    WithMessage,
    /// The same message again.
    Retry,
    /// A rewind.
    FromCheckpoint,
}

/// The record of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunRecord {
    /// Names it.
    pub id: RunId,
    /// Its session.
    pub session_id: SessionId,
    /// What started it.
    pub trigger: RunTrigger,
    /// The turn it belongs to, from 1. A turn that pauses has several runs.
    pub turn: u32,
    /// How many messages it began with.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub messages: u32,
    /// The steps of the turn so far.
    pub step_count: u32,
    /// How many of them earlier runs of the turn made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps_before: u32,
    /// How often the model was asked for an output that it owes. Those steps are outside the limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corrections: u32,
    /// Where it stands.
    pub status: RunStatus,
    /// The last sequence of the stream before it: its own chunks come after.
    pub start_sequence: u64,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Which rule ended the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_reason: Option<StopCause>,
    /// The output, for agents that have one.
    #[serde(
        default,
        deserialize_with = "crate::stored::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub output: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorRecord>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspended>,
    /// Which kind of host performs it, so that only its own kind recovers it.
    pub host: String,
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
    /// A run that starts.
    #[must_use]
    pub fn started(
        id: RunId,
        session_id: SessionId,
        trigger: RunTrigger,
        host: impl Into<String>,
        started_at: Timestamp,
    ) -> Self {
        Self {
            id,
            session_id,
            trigger,
            turn: 1,
            messages: 0,
            step_count: 0,
            steps_before: 0,
            corrections: 0,
            status: RunStatus::Running,
            start_sequence: 0,
            started_at,
            ended_at: None,
            completion_reason: None,
            output: None,
            error: None,
            suspended: None,
            host: host.into(),
        }
    }
}

/// What a paused run waits for: all that is needed to go on, in any process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Suspended {
    /// The calls that wait for an answer.
    pub tool_call_ids: Vec<CallId>,
    /// The children that are waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<SessionId>,
    /// The open step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
}

impl Suspended {
    /// A pause in a step.
    #[must_use]
    pub fn new(step_id: StepId, tool_call_ids: Vec<CallId>, children: Vec<SessionId>) -> Self {
        Self {
            tool_call_ids,
            children,
            step_id: Some(step_id),
        }
    }
}
