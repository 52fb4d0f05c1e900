//! Asks a run to stop: what `interrupt` and `abort` share.

use helix_agents_core::SessionId;
use helix_agents_core::session::StopKind;
use helix_agents_core::store::Sessions;
use helix_agents_runtime_local::SystemClock;
use serde_json::json;

use super::{id, load};
use crate::exit::Exit;
use crate::screen::{Look, Screen};
use crate::setup::Place;

/// Asks the run of a session to stop. The request is durable; whoever performs the run heeds it.
pub(super) async fn stop(
    place: &Place,
    session: &str,
    kind: StopKind,
    reason: Option<String>,
    json: bool,
) -> anyhow::Result<Exit> {
    let session: SessionId = id(session)?;
    let setup = place.open().await?;
    let store = setup.backend.store.as_ref();
    let screen = Screen::here();
    let clock = SystemClock::new();
    let sessions = Sessions::new(store, &clock);
    let Some(run) = sessions.request_stop(&session, kind, reason).await? else {
        let found = load(store, &session).await?;
        let waits = !found.state.pending_client_tool_calls.is_empty();
        if json {
            screen.json(&json!({ "accepted": false }))?;
        }
        let remedy = if waits {
            "it waits for answers; `helix submit SESSION CALL --error TEXT` ends a call"
        } else {
            "there is nothing to stop"
        };
        screen.note(
            Look::Yellow,
            format!("no run of session {session} goes on: {remedy}"),
        )?;
        return Ok(Exit::Failed);
    };
    if json {
        screen.json(&json!({ "accepted": true, "runId": run }))?;
    } else {
        screen.say(format!("accepted: run {run} is asked to stop"))?;
    }
    Ok(Exit::Done)
}
