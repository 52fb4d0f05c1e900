//! Asks a run to stop; shared by `interrupt` and `abort`.

use helix_agents_core::SessionId;
use helix_agents_core::runtime::{self, Runtime, RuntimeExt, StartedRun};
use helix_agents_core::session::StopKind;
use serde_json::json;

use super::{id, is_orphaned, load};
use crate::exit::Exit;
use crate::screen::{Look, Screen};
use crate::setup::Place;

/// Asks the run of a session to stop. The request is durable; the process that performs the run
/// obeys it. A suspended run is ended here, if its agent is configured.
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
    let runtime = setup.runtime();
    let mut stop = runtime::Stop::of(&session);
    if let Some(reason) = reason {
        stop = stop.because(reason);
    }
    let asked = match kind {
        StopKind::Abort => runtime.abort(stop).await?,
        _ => runtime.interrupt(stop).await?,
    };
    let Some(run) = asked else {
        if json {
            screen.json(&json!({ "accepted": false }))?;
        }
        let text = format!("session {session} has no run in progress: there is nothing to stop");
        screen.note(Look::Yellow, text)?;
        return Ok(Exit::Failed);
    };
    let found = load(store, &session).await?;
    let latest = found.run.as_ref();
    if let Some(ending) = latest.filter(|latest| latest.id != run) {
        let ending = StartedRun::new(found.state.key(), ending.id.clone());
        runtime.ended(&ending).await?;
    }
    if json {
        screen.json(&json!({ "accepted": true, "runId": run }))?;
    } else {
        screen.print_line(format!("accepted: run {run} is asked to stop"))?;
    }
    if latest.is_some_and(|latest| latest.status.is_suspended()) {
        let agent = &found.state.agent_type;
        let text = format!(
            "it is suspended, and its agent `{agent}` is not configured here; it ends when a server that has \
             the agent runs"
        );
        screen.note(Look::Yellow, text)?;
    } else if is_orphaned(store, &session, setup.clock.now()).await? {
        let resume = place.command(&format!("resume {session}"));
        let text = format!("its process is gone; it stops when `{resume}` takes it over");
        screen.note(Look::Yellow, text)?;
    }
    Ok(Exit::Done)
}
