//! Interrupting and aborting a run.

use axum::Json;
use axum::extract::State;
use helix_agents_core::runtime::{RuntimeExt, Stop};
use helix_agents_core::session::{MAX_ERROR_BYTES, StopKind};
use helix_agents_core::{RunId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiError;
use crate::body::JsonBody;
use crate::builder::App;
use crate::caller::Caller;
use crate::view::schemas::IdSchema;

/// The session whose run is stopped, and the reason.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StopBody {
    #[schema(value_type = IdSchema)]
    session_id: SessionId,
    #[serde(default)]
    reason: Option<String>,
}

/// Whether there was a run to stop.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StopView {
    accepted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    run_id: Option<RunId>,
}

pub(crate) async fn interrupt(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody<StopBody>,
) -> Result<Json<StopView>, ApiError> {
    stop(&app, &caller, body, StopKind::Interrupt).await
}

pub(crate) async fn abort(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody<StopBody>,
) -> Result<Json<StopView>, ApiError> {
    stop(&app, &caller, body, StopKind::Abort).await
}

/// Stops the run of a chat. A reason may be given in the body.
pub(crate) async fn stop_chat(
    app: &App,
    caller: &Caller,
    session_id: SessionId,
    mut body: Map<String, Value>,
    kind: StopKind,
) -> Result<Json<StopView>, ApiError> {
    let reason = body.remove("reason").unwrap_or_default();
    let reason = serde_json::from_value(reason)
        .map_err(|error| ApiError::invalid(format!("the reason is not a text: {error}")))?;
    stop(app, caller, StopBody { session_id, reason }, kind).await
}

/// Stores a stop request for the current run. The process that performs the run obeys it; a suspended run
/// is ended here.
async fn stop(
    app: &App,
    caller: &Caller,
    body: StopBody,
    kind: StopKind,
) -> Result<Json<StopView>, ApiError> {
    let length = body.reason.as_ref().map_or(0, String::len);
    if length > MAX_ERROR_BYTES {
        return Err(ApiError::invalid(format!(
            "the reason has {length} bytes; shorten it to at most {MAX_ERROR_BYTES}"
        )));
    }
    let session = body.session_id;
    let found = caller.open(app, &session).await?;
    let mut stop = Stop::of(&session);
    if let Some(reason) = body.reason {
        stop = stop.because(reason);
    }
    let asked = match kind {
        StopKind::Abort => app.runtime.abort(stop).await?,
        _ => app.runtime.interrupt(stop).await?,
    };
    Ok(Json(StopView {
        accepted: asked.is_some(),
        run_id: asked.or_else(|| found.run.map(|run| run.id)),
    }))
}
