//! Creating a session from a point in another one.

use axum::Json;
use axum::extract::State;
use helix_agents_core::id::IdSourceExt;
use helix_agents_core::store::{BranchPoint, StoreError};
use helix_agents_core::{CheckpointId, SessionId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiError;
use crate::body::JsonBody;
use crate::builder::App;
use crate::caller::{Caller, SessionPath};
use crate::view::schemas::IdSchema;

/// The point from which a new session starts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BranchBody {
    #[serde(default)]
    #[schema(value_type = Option<IdSchema>)]
    checkpoint_id: Option<CheckpointId>,
    #[serde(default)]
    message_index: Option<u64>,
    #[serde(default)]
    #[schema(value_type = Option<IdSchema>)]
    new_session_id: Option<SessionId>,
}

/// The id of the new session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BranchedView {
    #[schema(value_type = String)]
    session_id: SessionId,
}

pub(crate) async fn branch(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
    JsonBody(body): JsonBody<BranchBody>,
) -> Result<Json<BranchedView>, ApiError> {
    let point = match (body.checkpoint_id, body.message_index) {
        (Some(checkpoint), None) => BranchPoint::Checkpoint(checkpoint),
        (None, Some(index)) => {
            BranchPoint::Message(usize::try_from(index).unwrap_or(usize::MAX - 1))
        }
        _ => {
            let detail = "a branch begins at a checkpointId or a messageIndex; give one of them";
            return Err(ApiError::invalid(detail));
        }
    };
    caller.open(&app, &session).await?;
    let session_id = match body.new_session_id {
        Some(session_id) => session_id,
        None => app.runtime.ids().session_id()?,
    };
    let sessions = app.sessions();
    let branched = sessions.branch(&session, &point, &session_id).await;
    branched.map_err(|error| match error {
        StoreError::AlreadyExists { .. } => ApiError::taken(error.to_string()),
        StoreError::Invalid { .. } => ApiError::invalid(error.to_string()),
        error => error.into(),
    })?;
    Ok(Json(BranchedView { session_id }))
}
