//! Asks a run to stop; shared by `interrupt` and `abort`.

use helix_agents_core::SessionId;
use helix_agents_core::session::StopKind;
use helix_agents_core::store::{Sessions, Snapshot};
use serde_json::json;

use super::{id, is_orphaned, load};
use crate::exit::Exit;
use crate::screen::{Look, Screen};
use crate::setup::Place;

/// Asks the run of a session to stop. The request is durable; the process that performs the run
/// obeys it.
pub(super) async fn stop(
    place: &Place,
    session: &str,
    kind: StopKind,
    reason: Option<String>,
    json: bool,
) -> anyhow::Result<Exit> {
    let session: SessionId = id(session)?;
    let setup = place.open_existing().await?;
    let store = setup.backend.store.as_ref();
    let screen = Screen::of_process();
    let sessions = Sessions::new(store, setup.clock.as_ref());
    let resume = place.command(&format!("resume {session}"));
    let Some(run) = sessions.request_stop(&session, kind, reason).await? else {
        if json {
            screen.json(&json!({ "accepted": false }))?;
        }
        let why = match idle_state(&load(store, &session).await?) {
            IdleState::Pending => {
                let submit = place.command(&format!("submit {session} CALL --error TEXT"));
                format!("it has pending calls; `{submit}` ends one")
            }
            IdleState::Answered => format!("all its calls are answered; `{resume}` continues it"),
            IdleState::Done => "there is nothing to stop".to_owned(),
        };
        let text = format!("session {session} has no running run: {why}");
        screen.note(Look::Yellow, text)?;
        return Ok(Exit::Failed);
    };
    if json {
        screen.json(&json!({ "accepted": true, "runId": run }))?;
    } else {
        screen.print_line(format!("accepted: run {run} is asked to stop"))?;
    }
    if is_orphaned(store, &session, setup.clock.now()).await? {
        let text = format!("its process is gone; it stops when `{resume}` takes it over");
        screen.note(Look::Yellow, text)?;
    }
    Ok(Exit::Done)
}

/// The state of a session without a running run.
enum IdleState {
    /// A call is pending.
    Pending,
    /// All calls are answered, and the session was not resumed.
    Answered,
    /// No call is open.
    Done,
}

fn idle_state(found: &Snapshot) -> IdleState {
    let mut calls = found.state.pending_client_tool_calls.values().peekable();
    if calls.peek().is_none() {
        return IdleState::Done;
    }
    match calls.any(|call| call.answer.is_none()) {
        true => IdleState::Pending,
        false => IdleState::Answered,
    }
}
