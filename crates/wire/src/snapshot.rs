//! The snapshot of a session for a page that is loaded.

use std::sync::Arc;

use helix_agents_core::canonical::Digest;
use helix_agents_core::session::{PendingCall, PendingKind, RunStatus, SessionStatus};
use helix_agents_core::store::Snapshot as SessionSnapshot;
use helix_agents_core::stream::Sequence;
use helix_agents_core::time::Timestamp;
use helix_agents_core::{ApprovalId, CallId, CheckpointId, RunId, SessionId};
use serde::Serialize;
use serde_json::Value;

use crate::UiMessage;

/// What a page needs of a session when it is loaded.
///
/// `messages` leaves out the bubble in flight: a reader of the stream gets it whole. `stream_sequence` is then the
/// position before its first chunk, and otherwise the end of the stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Snapshot {
    /// The session.
    #[cfg_attr(test, ts(type = "string"))]
    pub session_id: SessionId,
    /// Its agent.
    pub agent_type: String,
    /// Its latest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional, type = "string"))]
    pub run_id: Option<RunId>,
    /// Its state.
    pub state: Arc<Value>,
    /// Its messages, oldest first.
    pub messages: Vec<UiMessage>,
    /// Whether there are older messages than these.
    pub has_more: bool,
    /// Where a stream goes on.
    pub stream_sequence: u64,
    /// Whether there is a stream to read.
    pub status: SnapshotStatus,
    /// Its latest checkpoint.
    #[cfg_attr(test, ts(type = "string | null"))]
    pub checkpoint_id: Option<CheckpointId>,
    /// When it was taken, in milliseconds since 1970.
    #[cfg_attr(test, ts(type = "number"))]
    pub timestamp: Timestamp,
    /// Why the last turn failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub error: Option<SnapshotError>,
    /// The calls of its tree that wait for somebody.
    pub pending: Vec<PendingView>,
}

impl Snapshot {
    /// Describes a session as it was read, at this instant: with these messages, and the calls of its tree that wait.
    #[must_use]
    pub fn of(found: &SessionSnapshot, now: Timestamp) -> Self {
        let status = SnapshotStatus::of(found);
        Self {
            session_id: found.state.session_id.clone(),
            agent_type: found.state.agent_type.to_string(),
            run_id: found.run.as_ref().map(|run| run.id.clone()),
            state: Arc::clone(&found.state.custom_state),
            messages: Vec::new(),
            has_more: false,
            stream_sequence: 0,
            status,
            checkpoint_id: found.state.checkpoint_id.clone(),
            timestamp: now,
            error: match status {
                SnapshotStatus::Failed => SnapshotError::of(found),
                _ => None,
            },
            pending: Vec::new(),
        }
    }

    /// Sets the messages, and whether there are older ones.
    #[must_use]
    pub fn messages(mut self, messages: Vec<UiMessage>, has_more: bool) -> Self {
        (self.messages, self.has_more) = (messages, has_more);
        self
    }

    /// Sets where a stream goes on.
    #[must_use]
    pub fn stream_sequence(mut self, sequence: Sequence) -> Self {
        self.stream_sequence = sequence.0;
        self
    }

    /// Sets the calls that wait for somebody.
    #[must_use]
    pub fn pending(mut self, pending: impl IntoIterator<Item = PendingCall>) -> Self {
        self.pending = pending.into_iter().map(PendingView::from).collect();
        self
    }
}

/// Whether there is a stream to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SnapshotStatus {
    /// A run is in progress.
    Active,
    /// The turn waits for somebody.
    Paused,
    /// The last turn is over.
    Ended,
    /// The last turn failed.
    Failed,
}

impl SnapshotStatus {
    /// The status of a session.
    #[must_use]
    pub fn of(found: &SessionSnapshot) -> Self {
        let run = found.run.as_ref().map(|run| run.status);
        match (run, found.state.status) {
            (Some(RunStatus::Running), _) => Self::Active,
            // Messages wait for a run that will start by itself.
            _ if !found.inbox.is_empty() => Self::Active,
            (_, SessionStatus::Paused) => Self::Paused,
            (Some(status), _) if status.is_suspended() => Self::Paused,
            (Some(RunStatus::Failed), _) | (_, SessionStatus::Failed) => Self::Failed,
            _ => Self::Ended,
        }
    }

    /// Whether a bubble is in flight.
    #[must_use]
    pub const fn is_in_flight(self) -> bool {
        matches!(self, Self::Active | Self::Paused)
    }
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[non_exhaustive]
pub struct SnapshotError {
    /// A sentence that is safe to show to any user.
    pub error: String,
    /// The machine-readable code.
    pub code: String,
}

impl SnapshotError {
    /// The error of a session whose last turn failed.
    #[must_use]
    pub fn of(found: &SessionSnapshot) -> Option<Self> {
        let error = found.state.error.as_ref()?;
        Some(Self {
            error: error.message.clone(),
            code: error.code.to_string(),
        })
    }
}

/// A call that waits for a client or a person.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PendingView {
    /// The id of the call.
    #[cfg_attr(test, ts(type = "string"))]
    pub tool_call_id: CallId,
    /// The name of the tool.
    pub tool_name: String,
    /// Who must answer it.
    #[cfg_attr(test, ts(type = "'client' | 'approval'"))]
    pub kind: PendingKind,
    /// The arguments.
    pub input: Value,
    /// The id of the request for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional, type = "string"))]
    pub approval_id: Option<ApprovalId>,
    /// The digest of the tool and its arguments.
    #[cfg_attr(test, ts(type = "string"))]
    pub digest: Digest,
    /// The run that made the call.
    #[cfg_attr(test, ts(type = "string"))]
    pub run_id: RunId,
    /// When it times out, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional, type = "number"))]
    pub deadline: Option<Timestamp>,
    /// The session that made the call.
    #[cfg_attr(test, ts(type = "string"))]
    pub session_id: SessionId,
    /// The session to which the answer is sent.
    #[cfg_attr(test, ts(type = "string"))]
    pub root_session_id: SessionId,
    /// When it was made, in milliseconds since 1970.
    #[cfg_attr(test, ts(type = "number"))]
    pub created_at: Timestamp,
}

impl From<PendingCall> for PendingView {
    fn from(call: PendingCall) -> Self {
        Self {
            tool_call_id: call.tool_call_id,
            tool_name: call.tool_name.to_string(),
            kind: call.kind,
            input: call.input.into_value(),
            approval_id: call.approval_id,
            digest: call.digest,
            run_id: call.run_id,
            deadline: call.deadline,
            session_id: call.session_id,
            root_session_id: call.root_session_id,
            created_at: call.created_at,
        }
    }
}
