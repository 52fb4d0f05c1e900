//! Hosts, which perform the effects of a run.

mod driven;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::FuturesUnordered;
use helix_agents_core::SessionId;
use helix_agents_core::agent::AgentContext;
use helix_agents_core::entries::{Entries, EntryError, Performer};
use helix_agents_core::machine::{AgentLimits, Effect, EffectKind, Event, RunState, decide};
use helix_agents_core::perform::{
    Attempt, PerformError, Ports, awaited_child, perform, ports_of_child, stop_children,
    stop_requested,
};
use helix_agents_core::session::{RunStatus, SessionStatus};
use helix_agents_core::store::{SessionKey, Snapshot};

use self::driven::{Driven, DrivenRuns};

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
/// concurrently if there are several. Runs that it starts and does not wait for are driven beside it, to their ends.
///
/// # Errors
/// [`PerformError`] when an effect has no event; the run is then as its last commit left it.
pub async fn drive_on(
    host: &dyn Host,
    facts: &AgentLimits,
    state: RunState,
    ports: &Ports,
) -> Result<RunState, PerformError> {
    let driven = DrivenRuns::of(ports).begin(&state.run_id);
    drive_run(host, facts, state, ports, driven).await
}

async fn drive_run(
    host: &dyn Host,
    facts: &AgentLimits,
    state: RunState,
    ports: &Ports,
    driven: Option<Driven>,
) -> Result<RunState, PerformError> {
    let mut under_way: FuturesUnordered<BoxFuture<'_, _>> = FuturesUnordered::new();
    let begin = |effect| -> BoxFuture<'_, _> { Box::pin(act(host, effect, ports)) };
    let (state, effects) = decide(facts, host.keep(state), Event::started());
    let mut state = host.keep(state);
    let mut driven = driven.filter(|_| !state.is_ended());
    under_way.extend(effects.into_iter().map(begin));
    while let Some(event) = under_way.next().await {
        let Some(event) = event? else { continue };
        if let Some(child) = event.wakes.clone() {
            under_way.push(wake(host, state.root_session_id.clone(), child, ports));
        }
        let (next, effects) = decide(facts, state, event);
        state = host.keep(next);
        if state.is_ended() {
            driven.take();
        }
        under_way.extend(effects.into_iter().map(begin));
    }
    Ok(state)
}

/// Performs an effect. Children are driven to their ends before their outcome is taken.
async fn act(
    host: &dyn Host,
    effect: Effect,
    ports: &Ports,
) -> Result<Option<Event>, PerformError> {
    if !matches!(effect.kind, EffectKind::Child { .. }) {
        return host.perform(effect, ports).await.map(Some);
    }
    loop {
        drive_awaited(host, &effect, ports).await?;
        match host.perform(effect.clone(), ports).await {
            // The child was answered after the look, and goes on.
            Err(PerformError::ChildRuns { .. }) => {}
            performed => return performed.map(Some),
        }
    }
}

/// Drives the child that an effect waits for until it no longer runs.
async fn drive_awaited(
    host: &dyn Host,
    effect: &Effect,
    ports: &Ports,
) -> Result<(), PerformError> {
    let stopping = async {
        if let Some(stops) = &ports.stops {
            let at = &effect.at;
            stop_requested(stops.as_ref(), at.key(), &at.run_id, ports.clock.as_ref()).await;
            stop_children(effect, ports).await?;
        }
        std::future::pending::<Result<(), PerformError>>().await
    };
    let driving = async {
        while let Some(child) = awaited_child(effect, ports).await? {
            drive_child(host, child, ports).await?;
        }
        Ok::<(), PerformError>(())
    };
    match select(pin!(stopping), pin!(driving)).await {
        Either::Left((stopped, _)) => stopped,
        Either::Right((driven, _)) => driven,
    }
}

