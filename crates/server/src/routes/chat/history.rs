//! `GET /chat/{id}/messages`: the history in pages of whole turns.

use axum::Json;
use axum::extract::State;
use helix_agents_core::message::Message;
use helix_agents_core::store::{Page, Snapshot};
use helix_agents_core::tool::ExecutedBy;
use helix_agents_wire::{
    ConvertOptions, DataChunk, FinishReason, ToolKinds, UiChunk, UiMessageStore, UiMessages,
    UiRole, begins_turn, convert_messages, replay_message,
};
use serde_json::json;

use super::bubble::{Bubble, in_flight};
use crate::ApiError;
use crate::builder::App;
use crate::caller::{Caller, SessionPath};
use crate::query::Pairs;
use crate::view::{PendingView, all_pending};

/// What the names of the tools begin with that an agent has for its companions.
const COMPANION_TOOLS: &str = "companion__";
/// The default and the maximum number of turns per page.
const USUAL: usize = 50;
const MOST: usize = 200;

pub(crate) async fn messages(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
    query: Pairs,
) -> Result<Json<UiMessages>, ApiError> {
    let page = query.page(USUAL, MOST)?;
    let found = caller.open(&app, &session).await?;
    let reader = reader(&app, &found).await?;
    let pages = reader.page(found.state.key(), shown(&found), (page.offset, page.limit));
    Ok(Json(pages.await?))
}

/// Reads the messages of a session as UI messages.
pub(super) async fn reader<'a>(
    app: &'a App,
    found: &Snapshot,
) -> Result<UiMessageStore<'a>, ApiError> {
    let options = options(app, found).await?;
    Ok(UiMessageStore::new(app.store(), options))
}

/// How the messages of a session are shown: with who runs its tools, and with the sub-agents that worked for its calls.
pub(super) async fn options(app: &App, found: &Snapshot) -> Result<ConvertOptions, ApiError> {
    let agents = app.runtime.agents();
    let name = found.state.agent_type.as_str();
    let options = ConvertOptions::new(name).tools(ToolKinds::of_agents(agents));
    let has_children = agents.get(name).is_some_and(|agent| {
        let tools = agent.tools().iter();
        let names = tools.map(|tool| (tool.spec().executed_by, tool.name()));
        names
            .into_iter()
            .any(|(by, name)| by == ExecutedBy::SubAgent || name.starts_with(COMPANION_TOOLS))
    });
    if !has_children {
        return Ok(options);
    }
    let extras = app.store().extras(found.state.key()).await?;
    Ok(options.sub_agents(&extras.children))
}

/// The number of messages that a page is shown: those of the bubble in flight come with its stream. A sub-agent has no
/// stream of its own.
pub(super) fn shown(found: &Snapshot) -> usize {
    let bubble = in_flight(found);
    bubble.map_or(found.message_count, |bubble| {
        bubble.begins_at.min(found.message_count)
    })
}

/// Makes the chunks of a bubble from the messages, where its own are no longer kept.
pub(super) async fn bubble(
    app: &App,
    found: &Snapshot,
    bubble: &Bubble,
) -> Result<Option<Vec<UiChunk>>, ApiError> {
    let mut stored = Vec::new();
    loop {
        let at = bubble.begins_at + stored.len();
        let page = Page::new(at, found.message_count.saturating_sub(at));
        let read = app.store().messages(found.state.key(), page).await?.items;
        if read.is_empty() {
            break;
        }
        stored.extend(read);
    }
    let options = options(app, found).await?.first(bubble.begins_at);
    let messages = convert_messages(stored, &options);
    let message = messages
        .into_iter()
        .find(|one| one.role == UiRole::Assistant);
    Ok(message.map(|message| replay_message(&message)))
}

/// Makes the chunks of the turn that waits for answers from its messages and its open step, where the session was
/// imported in that state and has no stream of it.
pub(super) async fn paused(app: &App, found: &Snapshot) -> Result<Option<Vec<UiChunk>>, ApiError> {
    let key = found.state.key();
    let begins = |one: &Message| matches!(one, Message::User(user) if begins_turn(user));
    let mut begins_at = found.message_count;
    let mut stored = Vec::new();
    while begins_at > 0 {
        let page = Page::new(begins_at - 1, 1);
        let read = app.store().messages(key, page).await?.items;
        let Some(message) = read.into_iter().next().filter(|one| !begins(one)) else {
            break;
        };
        stored.push(message);
        begins_at -= 1;
    }
    stored.reverse();
    if let Some(step) = &found.open_step {
        stored.push(Message::Assistant(step.message.clone()));
        let results = step.calls.iter().filter_map(|call| call.result.clone());
        stored.extend(results.map(Message::Tool));
    }
    let options = options(app, found).await?.first(begins_at);
    let mut messages = convert_messages(stored, &options).into_iter();
    let Some(message) = messages.find(|one| one.role == UiRole::Assistant) else {
        return Ok(None);
    };
    let pending = all_pending(app.store(), found.state.root()).await?;
    let mut chunks = Vec::new();
    for mut chunk in replay_message(&message) {
        let mut asks = None;
        if let UiChunk::ToolInputAvailable {
            tool_call_id,
            provider_executed,
            ..
        } = &mut chunk
            && let Some(call) = pending.iter().find(|call| {
                call.session_id == found.state.session_id
                    && call.tool_call_id.as_str() == tool_call_id
            })
        {
            *provider_executed = None;
            let open = call.approval_id.as_ref().filter(|_| call.answer.is_none());
            asks = open.map(|approval| UiChunk::ToolApprovalRequest {
                approval_id: approval.to_string(),
                tool_call_id: tool_call_id.clone(),
            });
        }
        if let UiChunk::Finish { finish_reason } = &mut chunk {
            *finish_reason = Some(FinishReason::ToolCalls);
            let calls: Vec<_> = pending.iter().cloned().map(PendingView::from).collect();
            chunks.push(DataChunk::transient("pending", json!(calls)).into());
        }
        chunks.push(chunk);
        chunks.extend(asks);
    }
    Ok(Some(chunks))
}
