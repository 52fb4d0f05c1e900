//! The fields of a session, except its messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    CheckpointSource, ChildMode, ChildWait, PendingCall, PersistentChild, SessionStatus,
    SubSessionRef, WaitingCall,
};
use crate::error::ErrorRecord;
use crate::id::{CallId, CheckpointId, RunId, SessionId, StepId, StreamId, UserId};
use crate::shared_str::SharedStr;
use crate::store::PendingStatus;
use crate::stored::Stored;
use crate::time::Timestamp;

/// A session as a store returns it. Messages, runs and checkpoints are read separately.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::SessionState;
///
/// fn title(session: &SessionState) -> String {
///     let owner = session.user_id.as_ref().map_or("nobody", UserId::as_str);
///     format!("{} of {owner}: {:?}", session.session_id, session.status)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionState {
    // Hidden fields are stored, but reserved: no runtime sets them yet.
    /// The id of the session.
    pub session_id: SessionId,
    /// The agent of the session.
    pub agent_type: SharedStr,
    /// The stream of the session, which is the root's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<StreamId>,

    /// The application's own state.
    pub custom_state: Arc<Value>,
    /// The status of the session.
    pub status: SessionStatus,
    /// The number of steps in the current turn.
    pub step_count: u32,
    /// The output of the last turn.
    #[serde(
        default,
        deserialize_with = "crate::stored::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub output: Option<Value>,
    /// The error with which the last turn failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorRecord>,
    /// Machine-readable details about a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Why and how the session was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_context: Option<InterruptContext>,

    /// The pending calls by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pending_client_tool_calls: BTreeMap<CallId, PendingCall>,
    /// Child sessions that the run waits for, by the call that created them.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub suspended_awaiting_children: BTreeMap<CallId, ChildWait>,
    /// The open step in which the run suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_step_id: Option<StepId>,
    /// When each answered call was answered. Roots only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub completed_client_tool_calls: BTreeMap<CallId, Timestamp>,
    /// The session that made each pending call. Roots only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub client_tool_call_ownership: BTreeMap<CallId, SessionId>,

    /// The trace to which all its runs belong.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing_context: Option<TracingContext>,
    /// When the session may be cleaned up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The parent, for the session of a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<SessionId>,
    /// The root, for the session of a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_session_id: Option<SessionId>,
    /// Its name and its mode in its parent, for the session of a persistent sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent: Option<Box<PersistentChild>>,
    /// The session mode, which is set once.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SessionMode>,

    /// A number that every commit to the session raises.
    pub version: u64,
    /// The number of resumes so far.
    pub resume_count: u64,

    /// The most recently written checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<CheckpointId>,
    /// When that checkpoint was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpointed_at: Option<Timestamp>,
    /// The operation that wrote that checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_source: Option<CheckpointSource>,

    /// The user who owns the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The tags of the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The metadata of the session.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The workspace of the session.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_ref: Option<WorkspaceRef>,

    /// When the session was created.
    pub created_at: Timestamp,
    /// When the session last changed.
    pub updated_at: Timestamp,
}

impl Stored for SessionState {
    const KIND: &'static str = "session";
    const VERSION: u32 = 1;
}

impl SessionState {
    /// The reference of its parent to it, for the session of a persistent sub-agent.
    pub(crate) fn persistent_link(&self) -> Option<SubSessionRef> {
        let child = self.persistent.as_deref()?;
        let (session, call) = (self.session_id.clone(), child.tool_call_id.clone());
        let agent = self.agent_type.to_string();
        let mut link = SubSessionRef::new(session, agent, call, self.created_at);
        link.mode = ChildMode::Persistent;
        link.name = Some(child.name.clone());
        link.blocking = child.blocking;
        Some(link)
    }

    /// Creates an active session with an empty state.
    #[must_use]
    #[doc(hidden)]
    pub fn new(session_id: SessionId, agent_type: impl Into<SharedStr>, now: Timestamp) -> Self {
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
            persistent: None,
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

    /// Returns the session to which answers are submitted and whose stream is read: the
    /// root, or this one.
    #[must_use]
    pub fn root(&self) -> &SessionId {
        self.root_session_id.as_ref().unwrap_or(&self.session_id)
    }

    /// The pending calls that nobody has answered yet.
    #[must_use]
    pub fn unanswered_calls(&self) -> Vec<WaitingCall> {
        let pending = self.pending_client_tool_calls.values();
        let unanswered = pending.filter(|call| call.answer.is_none());
        unanswered.map(WaitingCall::from).collect()
    }

    /// The entry of a call on the list of pending calls, as a precondition names it.
    pub(crate) fn call_standing(&self, call: &CallId) -> PendingStatus {
        match self.pending_client_tool_calls.get(call) {
            None => PendingStatus::Absent,
            Some(pending) if pending.answer.is_some() => PendingStatus::Answered,
            Some(_) => PendingStatus::Open,
        }
    }
}

/// Why and when a session was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InterruptContext {
    /// The run that was stopped.
    pub run_id: RunId,
    /// The reason that the caller gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the run was stopped.
    pub interrupted_at: Timestamp,
}

impl InterruptContext {
    /// Creates the context of a stopped run.
    #[must_use]
    #[doc(hidden)]
    pub fn new(run_id: RunId, reason: Option<String>, interrupted_at: Timestamp) -> Self {
        Self {
            run_id,
            reason,
            interrupted_at,
        }
    }
}

/// The trace of a session, shared by all its runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracingContext {
    /// The id of the trace.
    pub trace_id: String,
    /// The id of its root span.
    pub root_span_id: String,
}

/// Whether the engine keeps one workflow for the whole life of the session. Set once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionMode {
    /// One workflow per run.
    Standard,
    /// One workflow per session.
    Persistent,
}

/// A reference with which another process can open a workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceRef {
    /// The id of the provider that can open it.
    pub provider_id: String,
    /// Data that the provider needs to open it.
    #[serde(rename = "ref")]
    pub reference: Value,
    /// The capabilities of the workspace.
    pub capabilities: Vec<String>,
    /// The version of the format of `ref`.
    pub schema_version: u32,
}
