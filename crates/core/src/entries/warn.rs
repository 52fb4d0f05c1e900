//! The entry that warns readers of a deadline that is near.

use serde_json::json;

use super::start::base;
use super::{Entries, EntryError, MAX_ATTEMPTS};
use crate::session::PendingCall;
use crate::store::{Change, Commit, PendingStatus, Precondition, SessionKey, Snapshot};
use crate::stream::{Chunk, ChunkPayload};
use crate::time::Timestamp;

/// The name of the custom event that warns of a deadline.
const EVENT: &str = "expiring_soon";

/// Returns the calls that readers are to be warned of at this instant.
fn to_warn_of(found: &Snapshot, at: Timestamp) -> Vec<&PendingCall> {
    let pending = found.state.pending_client_tool_calls.values();
    let is_near =
        |call: &&PendingCall| call.waits_at(at) && call.warn_at.is_some_and(|it| it <= at);
    pending.filter(is_near).collect()
}

/// Plans to warn of calls, each once: the commit is refused if the session has changed.
fn plan_warn(found: &Snapshot, calls: &[&PendingCall], at: Timestamp) -> Commit {
    let session = &found.state.session_id;
    let as_read = Precondition::Version(found.state.version);
    let step = found.open_step.as_ref().map_or(0, |step| step.step);
    let commit = Commit::new(found.state.root().clone(), at).when_in(session.clone(), as_read);
    calls.iter().fold(commit, |commit, call| {
        let is_open = Precondition::Call(call.tool_call_id.clone(), PendingStatus::Open);
        let warned = PendingCall {
            warn_at: None,
            ..PendingCall::clone(call)
        };
        let payload = ChunkPayload::Custom {
            event_name: EVENT.to_owned(),
            data: json!({
                "toolCallId": call.tool_call_id,
                "toolName": call.tool_name,
                "deadline": call.deadline,
            }),
        };
        let base = base(&found.state, &call.run_id, step);
        commit
            .when_in(session.clone(), is_open)
            .then_in(session.clone(), Change::Pending(Box::new(warned)))
            .say(Chunk::new(base, at, payload))
    })
}

pub(super) async fn warn(entries: &Entries, session: SessionKey<'_>) -> Result<usize, EntryError> {
    for _ in 0..MAX_ATTEMPTS {
        let Some(found) = entries.store.load(session).await? else {
            return Ok(0);
        };
        let now = entries.clock.now();
        let calls = to_warn_of(&found, now);
        if calls.is_empty() {
            return Ok(0);
        }
        match entries.store.commit(plan_warn(&found, &calls, now)).await {
            Ok(_) => {
                for call in &calls {
                    let (session, call) = (session.session, &call.tool_call_id);
                    tracing::info!(event = "client_tool.expiring_soon", %session, %call);
                }
                return Ok(calls.len());
            }
            Err(error) if error.is_conflict() => {
                tracing::debug!(event = "client_tool.warning_retry", session = %session.session, %error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    // The session changes all the time; the next look finds it again.
    Ok(0)
}
