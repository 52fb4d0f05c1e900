//! The status of a session.

use axum::Json;
use axum::extract::State;
use helix_agents_core::session::RunStatus;
use helix_agents_core::{RunId, SessionId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::ApiError;
use crate::builder::App;
use crate::caller::Caller;
use crate::query::Pairs;
use crate::view::schemas::RunStatusSchema;
use crate::view::{AnsweredView, OutcomeView, PendingView, all_answered, all_pending};

/// The status of a session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusView {
    #[schema(value_type = String)]
    session_id: SessionId,
    agent_type: String,
    #[serde(flatten)]
    outcome: OutcomeView,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = RunStatusSchema)]
    run_status: Option<RunStatus>,
    step_count: u32,
    stream_sequence: u64,
    /// The stream that the sequence belongs to; absent before the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    stream_incarnation: Option<u64>,
    pending: Vec<PendingView>,
    /// Answered calls that no run has consumed yet; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    answered: Vec<AnsweredView>,
}

pub(crate) async fn status(
    State(app): State<App>,
    caller: Caller,
    query: Pairs,
) -> Result<Json<StatusView>, ApiError> {
    let found = caller.open(&app, &query.session()?).await?;
    let (session, root) = (&found.state.session_id, found.state.root());
    let pending = all_pending(app.store(), root).await?;
    let answered = all_answered(app.store(), &found.state, &pending).await?;
    let theirs = pending
        .into_iter()
        .filter(|call| session == root || call.session_id == *session);
    let info = app.streams().info(root).await?;
    Ok(Json(StatusView {
        outcome: OutcomeView::of(&found),
        run_id: found.run.as_ref().map(|run| run.id.clone()),
        run_status: found.run.as_ref().map(|run| run.status),
        step_count: found.state.step_count,
        stream_sequence: info.map_or(0, |info| info.last.0),
        stream_incarnation: info.map(|info| info.incarnation.0),
        pending: theirs.map(PendingView::from).collect(),
        answered,
        session_id: session.clone(),
        agent_type: found.state.agent_type.to_string(),
    }))
}
