//! `POST /chat` and `POST /chat/{id}`: a new message, or answers to calls.

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use helix_agents_core::SessionId;
use helix_agents_core::store::Snapshot;
use helix_agents_wire::{ChatRequest, FrontendError, ResumePosition, Trigger};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::attaching::{position, replay};
use super::feed::Feed;
use super::snapshot::UiMessageBody;
use super::{answering, sending};
use crate::body::JsonBody;
use crate::builder::App;
use crate::caller::{Caller, SessionPath};
use crate::query::Pairs;
use crate::serve::Closing;
use crate::view::schemas::IdSchema;
use crate::{Access, ApiError};

/// The most messages that a request may repeat.
const MAX_MESSAGES: usize = 20_000;

/// The body of a chat request, as the AI SDK's transport writes it.
///
/// It is described here and parsed as `ChatRequest` of the wire crate.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes the body")]
pub(crate) struct ChatBody {
    /// The session; on `POST /chat/{id}` it may be left out.
    #[schema(value_type = Option<IdSchema>)]
    id: Option<SessionId>,
    #[schema(value_type = Vec<UiMessageBody>)]
    messages: Vec<Value>,
    #[schema(value_type = Option<TriggerBody>)]
    trigger: Option<Value>,
    message_id: Option<String>,
    /// The agent of a new session.
    agent_type: Option<String>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
}

/// Why a client sends a request.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TriggerBody {
    SubmitMessage,
    RegenerateMessage,
    ResumeStream,
}

/// A chat request, with whom and where it came from.
pub(super) struct Post<'a> {
    pub(super) app: &'a App,
    pub(super) caller: &'a Caller,
    pub(super) session: SessionId,
    pub(super) body: ChatRequest,
    /// The agent that the request names.
    pub(super) agent: Option<String>,
    pub(super) position: ResumePosition,
}

pub(crate) async fn post(
    State(app): State<App>,
    caller: Caller,
    query: Pairs,
    headers: HeaderMap,
    closing: Option<Extension<Closing>>,
    JsonBody(body): JsonBody<ChatRequest>,
) -> Result<Response, ApiError> {
    let missing = || ApiError::invalid("the chat has no id; send the id of the session as `id`");
    let session = SessionId::new(body.id.as_deref().ok_or_else(missing)?)?;
    answer(&app, &caller, session, body, (&query, &headers), closing).await
}

pub(crate) async fn post_to(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
    query: Pairs,
    headers: HeaderMap,
    closing: Option<Extension<Closing>>,
    JsonBody(body): JsonBody<ChatRequest>,
) -> Result<Response, ApiError> {
    if let Some(id) = body.id.as_deref().filter(|id| *id != session.as_str()) {
        return Err(ApiError::invalid(format!(
            "the path names session {session} and the body {id:?}; send one of them"
        )));
    }
    answer(&app, &caller, session, body, (&query, &headers), closing).await
}

async fn answer(
    app: &App,
    caller: &Caller,
    session: SessionId,
    body: ChatRequest,
    (query, headers): (&Pairs, &HeaderMap),
    closing: Option<Extension<Closing>>,
) -> Result<Response, ApiError> {
    let count = body.messages.len();
    if count > MAX_MESSAGES {
        return Err(ApiError::invalid(format!(
            "the chat has {count} messages; send the last {MAX_MESSAGES} at most"
        )));
    }
    let agent = body.agent_type.clone();
    let agent = agent.or_else(|| query.get("agentType").map(str::to_owned));
    let post = Post {
        app,
        caller,
        session,
        body,
        agent,
        position: position(headers)?,
    };
    let feed = post.feed().await?;
    Ok(feed.answer(app, post.session.as_str(), closing))
}

impl Post<'_> {
    async fn feed(&self) -> Result<Feed, ApiError> {
        if self.body.trigger != Trigger::ResumeStream {
            if !self.body.trailing_user_messages().is_empty() {
                return sending::send(self).await;
            }
            if let Some(message) = self.body.trailing_assistant_message() {
                return answering::answer(self, message).await;
            }
        }
        // There is nothing new: the client wants what there is.
        let found = self.open().await?;
        let feed = replay(self.app, &found, &self.position).await?;
        feed.ok_or_else(|| ApiError::invalid("the chat has no new message; add one at its end"))
    }

    /// The session, which must exist and be one to talk to.
    pub(super) async fn open(&self) -> Result<Snapshot, ApiError> {
        let found = self.caller.find(self.app, &self.session).await?;
        self.may(&found).await?;
        Ok(found)
    }

    pub(super) async fn may(&self, found: &Snapshot) -> Result<(), ApiError> {
        if !found.state.key().is_root() {
            let root = found.state.root();
            return Err(ApiError::invalid(format!(
                "session {} works for another one; talk to {root}",
                self.session
            )));
        }
        let access = Access::new(self.caller.operation).to(&self.session, &found.state.agent_type);
        self.caller.may(self.app, access).await
    }
}

impl From<FrontendError> for ApiError {
    fn from(error: FrontendError) -> Self {
        Self::invalid(error.to_string())
    }
}
