//! `GET /chat/{id}/stream` and its other addresses: the bubble in flight, or the last one.

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use helix_agents_core::runtime::StartedRun;
use helix_agents_core::session::{PendingCall, RunRecord, RunStatus};
use helix_agents_core::store::Snapshot;
use helix_agents_core::stream::Sequence;
use helix_agents_core::{ApprovalId, SessionId};
use helix_agents_wire::{ResumePosition, bubble_id, extract_resume_position};

use super::NestedPath;
use super::bubble::Bubble;
use super::feed::{BubbleFeed, Feed, Start};
use crate::builder::App;
use crate::caller::{Caller, SessionPath};
use crate::serve::Closing;
use crate::view::{all_pending, answered_calls};
use crate::{Access, ApiCode, ApiError};

pub(crate) async fn attach(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
    headers: HeaderMap,
    closing: Option<Extension<Closing>>,
) -> Result<Response, ApiError> {
    attach_to(&app, &caller, &session, &headers, closing).await
}

pub(crate) async fn attach_nested(
    State(app): State<App>,
    caller: Caller,
    NestedPath(session): NestedPath,
    headers: HeaderMap,
    closing: Option<Extension<Closing>>,
) -> Result<Response, ApiError> {
    attach_to(&app, &caller, &session, &headers, closing).await
}

/// A client that has nothing to resume is told so with 204: an error would put its page into the error state.
async fn attach_to(
    app: &App,
    caller: &Caller,
    session: &SessionId,
    headers: &HeaderMap,
    closing: Option<Extension<Closing>>,
) -> Result<Response, ApiError> {
    let position = position(headers)?;
    let found = match caller.find_if_any(app, session).await {
        Ok(found) => found,
        Err(error) if error.code == ApiCode::NotFound => None,
        Err(error) => return Err(error),
    };
    let Some(found) = found.filter(|found| found.state.key().is_root()) else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let access = Access::new(caller.operation).to(session, &found.state.agent_type);
    caller.may(app, access).await?;
    match replay(app, &found, &position).await? {
        Some(feed) => Ok(feed.answer(app, session.as_str(), closing)),
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// Reads the position of a client from its headers.
pub(super) fn position(headers: &HeaderMap) -> Result<ResumePosition, ApiError> {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    extract_resume_position(header).map_err(|error| ApiError::invalid(error.to_string()))
}

/// Returns the bubble in flight, or the last one: all of it, or what follows the client's position in it.
pub(super) async fn replay(
    app: &App,
    found: &Snapshot,
    position: &ResumePosition,
) -> Result<Option<Feed>, ApiError> {
    let run = found.run.as_ref();
    let is_running = run.is_some_and(|run| run.status == RunStatus::Running);
    if let Some(waiting) = waiting(found).filter(|_| !is_running) {
        return Ok(Some(Feed::Bubble(BubbleFeed::whole(waiting))));
    }
    match run {
        Some(run) => bubble(app, (found, run), position).await,
        None => Ok(None),
    }
}

/// Returns the bubble of the session's latest run, as far as the client does not have it.
pub(super) async fn bubble(
    app: &App,
    (found, run): (&Snapshot, &RunRecord),
    position: &ResumePosition,
) -> Result<Option<Feed>, ApiError> {
    let is_running = run.status == RunStatus::Running;
    let bubble = Bubble::of(run);
    let info = app.streams().info(found.state.root()).await?;
    let last = info.map(|info| info.last).unwrap_or_default();
    if !is_running && run.turn_start.is_none() && last <= bubble.after {
        return match run.status.is_suspended() {
            true => Ok(super::history::paused(app, found).await?.map(Feed::Chunks)),
            false => Ok(None),
        };
    }
    if !is_running && info.is_some_and(|info| info.trimmed > bubble.after) {
        return Ok(super::history::bubble(app, found, &bubble)
            .await?
            .map(Feed::Chunks));
    }
    // Of what is condensed there is no rest: a reply is one piece there, which stands where its first delta stood.
    let condensed = info.map(|info| info.condensed).unwrap_or_default();
    let first = bubble.after.next().max(condensed);
    let seen = position
        .after
        .filter(|after| (first..=last).contains(after));
    let pending = all_pending(app.store(), found.state.root()).await?;
    // An answer that waits for others is in no chunk yet.
    let answered = answered_calls(app.store(), &found.state, &pending).await?;
    let is_answered = !answered.is_empty();
    if seen == Some(last) && !is_running && !is_answered {
        return Ok(None);
    }
    let mut feed = BubbleFeed::whole(StartedRun::new(found.state.key(), run.id.clone()));
    feed.past = Some((last, unanswered(pending)));
    feed.seen = seen;
    feed.start = match (seen, named(position, &bubble)) {
        (Some(_), _) => Start::Nothing,
        (None, Some(id)) => Start::Named(id),
        (None, None) => Start::OwnId,
    };
    Ok(Some(Feed::Bubble(feed)))
}

/// The id that a client gives the bubble, unless that is the id of another one.
fn named(position: &ResumePosition, bubble: &Bubble) -> Option<String> {
    let id = position.existing_message_id.as_ref()?;
    let number = id
        .strip_prefix("msg-")
        .and_then(|number| number.parse().ok());
    let is_of_another = number.is_some_and(|number| bubble_id(number) == *id && *id != bubble.id);
    (!is_of_another).then(|| id.clone())
}

/// The run that will take the messages that wait in a session.
pub(super) fn waiting(found: &Snapshot) -> Option<StartedRun> {
    let run = found.inbox.first()?.run_id.clone()?;
    Some(StartedRun::new(found.state.key(), run))
}

/// The requests for approval in the tree of a root that nobody has answered.
pub(super) async fn open_approvals(
    app: &App,
    root: &SessionId,
) -> Result<Vec<ApprovalId>, ApiError> {
    Ok(unanswered(all_pending(app.store(), root).await?))
}

fn unanswered(pending: Vec<PendingCall>) -> Vec<ApprovalId> {
    let open = pending.into_iter().filter(|call| call.answer.is_none());
    open.filter_map(|call| call.approval_id).collect()
}

/// The end of the stream of a session.
pub(super) async fn end_of_stream(app: &App, root: &SessionId) -> Result<Sequence, ApiError> {
    let info = app.streams().info(root).await?;
    Ok(info.map(|info| info.last).unwrap_or_default())
}