/// Drives a child that nobody waits for until it has nothing to do.
fn wake<'a>(
    host: &'a dyn Host,
    root: SessionId,
    child: SessionId,
    ports: &'a Ports,
) -> BoxFuture<'a, Result<Option<Event>, PerformError>> {
    Box::pin(async move {
        let key = SessionKey::new(&root, &child);
        while let Some(found) = ports.store.load(key).await? {
            let run = found.run.as_ref();
            let works = match run.map(|run| run.status) {
                Some(RunStatus::Running) => true,
                Some(status) if status.is_suspended() => false,
                _ => !found.inbox.is_empty() && found.state.status != SessionStatus::Paused,
            };
            if !works {
                break;
            }
            drive_child(host, found, ports).await?;
        }
        Ok(None)
    })
}

/// Drives the run of a child: as the process that started it, as one that takes it over, or from the messages that
/// wait for it.
pub(crate) fn drive_child<'a>(
    host: &'a dyn Host,
    child: Snapshot,
    ports: &'a Ports,
) -> BoxFuture<'a, Result<(), PerformError>> {
    Box::pin(async move {
        let running = child.run.as_ref();
        let running = running.filter(|run| run.status == RunStatus::Running);
        let me = ports.performer.clone();
        let any = child.run.as_ref().map(|run| run.host.clone());
        let me = me.unwrap_or_else(|| Performer::new(any.unwrap_or_else(|| "testkit".into())));
        let holder = child.lease.as_ref().map(|lease| &lease.holder);
        let runs = DrivenRuns::of(ports);
        // Without a lease nobody knows who performs a run that has begun, unless there is one process only. The engine
        // knows what it has begun, also where nothing is stored of it yet.
        let was_driven = running.is_some_and(|run| runs.has_begun(&run.id));
        let has_begun = was_driven || child.mark.effect > 0 || child.open_step.is_some();
        let is_alone = ports.performer.is_none();
        let is_mine = holder == me.lease.as_ref().map(|(holder, _)| holder)
            && (holder.is_some() || !has_begun || is_alone);
        let mut context = AgentContext::new(child.state.session_id.clone());
        context.user_id.clone_from(&child.state.user_id);
        let agent = ports.agents.resolve(&child.state.agent_type, &context)?;
        let entries = || {
            Entries::new(
                Arc::clone(&ports.store),
                Arc::clone(&ports.streams),
                Arc::clone(&ports.clock),
                Arc::clone(&ports.ids),
            )
        };
        // Who drives a run takes it over first, nobody else: two who wait for one child would take it from each other
        // again and again.
        let mut driven = None;
        if let Some(run) = running {
            driven = runs.begin(&run.id);
            if driven.is_none() {
                runs.left(&run.id).await;
                return Ok(());
            }
        }
        let begun = match running {
            Some(_) if is_mine => Ok(RunState::of(&child, child.fence)),
            Some(_) => {
                let id = &child.state.session_id;
                entries().recover(id, &me).await.map(Some)
            }
            None => entries()
                .deliver(&agent, child.clone(), &me)
                .await
                .map(Some),
        };
        let state = match begun {
            Ok(Some(state)) => state,
            Ok(None) => return Ok(()),
            Err(EntryError::StillHeld { .. }) => {
                drop(driven);
                let until = child.lease.as_ref().map(|lease| lease.until);
                let soon = ports.clock.now().saturating_add(Duration::from_millis(1));
                let until = until.unwrap_or(soon).max(soon);
                ports.clock.sleep_until(until).await;
                return Ok(());
            }
            // It ended, or somebody else was faster.
            Err(error) => {
                tracing::debug!(event = "child.not_entered", %error);
                return Ok(());
            }
        };
        let Some(driven) = driven.or_else(|| runs.begin(&state.run_id)) else {
            return Ok(());
        };
        let ports = ports_of_child(&child, ports).await?;
        let facts = AgentLimits::of(&agent);
        match drive_run(host, &facts, state, &ports, Some(driven)).await {
            // Whoever took it over drives it.
            Err(error) if error.is_superseded() => Ok(()),
            driven => driven.map(drop),
        }
    })
}

#[cfg(test)]
mod tests;
