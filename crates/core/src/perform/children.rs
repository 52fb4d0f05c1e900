//! What a host needs to wait for the children of a run.

use super::patience::patiently;
use super::{PerformError, Ports};
use crate::agent::AgentContext;
use crate::entries::{NEW_MESSAGE, waiting_run};
use crate::id::RunId;
use crate::machine::{Effect, EffectKind};
use crate::session::{ChildCall, RunRecord, RunStatus, SessionStatus};
use crate::store::{Lookup, Page, Reach, SessionKey, Sessions, Snapshot};

/// The child for whose end the effect [`EffectKind::Child`] has to wait, as it is now. A host waits in its own way
/// until there is none, and performs the effect then. If no run of the child is running, messages wait for one: the
/// host [delivers](crate::entries::Entries::deliver) them. `None` when there is nothing to wait for: the call has its
/// result, or the run of the child is suspended or has ended.
///
/// # Errors
/// [`PerformError`] when the store cannot be reached.
pub async fn awaited_child(
    effect: &Effect,
    ports: &Ports,
) -> Result<Option<Snapshot>, PerformError> {
    let EffectKind::Child { index } = &effect.kind else {
        return Ok(None);
    };
    let at = &effect.at;
    let parent = patiently(ports, || ports.store.load(at.key())).await?;
    let step = parent.and_then(|parent| parent.open_step);
    let call = step.as_ref().and_then(|step| step.call_at(*index));
    let call = call.filter(|(_, call)| call.result.is_none());
    let Some(child) = call.and_then(|(_, call)| call.child.as_deref()) else {
        return Ok(None);
    };
    let key = SessionKey::new(&at.root_session_id, &child.session_id);
    let found = patiently(ports, || ports.store.load(key)).await?;
    let works = consultation(ports, found.as_ref(), child).await?;
    Ok(found.filter(|_| matches!(works, Consultation::Works)))
}

/// How far a child is with what a call gave it to do.
pub(super) enum Consultation {
    /// Its run is running, or waits for its start.
    Works,
    /// Its run is suspended.
    Suspended(Box<RunRecord>),
    /// Its run has ended, or never began.
    Over(Option<Box<RunRecord>>),
}

/// Finds out how far a child is with what a call gave it to do.
pub(super) async fn consultation(
    ports: &Ports,
    found: Option<&Snapshot>,
    call: &ChildCall,
) -> Result<Consultation, PerformError> {
    let Some(found) = found else {
        return Ok(Consultation::Over(None));
    };
    let is_persistent = found.state.persistent.is_some();
    let latest = found.run.as_ref();
    let runs = latest.is_some_and(|run| run.status == RunStatus::Running);
    if is_persistent && waiting_run(&found.inbox) == Some(&call.run_id) {
        // Nothing is started while a budget pauses the session.
        return Ok(match runs || found.state.status != SessionStatus::Paused {
            true => Consultation::Works,
            false => Consultation::Over(latest.cloned().map(Box::new)),
        });
    }
    let run = match latest {
        // One that answers a single call has no other turn.
        Some(latest) if is_persistent && latest.id != call.run_id => {
            turn_of(ports, found.state.key(), latest, &call.run_id).await?
        }
        latest => latest.cloned(),
    };
    let Some(run) = run.map(Box::new) else {
        return Ok(Consultation::Over(None));
    };
    Ok(match run.status {
        RunStatus::Running => Consultation::Works,
        status if status.is_suspended() => Consultation::Suspended(run),
        _ => Consultation::Over(Some(run)),
    })
}

/// The last run of the turn that this run began.
async fn turn_of(
    ports: &Ports,
    child: SessionKey<'_>,
    latest: &RunRecord,
    first: &RunId,
) -> Result<Option<RunRecord>, PerformError> {
    let store = &ports.store;
    let one = patiently(ports, || store.runs(child, Lookup::One(first.clone()))).await?;
    let Some(first) = one.items.into_iter().next() else {
        return Ok(None);
    };
    if latest.turn == first.turn {
        return Ok(Some(latest.clone()));
    }
    if !first.status.is_suspended() {
        return Ok(Some(first));
    }
    let all = patiently(ports, || store.runs(child, Lookup::Page(Page::ALL))).await?;
    let mut of_turn = all.items.into_iter().filter(|run| run.turn == first.turn);
    Ok(of_turn.next_back())
}

/// The ports for a run of a child: the hooks of the agents above it come before its own.
///
/// # Errors
/// [`PerformError`] when the store cannot be reached, or an agent above is not registered.
pub async fn ports_of_child(child: &Snapshot, ports: &Ports) -> Result<Ports, PerformError> {
    let mut above = Vec::new();
    let root = child.state.root();
    let mut next = child.state.parent_session_id.clone();
    while let Some(parent) = next {
        let key = SessionKey::new(root, &parent);
        let found = patiently(ports, || ports.store.load(key)).await?;
        let Some(found) = found else { break };
        let mut context = AgentContext::new(parent.clone());
        context.user_id.clone_from(&found.state.user_id);
        let agent = ports.agents.resolve(&found.state.agent_type, &context)?;
        above.push(agent.hooks().to_vec());
        next = found.state.parent_session_id;
    }
    let mut ports = ports.clone();
    ports.memory = ports.memory.anew();
    ports.parent_hooks = above.into_iter().rev().flatten().collect();
    Ok(ports)
}

/// Asks the runs that work for the run of an effect to stop, if it is asked to stop itself.
///
/// # Errors
/// [`PerformError`] when the store cannot be reached.
pub async fn stop_children(effect: &Effect, ports: &Ports) -> Result<(), PerformError> {
    let at = &effect.at;
    let parent = patiently(ports, || ports.store.load(at.key())).await?;
    let stop = parent.and_then(|parent| parent.stop);
    let Some(stop) = stop.filter(|stop| stop.run_id == at.run_id) else {
        return Ok(());
    };
    // A message to the session is no reason to stop those for which its turn did not wait.
    let reach = match stop.reason.as_deref() {
        Some(NEW_MESSAGE) => Reach::Awaited,
        _ => Reach::All,
    };
    let sessions = Sessions::new(ports.store.as_ref(), ports.clock.as_ref());
    let asked = || sessions.stop_children(at.key(), stop.kind, stop.reason.clone(), reach);
    patiently(ports, asked).await
}
