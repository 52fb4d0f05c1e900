//! Asks a run to stop: what `interrupt` and `abort` share.

use helix_agents_core::SessionId;
use helix_agents_core::session::StopKind;
use helix_agents_core::store::{Sessions, Snapshot};
use serde_json::json;

use super::{id, is_left_alone, load};
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
    let setup = place.open_existing().await?;
    let store = setup.backend.store.as_ref();
    let screen = Screen::here();
    let sessions = Sessions::new(store, setup.clock.as_ref());
    let resume = place.command(&format!("resume {session}"));
    let Some(run) = sessions.request_stop(&session, kind, reason).await? else {
        if json {
            screen.json(&json!({ "accepted": false }))?;
        }
        let why = match standing(&load(store, &session).await?) {
            Standing::Waits => {
                let submit = place.command(&format!("submit {session} CALL --error TEXT"));
                format!("it waits for answers; `{submit}` ends a call")
            }
            Standing::Answered => format!("all its calls are answered; `{resume}` goes on"),
            Standing::Done => "there is nothing to stop".to_owned(),
        };
        let text = format!("no run of session {session} goes on: {why}");
        screen.note(Look::Yellow, text)?;
        return Ok(Exit::Failed);
    };
    if json {
        screen.json(&json!({ "accepted": true, "runId": run }))?;
    } else {
        screen.say(format!("accepted: run {run} is asked to stop"))?;
    }
    if is_left_alone(store, &session, setup.clock.now()).await? {
        let text = format!("its process is gone; it stops when `{resume}` takes it over");
        screen.note(Look::Yellow, text)?;
    }
    Ok(Exit::Done)
}

/// What a session without a run stands at.
enum Standing {
    /// A call waits for an answer.
    Waits,
    /// All its calls are answered, and nobody went on.
    Answered,
    /// Nothing is open.
    Done,
}

fn standing(found: &Snapshot) -> Standing {
    let mut calls = found.state.pending_client_tool_calls.values().peekable();
    if calls.peek().is_none() {
        return Standing::Done;
    }
    match calls.any(|call| call.answer.is_none()) {
        true => Standing::Waits,
        false => Standing::Answered,
    }
}
