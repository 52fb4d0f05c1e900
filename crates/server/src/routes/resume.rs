//! `POST /resume`: resumes a session.

use axum::Json;
use axum::extract::State;
use helix_agents_core::budget::Budgets;
use helix_agents_core::entries::{self, ExpectedSession, ResumeRequest};
use helix_agents_core::runtime::{RunOptions, RuntimeExt, StartedRun, Turn};
use helix_agents_core::store::Snapshot;
use helix_agents_core::{CheckpointId, SessionId};
use serde::Deserialize;
use utoipa::ToSchema;

use super::MessagesBody;
use super::budgets::BudgetsBody;
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
    #[schema(value_type = Option<IdSchema>)]
    checkpoint_id: Option<CheckpointId>,
    #[serde(default)]
    abandon_pending: Option<bool>,
    #[serde(default)]
    budget: Option<BudgetsBody>,
}

/// How a session is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResumeMode {
    Continue,
    Retry,
    WithMessage,
    FromCheckpoint,
}

impl ResumeMode {
    fn name(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Retry => "retry",
            Self::WithMessage => "with_message",
            Self::FromCheckpoint => "from_checkpoint",
        }
    }
}

pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody<ResumeBody>,
) -> Result<Json<StartedView>, ApiError> {
    let found = caller.open(&app, &body.session_id).await?;
    let budget = match body.budget.clone() {
        Some(budget) => {
            let agent = &found.state.agent_type;
            budget.allowed(&app, &caller, agent, &body.session_id)?
        }
        None => Budgets::new(),
    };
    let user = caller.principal.user.as_ref();
    let admitted = app.quota.admit(app.store(), user).await?;
    let started = match body.checked_mode()? {
        None => with_message(&app, found, body, budget).await?,
        Some(mode) => {
            let request = ResumeRequest::new(found, mode).budget(budget);
            let options = RunOptions::default();
            app.runtime.resume_session(request, options).await?
        }
    };
    admitted.started(&started);
    Ok(Json(StartedView::of(&started)))
}

impl ResumeBody {
    /// Returns the mode of a body whose fields fit it; `None` for one with a message.
    fn checked_mode(&self) -> Result<Option<entries::ResumeMode>, ApiError> {
        let mode = self.mode.unwrap_or(ResumeMode::Continue);
        let named = mode.name();
        let refuse = |what: &str| ApiError::invalid(format!("mode {named:?} {what}"));
        if mode == ResumeMode::WithMessage {
            if self.message.is_none() {
                return Err(refuse("has no message; give one"));
            }
        } else if self.message.is_some() {
            return Err(refuse(
                "takes no message; use \"with_message\", or leave the message out",
            ));
        } else if self.abandon_pending == Some(true) {
            return Err(refuse(
                "does not abandon pending calls; only \"with_message\" does",
            ));
        }
        if mode != ResumeMode::FromCheckpoint && self.checkpoint_id.is_some() {
            return Err(refuse(
                "takes no checkpointId; use \"from_checkpoint\", or leave it out",
            ));
        }
        Ok(match (mode, &self.checkpoint_id) {
            (ResumeMode::WithMessage, _) => None,
            (ResumeMode::Continue, _) => Some(entries::ResumeMode::Continue),
            (ResumeMode::Retry, _) => Some(entries::ResumeMode::Retry),
            (ResumeMode::FromCheckpoint, Some(id)) => {
                Some(entries::ResumeMode::FromCheckpoint(id.clone()))
            }
            (ResumeMode::FromCheckpoint, None) => {
                return Err(refuse("has no checkpointId; give one"));
            }
        })
    }
}

/// Sends a message. While a run is in progress, the server's rule for double texting decides.
async fn with_message(
    app: &App,
    found: Snapshot,
    body: ResumeBody,
    budget: Budgets,
) -> Result<StartedRun, ApiError> {
    let messages = body.message.map(MessagesBody::read).transpose()?;
    let agent = found.state.agent_type.clone();
    let mut turn = Turn::default()
        .messages(messages.unwrap_or_default())
        .session(&body.session_id)
        .expecting(ExpectedSession::Existing)
        .double_texting(app.double_texting)
        .budget(budget)
        .as_read(Some(found));
    if body.abandon_pending == Some(true) {
        turn = turn.abandon_pending();
    }
    let run = app.runtime.execute_by_name(agent, turn).await?;
    Ok(run.started().clone())
}
