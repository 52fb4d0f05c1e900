//! Asks a run to stop: what `interrupt` and `abort` share.

use helix_agents_core::SessionId;
use helix_agents_core::session::{RunStatus, StopKind, StopRequest};
use helix_agents_core::store::{Change, Commit, Precondition, StoreError};
use helix_agents_core::time::Clock;
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
    loop {
        let found = load(store, &session).await?;
        let Some(run) = found.run.filter(|run| run.status == RunStatus::Running) else {
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
        let now = SystemClock::new().now();
        let mut request = StopRequest::new(run.id.clone(), kind, now);
        request.reason.clone_from(&reason);
        let running = Precondition::Run(run.id.clone(), vec![RunStatus::Running]);
        let commit = Commit::new(found.state.root().clone(), now)
            .when_in(session.clone(), running)
            .then_in(session.clone(), Change::Stop(request));
        match store.commit(commit).await {
            Ok(_) => {}
            // It ended, or another began, just now: look again.
            Err(StoreError::Refused { .. }) => continue,
            Err(error) => return Err(error.into()),
        }
        if json {
            screen.json(&json!({ "accepted": true, "runId": run.id }))?;
        } else {
            screen.say(format!("accepted: run {} is asked to stop", run.id))?;
        }
        return Ok(Exit::Done);
    }
}
