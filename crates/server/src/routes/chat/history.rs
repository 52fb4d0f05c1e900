//! `GET /chat/{id}/messages`: the history in pages of whole turns.

use axum::Json;
use axum::extract::State;
use helix_agents_core::store::{Page, Snapshot};
use helix_agents_core::tool::ExecutedBy;
use helix_agents_wire::{
    ConvertOptions, ToolKinds, UiChunk, UiMessageStore, UiMessages, UiRole, convert_messages,
    replay_message,
};

use super::bubble::{Bubble, in_flight};
use crate::ApiError;
use crate::builder::App;
use crate::caller::{Caller, SessionPath};
use crate::query::Pairs;

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
