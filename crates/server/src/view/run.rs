//! The JSON form of runs.

use helix_agents_core::session::{RunRecord, RunStatus, RunTrigger, Suspended};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{CallId, ErrorRecord, RunId, SessionId, StepId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::named;
use crate::view::schemas::{ErrorRecordSchema, RunStatusSchema, RunTriggerSchema, StopCauseSchema};

/// A run of a session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunView {
    #[schema(value_type = String)]
    run_id: RunId,
    #[schema(value_type = String)]
    session_id: SessionId,
    #[schema(value_type = RunTriggerSchema)]
    trigger: RunTrigger,
    turn: u32,
    /// The number of user messages with which the run started.
    messages: u32,
    step_count: u32,
    #[schema(value_type = RunStatusSchema)]
    status: RunStatus,
    start_sequence: u64,
    #[schema(value_type = u64)]
    started_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64)]
    ended_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = StopCauseSchema)]
    completion_reason: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ErrorRecordSchema)]
    error: Option<ErrorRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    suspended: Option<SuspendedView>,
}

impl From<RunRecord> for RunView {
    fn from(run: RunRecord) -> Self {
        Self {
            run_id: run.id,
            session_id: run.session_id,
            trigger: run.trigger,
            turn: run.turn,
            messages: run.messages,
            step_count: run.step_count,
            status: run.status,
            start_sequence: run.start_sequence,
            started_at: run.started_at,
            ended_at: run.ended_at,
            completion_reason: run.completion_reason.as_ref().map(named),
            output: run.output,
            error: run.error,
            suspended: run.suspended.as_ref().map(SuspendedView::of),
        }
    }
}

/// The calls and children that a suspended run waits for.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SuspendedView {
    #[schema(value_type = Vec<String>)]
    tool_call_ids: Vec<CallId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    children: Vec<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    step_id: Option<StepId>,
}

impl SuspendedView {
    pub(crate) fn of(suspended: &Suspended) -> Self {
        Self {
            tool_call_ids: suspended.tool_call_ids.clone(),
            children: suspended.children.clone(),
            step_id: suspended.step_id.clone(),
        }
    }
}
