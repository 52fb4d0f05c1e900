//! Calls that wait for somebody outside.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::Digest;
use crate::id::{ApprovalId, CallId, RunId, SessionId, UserId};
use crate::stored::Stored;
use crate::time::Timestamp;

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PendingKind {
    /// A client runs it and submits the result.
    Client,
    /// A person decides whether it is run.
    Approval,
}

/// A call that waits. It is bound to its arguments: the digest says what exactly was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PendingCall {
    /// The call.
    pub tool_call_id: CallId,
    /// The tool.
    pub tool_name: String,
    /// What it waits for.
    pub kind: PendingKind,
    /// The arguments.
    pub input: Value,
    /// The single-use name of the question, for approvals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// The digest of tool and arguments.
    pub digest: Digest,
    /// The run that asked.
    pub run_id: RunId,
    /// Until when an answer is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The session that made the call.
    pub session_id: SessionId,
    /// The session where the answer is submitted.
    pub root_session_id: SessionId,
    /// Since when it waits.
    pub created_at: Timestamp,
    /// The answer, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

impl Stored for PendingCall {
    const KIND: &'static str = "pending";
    const VERSION: u32 = 1;
}

impl PendingCall {
    /// A call that waits for a client in a root session, without a deadline.
    #[must_use]
    pub fn client(
        session_id: SessionId,
        run_id: RunId,
        tool_call_id: CallId,
        tool_name: impl Into<String>,
        input: Value,
        created_at: Timestamp,
    ) -> Self {
        let tool_name = tool_name.into();
        Self {
            digest: Digest::of_call(&tool_name, &input),
            tool_call_id,
            tool_name,
            kind: PendingKind::Client,
            input,
            approval_id: None,
            run_id,
            deadline: None,
            root_session_id: session_id.clone(),
            session_id,
            created_at,
            answer: None,
        }
    }

    /// The same call, waiting for a person's decision instead.
    #[must_use]
    pub fn needing_approval(mut self, approval_id: ApprovalId) -> Self {
        self.kind = PendingKind::Approval;
        self.approval_id = Some(approval_id);
        self
    }
}

/// What somebody answered, and who.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Answer {
    /// The answer.
    pub submission: super::Submission,
    /// When it was given.
    pub submitted_at: Timestamp,
    /// Who gave it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<UserId>,
}

impl Answer {
    /// An answer of somebody unknown.
    #[must_use]
    pub fn new(submission: super::Submission, submitted_at: Timestamp) -> Self {
        Self {
            submission,
            submitted_at,
            decided_by: None,
        }
    }
}
