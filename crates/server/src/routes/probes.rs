//! Probes, metrics and the OpenAPI document.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use helix_agents_core::SessionId;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use utoipa::ToSchema;

use crate::builder::App;
use crate::caller::Caller;
use crate::metrics::write_backlog;
use crate::{ApiError, openapi as description};

/// The response of a successful probe.
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

/// Reports whether the store can be read and written, as of at most a second ago.
pub(crate) async fn ready(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<OkView>, ApiError> {
    caller.may_do(&app).await?;
    app.readiness.check(&app).await?;
    Ok(OK)
}

/// The minimum interval between two checks, because any client may ask and a check writes.
const EVERY: Duration = Duration::from_secs(1);
/// The maximum time that the store may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The result of the last check, and its time. Requests during a check wait for its result.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), ApiError>)>>);

impl Readiness {
    async fn check(&self, app: &App) -> Result<(), ApiError> {
        let mut last = self.0.lock().await;
        if let Some((at, known)) = &*last
            && at.elapsed() < EVERY
        {
            return known.clone();
        }
        let late = |_| {
            Err(ApiError::overloaded(
                "the store does not respond; check its disk",
            ))
        };
        let checked = timeout(PATIENCE, check(app)).await.unwrap_or_else(late);
        *last = Some((Instant::now(), checked.clone()));
        checked
    }
}

/// Reads a session that need not exist and, if the backend supports it, checks that the store can
/// be written. Any failure means that the server is not ready.
async fn check(app: &App) -> Result<(), ApiError> {
    let any = SessionId::new("helix.readyz")?;
    app.store().load(any.as_root()).await?;
    if let Some(writable) = &app.runtime.backend().writable {
        writable.check_writable().await.map_err(|error| {
            tracing::warn!(event = "server.not_ready", %error);
            ApiError::overloaded(format!("the store cannot be written: {error}"))
        })?;
    }
    Ok(())
}

pub(crate) async fn metrics(
    State(app): State<App>,
    caller: Caller,
) -> Result<impl IntoResponse, ApiError> {
    caller.may_do(&app).await?;
    let now = app.runtime.clock().now();
    let backlog = app.store().backlog(now).await;
    if let Err(error) = &backlog {
        tracing::warn!(event = "metrics.no_backlog", %error);
    }
    let mut out = String::new();
    app.metrics.write(&mut out);
    if let Some(runs) = &app.run_metrics {
        runs.write(&mut out);
    }
    write_backlog(&mut out, backlog.as_ref().ok(), now);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], out))
}

pub(crate) async fn openapi(
    State(app): State<App>,
    caller: Caller,
) -> Result<impl IntoResponse, ApiError> {
    caller.may_do(&app).await?;
    Ok(Json(description::document()))
}
