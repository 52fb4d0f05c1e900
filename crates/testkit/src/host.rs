//! Hosts, which perform the effects of a run.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::FuturesUnordered;
use helix_agents_core::agent::AgentContext;
use helix_agents_core::entries::{Entries, EntryError, Performer};
use helix_agents_core::machine::{AgentLimits, Effect, EffectKind, Event, RunState, decide};
use helix_agents_core::perform::{
    Attempt, PerformError, Ports, awaited_child, perform, ports_of_child, stop_children,
    stop_requested,
};
use helix_agents_core::session::RunStatus;

/// A host: where effects are performed, and how a run state is kept between two events.
#[async_trait]
pub trait Host: Send + Sync {
    /// Performs an effect and returns the event it ended in.
    ///
    /// # Errors
    /// [`PerformError`] when it has no event; the run is then as its last commit left it.
    async fn perform(&self, effect: Effect, ports: &Ports) -> Result<Event, PerformError>;

    /// Keeps a run state until the next event, and returns it as it is read back.
    fn keep(&self, state: RunState) -> RunState {
        state
    }
}

/// A host that performs each effect once, in this process, and keeps the run state in memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainHost;

#[async_trait]
impl Host for PlainHost {
    async fn perform(&self, effect: Effect, ports: &Ports) -> Result<Event, PerformError> {
        perform(&effect, Attempt::First, ports).await
    }
}

/// Drives a run to its end on a [`PlainHost`].
///
/// # Errors
/// [`PerformError`] when an effect has no event; the run is then as its last commit left it.
pub async fn drive(
    facts: &AgentLimits,
    state: RunState,
    ports: &Ports,
) -> Result<RunState, PerformError> {
    drive_on(&PlainHost, facts, state, ports).await
}

/// Drives a run to its end: feeds events to [`decide`] and performs the effects it returns,
/// concurrently if there are several.
///
/// # Errors
/// [`PerformError`] when an effect has no event; the run is then as its last commit left it.
pub async fn drive_on(
    host: &dyn Host,
    facts: &AgentLimits,
    state: RunState,
    ports: &Ports,
) -> Result<RunState, PerformError> {
    let mut under_way = FuturesUnordered::new();
    let (state, effects) = decide(facts, host.keep(state), Event::started());
    let mut state = host.keep(state);
    under_way.extend(effects.into_iter().map(|effect| act(host, effect, ports)));
    while let Some(event) = under_way.next().await {
        let (next, effects) = decide(facts, state, event?);
        state = host.keep(next);
        under_way.extend(effects.into_iter().map(|effect| act(host, effect, ports)));
    }
    Ok(state)
}

/// Performs an effect. Children are driven to their ends before their outcome is taken.
async fn act(host: &dyn Host, effect: Effect, ports: &Ports) -> Result<Event, PerformError> {
    if !matches!(effect.kind, EffectKind::Child { .. }) {
        return host.perform(effect, ports).await;
    }
    let stopping = async {
        if let Some(stops) = &ports.stops {
            let at = &effect.at;
            stop_requested(stops.as_ref(), at.key(), &at.run_id, ports.clock.as_ref()).await;
            stop_children(&effect, ports).await?;
        }
        std::future::pending::<Result<(), PerformError>>().await
    };
    let driving = drive_child(host, &effect, ports);
    match select(pin!(stopping), driving).await {
        Either::Left((stopped, _)) => stopped?,
        Either::Right((driven, _)) => driven?,
    }
    host.perform(effect, ports).await
}

/// Drives the child of a call until its run no longer runs: as the process that started it, or as one that takes it
/// over.
fn drive_child<'a>(
    host: &'a dyn Host,
    effect: &'a Effect,
    ports: &'a Ports,
) -> BoxFuture<'a, Result<(), PerformError>> {
    Box::pin(async move {
        while let Some(child) = awaited_child(effect, ports).await? {
            let run = child.run.as_ref();
            let Some(run) = run.filter(|run| run.status == RunStatus::Running) else {
                break;
            };
            let me = ports.performer.clone();
            let me = me.unwrap_or_else(|| Performer::new(run.host.clone()));
            let holder = child.lease.as_ref().map(|lease| &lease.holder);
            let is_mine = holder == me.lease.as_ref().map(|(holder, _)| holder);
            let state = if is_mine {
                RunState::of(&child, child.fence)
            } else {
                let entries = Entries::new(
                    Arc::clone(&ports.store),
                    Arc::clone(&ports.streams),
                    Arc::clone(&ports.clock),
                    Arc::clone(&ports.ids),
                );
                match entries.recover(&child.state.session_id, &me).await {
                    Ok(state) => Some(state),
                    Err(EntryError::StillHeld { .. }) => {
                        let until = child.lease.as_ref().map(|lease| lease.until);
                        let soon = ports.clock.now().saturating_add(Duration::from_millis(1));
                        ports
                            .clock
                            .sleep_until(until.unwrap_or(soon).max(soon))
                            .await;
                        continue;
                    }
                    // It ended, or somebody else was faster.
                    Err(error) => {
                        tracing::debug!(event = "child.not_recovered", %error);
                        continue;
                    }
                }
            };
            let Some(state) = state else { break };
            let mut context = AgentContext::new(state.session_id.clone());
            context.user_id.clone_from(&child.state.user_id);
            let agent = ports.agents.resolve(&state.agent_type, &context)?;
            let ports = ports_of_child(&child, ports).await?;
            drive_on(host, &AgentLimits::of(&agent), state, &ports).await?;
        }
        Ok(())
    })
}
