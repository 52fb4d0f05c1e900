//! `POST /start`: starts a session.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use helix_agents_core::SessionId;
use helix_agents_core::entries::ExpectedSession;
use helix_agents_core::id::IdSourceExt;
use helix_agents_core::runtime::{RuntimeExt, Turn};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::MessagesBody;
use super::budgets::BudgetsBody;
use crate::body::JsonBody;
use crate::builder::App;
use crate::caller::Caller;
use crate::view::StartedView;
use crate::view::schemas::IdSchema;
use crate::{Access, ApiError};

/// The body of a start.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartBody {
    #[serde(default)]
    #[schema(value_type = Option<IdSchema>)]
    session_id: Option<SessionId>,
    agent_type: String,
    message: MessagesBody,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    state: Option<Value>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    tags: Option<Vec<String>>,
    #[serde(default)]
    budget: Option<BudgetsBody>,
}

pub(crate) async fn start(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody<StartBody>,
) -> Result<Json<StartedView>, ApiError> {
    let messages = body.message.read()?;
    if body.state.as_ref().is_some_and(|state| !state.is_object()) {
        return Err(ApiError::invalid(
            "the state is not an object; send its keys",
        ));
    }
    if caller.principal.user.is_none() && !caller.principal.admin {
        let detail = "the session would have no owner; sign in as a user to start one";
        return Err(ApiError::forbidden(detail));
    }
    let user = caller.principal.user.as_ref();
    let found = match &body.session_id {
        Some(session) => caller.find_if_any(&app, session).await?,
        None => None,
    };
    let session = match body.session_id {
        Some(session) => session,
        None => app.runtime.ids().session_id()?,
    };
    let access = Access::new(caller.operation).to(&session, &body.agent_type);
    caller.may(&app, access).await?;
    let mut turn = Turn::default()
        .messages(messages)
        .session(&session)
        .expecting(ExpectedSession::New)
        .as_read(found);
    if let Some(user) = user {
        turn = turn.user(user);
    }
    if let Some(state) = body.state {
        turn = turn.state(state);
    }
    for tag in body.tags.into_iter().flatten() {
        turn = turn.tag(tag);
    }
    for (key, value) in body.metadata.into_iter().flatten() {
        turn = turn.metadata(key, value);
    }
    if let Some(budget) = body.budget {
        turn = turn.budget(budget.allowed(&app, &caller, &body.agent_type, &session)?);
    }
    let admitted = app.quota.admit(app.store(), user).await?;
    let run = app.runtime.execute_by_name(body.agent_type, turn).await?;
    admitted.started(run.started());
    Ok(Json(StartedView::of(run.started())))
}
