//! The JSON form of sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::view::schemas::{ErrorRecordSchema, RunStatusSchema, SessionStatusSchema};
use helix_agents_core::session::{RunStatus, SessionState, SessionStatus};
use helix_agents_core::store::Snapshot;
use helix_agents_core::time::Timestamp;
use helix_agents_core::{CheckpointId, ErrorRecord, RunId, SessionId, UserId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A session in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionView {
    #[schema(value_type = String)]
    session_id: SessionId,
    agent_type: String,
    #[schema(value_type = SessionStatusSchema)]
    status: SessionStatus,
    step_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    user_id: Option<UserId>,
    tags: Vec<String>,
    metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    parent_session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    root_session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ErrorRecordSchema)]
    error: Option<ErrorRecord>,
    #[schema(value_type = u64)]
    created_at: Timestamp,
    #[schema(value_type = u64)]
    updated_at: Timestamp,
}

impl From<SessionState> for SessionView {
    fn from(state: SessionState) -> Self {
        Self {
            session_id: state.session_id,
            agent_type: state.agent_type.to_string(),
            status: state.status,
            step_count: state.step_count,
            user_id: state.user_id,
            tags: state.tags,
            metadata: state.metadata,
            parent_session_id: state.parent_session_id,
            root_session_id: state.root_session_id,
            output: state.output,
            error: state.error,
            created_at: state.created_at,
            updated_at: state.updated_at,
        }
    }
}

/// A session with its state.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionDetail {
    #[serde(flatten)]
    session: SessionView,
    #[schema(value_type = Object)]
    state: Arc<Value>,
    message_count: usize,
    version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = RunStatusSchema)]
    run_status: Option<RunStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    checkpoint_id: Option<CheckpointId>,
}

impl From<Snapshot> for SessionDetail {
    fn from(found: Snapshot) -> Self {
        Self {
            state: Arc::clone(&found.state.custom_state),
            message_count: found.message_count,
            version: found.state.version,
            run_id: found.run.as_ref().map(|run| run.id.clone()),
            run_status: found.run.as_ref().map(|run| run.status),
            checkpoint_id: found.state.checkpoint_id.clone(),
            session: found.state.into(),
        }
    }
}
