//! Answers that no run has consumed yet, as JSON.

use helix_agents_core::session::{PendingCall, SessionState, Submission};
use helix_agents_core::store::{SessionStore, StoreError};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{ApprovalId, CallId, SessionId, UserId};
use serde::Serialize;
use utoipa::ToSchema;

/// An answer to a call. Once a run has consumed it, it is in the stream instead.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnsweredView {
    #[schema(value_type = String)]
    tool_call_id: CallId,
    /// The session that made the call.
    #[schema(value_type = String)]
    session_id: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    approval_id: Option<ApprovalId>,
    /// The decision of an approval; absent for other answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    approved: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
    /// The user who answered, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    decided_by: Option<UserId>,
    #[schema(value_type = u64)]
    answered_at: Timestamp,
}

impl AnsweredView {
    fn of(call: &PendingCall) -> Option<Self> {
        let answer = call.answer.as_ref()?;
        let (approved, reason) = match &answer.submission {
            Submission::ApprovalResponse {
                approved, reason, ..
            } => (Some(*approved), reason.clone()),
            _ => (None, None),
        };
        Some(Self {
            tool_call_id: call.tool_call_id.clone(),
            session_id: call.session_id.clone(),
            approval_id: call.approval_id.clone(),
            approved,
            reason,
            decided_by: answer.decided_by.clone(),
            answered_at: answer.submitted_at,
        })
    }
}

/// Returns the answers that no run has consumed yet, in a session and, for a root, in its
/// descendants. `open` are the pending calls.
pub(crate) async fn all_answered(
    store: &dyn SessionStore,
    session: &SessionState,
    open: &[PendingCall],
) -> Result<Vec<AnsweredView>, StoreError> {
    let calls = answered_calls(store, session, open).await?;
    Ok(calls.iter().filter_map(AnsweredView::of).collect())
}

/// Returns the calls of these answers.
pub(crate) async fn answered_calls(
    store: &dyn SessionStore,
    session: &SessionState,
    open: &[PendingCall],
) -> Result<Vec<PendingCall>, StoreError> {
    let mut all: Vec<_> = answered(session).collect();
    let is_open = |call: &CallId| open.iter().any(|open| open.tool_call_id == *call);
    let owners = session.client_tool_call_ownership.iter();
    let owners = owners.filter(|(call, owner)| **owner != session.session_id && !is_open(call));
    let mut owners: Vec<&SessionId> = owners.map(|(_, owner)| owner).collect();
    owners.sort_unstable();
    owners.dedup();
    for owner in owners {
        if let Some(child) = store.load(session.key().beside(owner)).await? {
            all.extend(answered(&child.state));
        }
    }
    Ok(all)
}

fn answered(session: &SessionState) -> impl Iterator<Item = PendingCall> {
    let calls = session.pending_client_tool_calls.values();
    calls.filter(|call| call.answer.is_some()).cloned()
}
