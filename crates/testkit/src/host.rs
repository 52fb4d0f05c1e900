//! Hosts, which perform the effects of a run.

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use helix_agents_core::machine::{AgentLimits, Effect, Event, RunState, decide};
use helix_agents_core::perform::{Attempt, PerformError, Ports, perform};

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
    under_way.extend(
        effects
            .into_iter()
            .map(|effect| host.perform(effect, ports)),
    );
    while let Some(event) = under_way.next().await {
        let (next, effects) = decide(facts, state, event?);
        state = host.keep(next);
        under_way.extend(
            effects
                .into_iter()
                .map(|effect| host.perform(effect, ports)),
        );
    }
    Ok(state)
}
