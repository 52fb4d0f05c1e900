//! Everything a session is, but its messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CheckpointSource, ChildWait, PendingCall, SessionStatus};
use crate::error::ErrorRecord;
use crate::id::{CallId, CheckpointId, RunId, SessionId, StepId, StreamId, UserId};
use crate::stored::Stored;
use crate::time::Timestamp;

/// A session as a store gives it. Messages, runs and checkpoints are read on their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionState {
    /// Names it.
    pub session_id: SessionId,
    /// Which agent it talks to.
    pub agent_type: String,
    /// Its stream; the root's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<StreamId>,

    /// The application's own state.
    pub custom_state: Arc<Value>,
    /// Where it stands.
    pub status: SessionStatus,
    /// The steps of the present turn.
    pub step_count: u32,
    /// The output of the last turn.
    #[serde(
        default,
        deserialize_with = "crate::stored::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub output: Option<Value>,
    /// Why the last turn failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorRecord>,
    /// More about a failure, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Why it was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_context: Option<InterruptContext>,

    /// Calls that wait for somebody.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pending_client_tool_calls: BTreeMap<CallId, PendingCall>,
    /// Children that are waited for, by the call that made them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub suspended_awaiting_children: BTreeMap<CallId, ChildWait>,
    /// The open step in which it paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_step_id: Option<StepId>,
    /// When each answered call was answered. Roots only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub completed_client_tool_calls: BTreeMap<CallId, Timestamp>,
    /// Which session made each pending call. Roots only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub client_tool_call_ownership: BTreeMap<CallId, SessionId>,

    /// The trace that all its runs belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing_context: Option<TracingContext>,
    /// When it may be cleaned up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The parent, in a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<SessionId>,
    /// The root, in a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_session_id: Option<SessionId>,
    /// Set once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SessionMode>,

    /// Grows with every modification.
    pub version: u64,
    /// Grows with every resume.
    pub resume_count: u64,

    /// The checkpoint that was written last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<CheckpointId>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpointed_at: Option<Timestamp>,
    /// By what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_source: Option<CheckpointSource>,

    /// Its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Its workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_ref: Option<WorkspaceRef>,

    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl Stored for SessionState {
    const KIND: &'static str = "session";
    const VERSION: u32 = 1;
}

impl SessionState {
    /// A new session with an empty state.
    #[must_use]
    pub fn new(session_id: SessionId, agent_type: impl Into<String>, now: Timestamp) -> Self {
        Self {
            session_id,
            agent_type: agent_type.into(),
            stream_id: None,
            custom_state: Arc::new(Value::Object(Map::new())),
            status: SessionStatus::Active,
            step_count: 0,
            output: None,
            error: None,
            failure_reason: None,
            interrupt_context: None,
            pending_client_tool_calls: BTreeMap::new(),
            suspended_awaiting_children: BTreeMap::new(),
            suspended_step_id: None,
            completed_client_tool_calls: BTreeMap::new(),
            client_tool_call_ownership: BTreeMap::new(),
            tracing_context: None,
            expires_at: None,
            parent_session_id: None,
            root_session_id: None,
            mode: None,
            version: 0,
            resume_count: 0,
            checkpoint_id: None,
            checkpointed_at: None,
            checkpoint_source: None,
            user_id: None,
            tags: Vec::new(),
            metadata: BTreeMap::new(),
            workspace_ref: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// The session where answers are submitted and chunks are read: the root, or this one.
    #[must_use]
    pub fn root(&self) -> &SessionId {
        self.root_session_id.as_ref().unwrap_or(&self.session_id)
    }
}

/// Why a session was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InterruptContext {
    /// The run that was stopped.
    pub run_id: RunId,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When.
    pub interrupted_at: Timestamp,
}

impl InterruptContext {
    /// A run that was stopped.
    #[must_use]
    pub fn new(run_id: RunId, reason: Option<String>, interrupted_at: Timestamp) -> Self {
        Self {
            run_id,
            reason,
            interrupted_at,
        }
    }
}

/// The trace of a session: one for all its runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracingContext {
    /// The trace.
    pub trace_id: String,
    /// Its root span.
    pub root_span_id: String,
}

/// Whether the engine keeps one workflow for the session's whole life. Set once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionMode {
    /// One workflow per run.
    Standard,
    /// One workflow per session.
    Persistent,
}

/// A workspace that can be opened again in another process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceRef {
    /// Who can open it.
    pub provider_id: String,
    /// What the provider needs to know.
    #[serde(rename = "ref")]
    pub reference: Value,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// The version of `ref`.
    pub schema_version: u32,
}
