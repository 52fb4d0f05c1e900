//! How the process is, and what it offers.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use helix_agents_core::SessionId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::builder::App;
use crate::caller::Caller;
use crate::{ApiError, openapi as description};

/// All is well.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OkView {
    status: &'static str,
}

const OK: Json<OkView> = Json(OkView { status: "ok" });

pub(crate) async fn health(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<OkView>, ApiError> {
    caller.may_do(&app).await?;
    Ok(OK)
}

/// Asks the store for a session that need not exist: an answer is what counts.
pub(crate) async fn ready(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<OkView>, ApiError> {
    caller.may_do(&app).await?;
    let any = SessionId::new("helix.readyz")?;
    app.store().load(any.as_root()).await?;
    Ok(OK)
}

pub(crate) async fn metrics(
    State(app): State<App>,
    caller: Caller,
) -> Result<impl IntoResponse, ApiError> {
    caller.may_do(&app).await?;
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], app.metrics.text()))
}

pub(crate) async fn openapi(
    State(app): State<App>,
    caller: Caller,
) -> Result<impl IntoResponse, ApiError> {
    caller.may_do(&app).await?;
    Ok(Json(description::document()))
}
