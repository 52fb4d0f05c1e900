//! The chat routes: what a stock client of the Vercel AI SDK talks to.
//!
//! A client sends all that it has of a chat, and nothing of it is trusted but the new user messages at its end, or the
//! answers in its last assistant message to calls that wait for one. Every other request for the same turn attaches to
//! it or replays it, so that a request that is sent twice runs nothing twice.

mod answering;
mod attaching;
mod bubble;
mod calls;
mod feed;
mod history;
mod known;
mod posting;
mod sending;
mod snapshot;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use helix_agents_core::SessionId;
use helix_agents_core::session::StopKind;
use serde_json::{Map, Value};

use crate::ApiError;
use crate::body::JsonBody;
use crate::builder::App;
use crate::caller::{Caller, SessionPath};

use super::stop::{self, StopView};
use super::submit::{self, SubmittedView};

pub(crate) use attaching::{attach, attach_nested};
pub(crate) use history::messages;
pub(crate) use posting::{ChatBody, post, post_to};
pub(crate) use snapshot::{SnapshotBody, UiMessagesBody, snapshot};

/// The session in the path of the client's own reconnect address, which names it twice.
#[derive(Debug)]
pub(crate) struct NestedPath(SessionId);

impl FromRequestParts<App> for NestedPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let path = Path::<(String, String)>::from_request_parts(parts, app).await;
        let Path((first, second)) = path.map_err(|error| ApiError::invalid(error.to_string()))?;
        if first != second {
            return Err(ApiError::invalid(
                "the path names two sessions; write /chat/{id}/stream",
            ));
        }
        Ok(Self(SessionId::new(first)?))
    }
}

pub(crate) async fn submit(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
    JsonBody(mut body): JsonBody<Map<String, Value>>,
) -> Result<Json<SubmittedView>, ApiError> {
    body.insert("sessionId".to_owned(), Value::from(session.as_str()));
    submit::submit(State(app), caller, JsonBody(body)).await
}

pub(crate) async fn interrupt(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
    JsonBody(body): JsonBody<Map<String, Value>>,
) -> Result<Json<StopView>, ApiError> {
    stop::stop_chat(&app, &caller, session, body, StopKind::Interrupt).await
}

pub(crate) async fn abort(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
    JsonBody(body): JsonBody<Map<String, Value>>,
) -> Result<Json<StopView>, ApiError> {
    stop::stop_chat(&app, &caller, session, body, StopKind::Abort).await
}

/// An answer to a pending call of the session in the path: its kind, the id of the call, and a result, an error or a
/// decision, as for `/submit-tool-result`.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes the body")]
pub(crate) struct ChatSubmitBody {
    /// `client-tool-result` or `approval-response`.
    kind: String,
    tool_call_id: String,
    /// Any JSON, including `null`. At most 1 MB.
    #[schema(value_type = Value, required = false)]
    result: Option<Value>,
    error: Option<String>,
    approval_id: Option<String>,
    approved: Option<bool>,
    reason: Option<String>,
    digest: Option<String>,
    run_id: Option<String>,
}

/// The reason to stop the run of the session in the path.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "it describes the body")]
pub(crate) struct ChatStopBody {
    reason: Option<String>,
}
