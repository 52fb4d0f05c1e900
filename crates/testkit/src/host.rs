//! The plainest host: performs effects as they come.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use helix_agents_core::machine::{AgentFacts, Effect, Event, RunState, decide};
use helix_agents_core::perform::{PerformError, Ports, perform};

/// Drives a run to its end: feeds events to [`decide`] and performs what it says, effects that are
/// given together at the same time.
///
/// # Errors
/// [`PerformError`] when an effect has no event; the run is then as its last commit left it.
pub async fn drive(
    facts: &AgentFacts,
    state: RunState,
    ports: &Ports,
) -> Result<RunState, PerformError> {
    let mut under_way = FuturesUnordered::new();
    let perform = |effect: Effect| async move { perform(&effect, ports).await };
    let (mut state, effects) = decide(facts, state, Event::started());
    under_way.extend(effects.into_iter().map(perform));
    while let Some(event) = under_way.next().await {
        let (next, effects) = decide(facts, state, event?);
        state = next;
        under_way.extend(effects.into_iter().map(perform));
    }
    Ok(state)
}
