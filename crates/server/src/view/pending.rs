//! Pending calls as JSON.

use crate::view::schemas::PendingKindSchema;
use helix_agents_core::canonical::Digest;
use helix_agents_core::session::{PendingCall, PendingKind};
use helix_agents_core::store::{Page, PendingQuery, SessionStore, StoreError};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{ApprovalId, CallId, RunId, SessionId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A pending call, which waits for a client or a person.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingView {
    #[schema(value_type = String)]
    tool_call_id: CallId,
    tool_name: String,
    #[schema(value_type = PendingKindSchema)]
    kind: PendingKind,
    input: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    approval_id: Option<ApprovalId>,
    #[schema(value_type = String)]
    digest: Digest,
    #[schema(value_type = String)]
    run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64)]
    deadline: Option<Timestamp>,
    /// The session that made the call.
    #[schema(value_type = String)]
    session_id: SessionId,
    /// The session to which the answer is sent.
    #[schema(value_type = String)]
    root_session_id: SessionId,
    #[schema(value_type = u64)]
    created_at: Timestamp,
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

/// Returns every pending call in the tree of a root, oldest first.
pub(crate) async fn all_pending(
    store: &dyn SessionStore,
    root: &SessionId,
) -> Result<Vec<PendingCall>, StoreError> {
    let mut all = Vec::new();
    loop {
        let query = PendingQuery {
            root: Some(root.clone()),
            page: Page::new(all.len(), Page::MAX),
            ..PendingQuery::default()
        };
        let page = store.pending(&query).await?;
        all.extend(page.items);
        if !page.has_more {
            return Ok(all);
        }
    }
}
