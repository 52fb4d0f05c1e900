//! `POST /start`: starts a session.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use helix_agents_core::agent::AgentContext;
use helix_agents_core::entries::{EntryError, Execute, Expects};
use helix_agents_core::id::IdSourceExt;
use helix_agents_core::message::UserMessage;
use helix_agents_core::runtime::{RunOptions, RuntimeError, StartedRun};
use helix_agents_core::session::{RunRecord, RunStatus, RunTrigger, SessionStatus};
use helix_agents_core::store::{Lookup, Page, SessionKey, Snapshot, StoreError};
use helix_agents_core::{Message, SessionId};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::MessagesBody;
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
    let session = match body.session_id {
        Some(session) => session,
        None => app.runtime.ids().session_id()?,
    };
    if app.store().find(&session).await?.is_some() {
        caller.find(&app, &session).await?;
    }
    let access = Access::new(caller.operation).to(&session, &body.agent_type);
    caller.may(&app, access).await?;

    let mut context = AgentContext::new(session.clone());
    context.user_id.clone_from(&caller.principal.user);
    let agent = app.runtime.agents().resolve(&body.agent_type, &context)?;
    let mut request = Execute::new(&agent, "")
        .in_session(session.clone())
        .expecting(Expects::New)
        .with_messages(messages.clone())
        .with_tags(body.tags.unwrap_or_default())
        .with_metadata(body.metadata.unwrap_or_default());
    request.state = body.state;
    request.user_id.clone_from(&caller.principal.user);
    let user = caller.principal.user.as_ref();
    let admitted = app.quota.admit(app.store(), user).await?;
    let started = match app.runtime.start(request, RunOptions::default()).await {
        Err(RuntimeError::Entry(EntryError::Store(StoreError::AlreadyExists { .. }))) => {
            repeated_start(&app, &caller, &session, &body.agent_type, &messages).await?
        }
        started => started?,
    };
    admitted.started(&started);
    let root = started.session_id.clone();
    Ok(Json(StartedView::new(started, &root)))
}

/// Handles a start of an existing session: the same messages return the ids of the first start.
async fn repeated_start(
    app: &App,
    caller: &Caller,
    session: &SessionId,
    agent_type: &str,
    messages: &[UserMessage],
) -> Result<StartedRun, ApiError> {
    let found = caller.find(app, session).await?;
    if found.state.agent_type != agent_type {
        return Err(ApiError::from(EntryError::OtherAgent {
            session: session.clone(),
            has: found.state.agent_type,
            asked: agent_type.to_owned(),
        }));
    }
    let first = Lookup::Page(Page::first(1));
    let runs = app.store().runs(found.state.key(), first).await?;
    let first_run = runs.items.into_iter().next();
    match first_run {
        Some(run) if was_started_with(app, found.state.key(), &run, messages).await? => {
            Ok(StartedRun::new(found.state.key(), run.id))
        }
        _ => Err(refusal(&found)),
    }
}

/// Whether the first run of a session was started with these messages.
async fn was_started_with(
    app: &App,
    session: SessionKey<'_>,
    run: &RunRecord,
    messages: &[UserMessage],
) -> Result<bool, ApiError> {
    let is_start = run.trigger == RunTrigger::Execute
        && usize::try_from(run.messages).is_ok_and(|count| count == messages.len());
    if !is_start {
        return Ok(false);
    }
    let page = Page::first(messages.len());
    let said = app.store().messages(session, page).await?.items;
    let mut pairs = said.iter().zip(messages);
    let is_same = pairs.all(|(said, given)| matches!(said, Message::User(said) if said == given));
    Ok(said.len() == messages.len() && is_same)
}

/// Returns the error for a start of an existing session with another message.
fn refusal(found: &Snapshot) -> ApiError {
    let session = found.state.session_id.clone();
    let Some(run) = &found.run else {
        return already_completed(&session);
    };
    if run.status == RunStatus::Running {
        let run = run.id.clone();
        return EntryError::AlreadyRunning { session, run }.into();
    }
    if run.status.is_suspended() {
        let pending = found.state.pending_client_tool_calls.values();
        let open = pending.filter(|call| call.answer.is_none());
        let calls: Vec<_> = open.map(|call| call.tool_call_id.clone()).collect();
        if calls.is_empty() {
            let why = "its calls are answered; resume it first";
            return EntryError::Stale { session, why }.into();
        }
        return EntryError::AwaitingAnswers { session, calls }.into();
    }
    if found.state.status == SessionStatus::Paused {
        let why = "a budget is used up; raise it and resume";
        return EntryError::Stale { session, why }.into();
    }
    already_completed(&session)
}

fn already_completed(session: &SessionId) -> ApiError {
    ApiError::completed(format!(
        "session {session} was started with another message and its last turn has ended; continue it \
         with /resume and mode \"with_message\", or choose another id"
    ))
}
