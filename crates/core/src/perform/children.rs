//! What a host needs to wait for the children of a run.

use super::patience::patiently;
use super::{PerformError, Ports};
use crate::agent::AgentContext;
use crate::machine::{Effect, EffectKind};
use crate::store::{SessionKey, Sessions, Snapshot};

/// The child for whose end the effect [`EffectKind::Child`] has to wait, as it is now. A host waits in its own way
/// until its run is no longer running, and performs the effect then. `None` when there is nothing to wait for: the
/// call has its result, or the child is gone.
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
    patiently(ports, || ports.store.load(key)).await
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
    let sessions = Sessions::new(ports.store.as_ref(), ports.clock.as_ref());
    let asked = || sessions.stop_children(at.key(), stop.kind, stop.reason.clone());
    patiently(ports, asked).await
}
