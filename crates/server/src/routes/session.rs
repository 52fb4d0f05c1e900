//! One session and its parts.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use helix_agents_core::budget::BudgetReport;
use helix_agents_core::store::{Lookup, Page, PageRoom, Snapshot};
use helix_agents_core::usage::UsageRollup;
use serde::Serialize;
use utoipa::ToSchema;

use crate::ApiError;
use crate::builder::App;
use crate::caller::{Caller, SessionPath};
use crate::query::{ANSWER_BYTES, Pairs};
use crate::view::{CheckpointView, ListView, MessageView, RunView, SessionDetail, UsageView};

/// The default and the maximum number of items per page.
const USUAL: usize = 200;
const MOST: usize = 1000;
/// The number of usage entries that are read at once.
const BATCH: usize = 500;

/// A page of a session's messages.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessagesView {
    messages: Vec<MessageView>,
    total: usize,
    has_more: bool,
}

/// The workspaces of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkspacesView {
    #[schema(value_type = Vec<Object>)]
    workspaces: [(); 0],
}

pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
) -> Result<Json<SessionDetail>, ApiError> {
    Ok(Json(caller.open(&app, &session).await?.into()))
}

pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
) -> Result<StatusCode, ApiError> {
    caller.open(&app, &session).await?;
    // Another process may have deleted it meanwhile, with the same result.
    app.sessions().delete_session(&session).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn runs(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
    query: Pairs,
) -> Result<Json<ListView<RunView>>, ApiError> {
    let page = Lookup::Page(query.page(USUAL, MOST)?.within(ANSWER_BYTES));
    let found = caller.open(&app, &session).await?;
    let runs = app.store().runs(found.state.key(), page).await?;
    Ok(Json(ListView::of(runs, RunView::from)))
}

pub(crate) async fn checkpoints(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
    query: Pairs,
) -> Result<Json<ListView<CheckpointView>>, ApiError> {
    let page = query.page(USUAL, MOST)?.within(ANSWER_BYTES);
    let found = caller.open(&app, &session).await?;
    let page = Lookup::Page(page);
    let found = app.store().checkpoints(found.state.key(), page).await?;
    Ok(Json(ListView::of(found, CheckpointView::from)))
}

/// Returns messages, and after the last of them the open step.
pub(crate) async fn messages(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
    query: Pairs,
) -> Result<Json<MessagesView>, ApiError> {
    let page = query.page(USUAL, MOST)?.within(ANSWER_BYTES);
    let mut found = caller.open(&app, &session).await?;
    loop {
        let stored = app.store().messages(found.state.key(), page).await?;
        let now = app.store().load(found.state.key()).await?;
        // The open step moves into the history when it is settled: both are read at one moment, or
        // a message would be shown twice or not at all.
        let count = now.as_ref().map_or(0, |now| now.message_count);
        if stored.total != found.message_count || count != found.message_count {
            match now {
                Some(now) => found = now,
                None => found = caller.find(&app, &session).await?,
            }
            continue;
        }
        let open = found.open_step.as_ref().map(MessageView::of_open_step);
        let open = open.unwrap_or_default();
        let total = stored.total + open.len();
        let left_out = page.offset.saturating_sub(stored.total);
        // A page that reached its byte limit has no room, even if its item limit would allow more.
        let room = match stored.has_more {
            true => 0,
            false => page.limit.saturating_sub(stored.items.len()),
        };
        let mut bytes = PageRoom::of(page);
        let open = open.into_iter().skip(left_out).take(room);
        let messages = stored.items.into_iter().map(MessageView::from);
        let messages: Vec<_> = messages
            .chain(open.take_while(|message| bytes.takes(message)))
            .collect();
        return Ok(Json(MessagesView {
            has_more: page.offset.saturating_add(messages.len()) < total,
            messages,
            total,
        }));
    }
}

pub(crate) async fn usage(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
    query: Pairs,
) -> Result<Json<UsageView>, ApiError> {
    let page = query.page(USUAL, MOST)?.within(ANSWER_BYTES);
    let found = caller.open(&app, &session).await?;
    let budget = budget(&app, &found).await?;
    let session = found.state;
    let mut sum = UsageRollup::default();
    let mut batch = Page::first(BATCH).within(ANSWER_BYTES);
    loop {
        let found = app.store().usage(session.key(), batch).await?;
        found.items.iter().for_each(|entry| sum.add(entry));
        batch.offset += found.items.len();
        if !found.has_more {
            break;
        }
    }
    let entries = match query.get("entries") {
        Some("true") => Some(app.store().usage(session.key(), page).await?),
        _ => None,
    };
    Ok(Json(UsageView::new(&sum, budget, entries)))
}

/// Reports the budgets of a session. The counters are those of its root.
async fn budget(app: &App, found: &Snapshot) -> Result<Option<BudgetReport>, ApiError> {
    let (root, session) = (found.state.root(), &found.state.session_id);
    let ledger = if found.state.key().is_root() {
        found.budget.clone()
    } else {
        let root = app.store().load(root.as_root()).await?;
        root.and_then(|root| root.budget)
    };
    Ok(ledger.and_then(|ledger| ledger.report(root, session)))
}

/// Returns an empty list: sessions have no workspaces yet.
pub(crate) async fn workspaces(
    State(app): State<App>,
    caller: Caller,
    query: Pairs,
) -> Result<Json<WorkspacesView>, ApiError> {
    caller.open(&app, &query.session()?).await?;
    Ok(Json(WorkspacesView { workspaces: [] }))
}
