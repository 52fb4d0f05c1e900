//! `GET /chat/{id}/snapshot`: what a page needs when it is loaded.

use axum::Json;
use axum::extract::State;
use helix_agents_core::CheckpointId;
use helix_agents_core::store::{Lookup, Snapshot as Found};
use helix_agents_wire::Snapshot;
use serde_json::Value;
use utoipa::ToSchema;

use super::attaching::end_of_stream;
use super::bubble::in_flight;
use super::history::{reader, shown};
use crate::ApiError;
use crate::builder::App;
use crate::caller::{Caller, SessionPath};
use crate::query::Pairs;
use crate::view::{PendingView, all_pending};

/// The approximate size of the messages in a snapshot. Older ones are on the pages of `/chat/{id}/messages`.
const MESSAGE_BYTES: usize = 2 * 1024 * 1024;

/// A snapshot of a session.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes the answer")]
pub(crate) struct SnapshotBody {
    session_id: String,
    agent_type: String,
    #[schema(nullable = false)]
    run_id: Option<String>,
    state: Value,
    messages: Vec<UiMessageBody>,
    has_more: bool,
    stream_sequence: u64,
    status: StatusBody,
    #[schema(required = true)]
    checkpoint_id: Option<String>,
    timestamp: u64,
    #[schema(nullable = false)]
    error: Option<ErrorBody>,
    pending: Vec<PendingView>,
}

/// Whether there is a stream to read.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "it describes the answer")]
pub(crate) enum StatusBody {
    Active,
    Paused,
    Ended,
    Failed,
}

/// Why the last turn failed.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes the answer")]
pub(crate) struct ErrorBody {
    error: String,
    code: String,
}

/// A message of the AI SDK.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes the answer")]
pub(crate) struct UiMessageBody {
    id: String,
    /// `user` or `assistant`.
    role: String,
    #[schema(value_type = Vec<Object>)]
    parts: Vec<Value>,
    #[schema(value_type = Option<Object>, nullable = false)]
    metadata: Option<Value>,
}

/// A page of turns.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes the answer")]
pub(crate) struct UiMessagesBody {
    messages: Vec<UiMessageBody>,
    /// The number of turns.
    total: u64,
    has_more: bool,
}

pub(crate) async fn snapshot(
    State(app): State<App>,
    caller: Caller,
    SessionPath(session): SessionPath,
    query: Pairs,
) -> Result<Json<Snapshot>, ApiError> {
    let mut found = caller.open(&app, &session).await?;
    if let Some(checkpoint) = query.id("checkpointId")? {
        return at_checkpoint(&app, &found, checkpoint).await.map(Json);
    }
    // Who asks again and again whether something was answered needs no messages.
    let with_messages = query.get("messages") != Some("false");
    loop {
        let (messages, has_more) = match with_messages {
            true => {
                let (key, count) = (found.state.key(), shown(&found));
                reader(&app, &found)
                    .await?
                    .latest(key, count, MESSAGE_BYTES)
                    .await?
            }
            false => (Vec::new(), false),
        };
        let end = end_of_stream(&app, found.state.root()).await?;
        let pending = all_pending(app.store(), found.state.root()).await?;
        // Everything is of one moment, or a message would be shown twice or not at all.
        let now = caller.find(&app, &session).await?;
        if !is_same(&found, &now) {
            found = now;
            continue;
        }
        let is_root = found.state.key().is_root();
        let theirs = pending
            .into_iter()
            .filter(|call| call.answer.is_none() && (is_root || call.session_id == session));
        let sequence = in_flight(&found).map_or(end, |bubble| bubble.after);
        let snapshot = Snapshot::of(&found, app.runtime.clock().now())
            .messages(messages, has_more)
            .stream_sequence(sequence)
            .pending(theirs);
        return Ok(Json(snapshot));
    }
}

/// The session as it was at a checkpoint: its messages and its state.
async fn at_checkpoint(app: &App, found: &Found, id: CheckpointId) -> Result<Snapshot, ApiError> {
    let key = found.state.key();
    let which = Lookup::One(id.clone());
    let checkpoint = app
        .store()
        .checkpoints(key, which)
        .await?
        .items
        .into_iter()
        .next();
    let not_found = || ApiError::not_found(format!("session {key} has no checkpoint {id}"));
    let checkpoint = checkpoint.ok_or_else(not_found)?;
    let count = checkpoint.message_count.min(found.message_count);
    let (messages, has_more) = reader(app, found)
        .await?
        .latest(key, count, MESSAGE_BYTES)
        .await?;
    let mut snapshot = Snapshot::of(found, app.runtime.clock().now())
        .messages(messages, has_more)
        .stream_sequence(end_of_stream(app, found.state.root()).await?);
    snapshot.state = app.store().state_at(key, checkpoint.state_version).await?;
    snapshot.checkpoint_id = Some(id);
    snapshot.timestamp = checkpoint.timestamp;
    Ok(snapshot)
}

/// Whether nothing that a snapshot shows has changed in between.
fn is_same(one: &Found, other: &Found) -> bool {
    let run = |found: &Found| found.run.as_ref().map(|run| (run.id.clone(), run.status));
    one.message_count == other.message_count
        && one.cuts == other.cuts
        && one.state_version == other.state_version
        && one.inbox.len() == other.inbox.len()
        && run(one) == run(other)
}
