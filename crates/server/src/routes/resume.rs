//! `POST /resume`: resumes a session.

use axum::Json;
use axum::extract::State;
use helix_agents_core::SessionId;
use helix_agents_core::entries::{EntryError, ExpectedSession};
use helix_agents_core::runtime::{RunOptions, RuntimeExt, StartedRun, Turn};
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::Snapshot;
use serde::Deserialize;
use utoipa::ToSchema;

use super::MessagesBody;
use crate::ApiError;
use crate::body::JsonBody;
use crate::builder::App;
use crate::caller::Caller;
use crate::view::StartedView;
use crate::view::schemas::IdSchema;

/// The body of a resume.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResumeBody {
    #[schema(value_type = IdSchema)]
    session_id: SessionId,
    #[serde(default)]
    mode: Option<ResumeMode>,
    #[serde(default)]
    message: Option<MessagesBody>,
    #[serde(default)]
    abandon_pending: Option<bool>,
}

/// How a session is resumed.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResumeMode {
    Continue,
    Retry,
    WithMessage,
    FromCheckpoint,
}

pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody<ResumeBody>,
) -> Result<Json<StartedView>, ApiError> {
    let found = caller.open(&app, &body.session_id).await?;
    let mode = body.mode.unwrap_or(ResumeMode::Continue);
    let user = caller.principal.user.as_ref();
    let admitted = app.quota.admit(app.store(), user).await?;
    let started = match mode {
        ResumeMode::Continue => {
            let options = RunOptions::default();
            app.runtime.resume_session(found.into(), options).await?
        }
        ResumeMode::WithMessage => with_message(&app, found, body).await?,
        ResumeMode::Retry => return Err(unsupported_mode(&found, "retry")),
        ResumeMode::FromCheckpoint => return Err(unsupported_mode(&found, "from_checkpoint")),
    };
    admitted.started(&started);
    Ok(Json(StartedView::of(&started)))
}

/// Starts a new turn in a session whose last turn has ended.
async fn with_message(
    app: &App,
    found: Snapshot,
    body: ResumeBody,
) -> Result<StartedRun, ApiError> {
    let missing = || ApiError::invalid("mode \"with_message\" has no message; give one");
    let messages = body.message.ok_or_else(missing)?.read()?;
    let is_suspended = found
        .run
        .as_ref()
        .is_some_and(|run| run.status.is_suspended());
    if is_suspended && body.abandon_pending == Some(true) {
        return Err(ApiError::invalid(
            "abandoning pending calls is not supported yet; answer them with an error and resume",
        ));
    }
    let agent = found.state.agent_type.clone();
    let turn = Turn::default()
        .messages(messages)
        .session(&body.session_id)
        .expecting(ExpectedSession::Existing)
        .as_read(Some(found));
    let run = app.runtime.execute_by_name(agent, turn).await?;
    Ok(run.started().clone())
}

/// Returns the error of an unsupported mode, or that a run is running.
fn unsupported_mode(found: &Snapshot, mode: &str) -> ApiError {
    match &found.run {
        Some(run) if run.status == RunStatus::Running => EntryError::AlreadyRunning {
            session: found.state.session_id.clone(),
            run: run.id.clone(),
        }
        .into(),
        _ => ApiError::invalid(format!(
            "mode {mode:?} is not supported yet; use \"continue\" or \"with_message\""
        )),
    }
}
