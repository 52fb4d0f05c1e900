//! Drives one run: feeds events to `decide` and performs the resulting effects.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use helix_agents_core::abort::{AbortHandle, AbortSignal};
use helix_agents_core::machine::{AgentLimits, Effect, EffectKind, Event, RunState, decide};
use helix_agents_core::perform::{Attempt, PerformError, Ports, perform, stop_requested};
use helix_agents_core::time::Timestamp;

use crate::children::Children;
use crate::lease::Holding;
use crate::table::Report;
use crate::under_way::UnderWay;

/// Everything that is needed to drive one run.
pub(crate) struct Driver {
    pub(crate) facts: AgentLimits,
    pub(crate) state: RunState,
    pub(crate) ports: Ports,
    pub(crate) holding: Holding,
    /// Fires when the process shuts down.
    pub(crate) stop: AbortSignal,
    /// Drives the children of the run.
    pub(crate) children: Children,
}

/// The next thing that happens to a run.
enum Next {
    /// An effect produced its event; `None` if no effect is in progress.
    Event(Option<Result<Event, PerformError>>),
    /// The lease was renewed, or the renewal failed and is retried at this instant; an error means
    /// that the lease is lost.
    Lease(Result<Timestamp, PerformError>),
    /// The process shuts down.
    Stop,
}

/// The reason why no more effects are started.
enum Leaving {
    /// The process shuts down.
    Stop,
    /// An effect failed with this error.
    Failed(PerformError),
}

impl Driver {
    /// Performs the run until it ends, is taken over, or must be left.
    pub(crate) async fn drive(self) -> Report {
        let Self {
            facts,
            state,
            mut ports,
            holding,
            stop,
            children,
        } = self;
        // Tools that outlive their run are notified.
        let abort = AbortHandle::new();
        ports.abort = abort.signal();
        // One listener serves all effects of the run.
        let asked = AbortHandle::new();
        ports.stop = Some(asked.signal());
        let (stops, clock) = (ports.stops.take(), Arc::clone(&ports.clock));
        let (key, run) = (state.clone(), state.run_id.clone());
        let mut asking = std::pin::pin!(async move {
            if let Some(stops) = stops {
                stop_requested(&*stops, key.key(), &run, &*clock).await;
                asked.abort();
            }
            std::future::pending::<()>().await;
        });
        let (ports, hold, session) = (&ports, &*holding.hold, &state.session_id.clone());
        let (children, leave) = (&children, &stop);
        let perform = |effect: Effect| async move {
            loop {
                if matches!(effect.kind, EffectKind::Child { .. }) {
                    // Boxed: every effect holds this future, and few wait for a child.
                    Box::pin(children.ended(&effect, ports, leave)).await?;
                }
                // No effect is started under a lapsed lease, because another process may have taken the
                // run over. A renewal under the same fence proves that none has.
                if !hold.valid(&*ports.clock).await {
                    let session = session.clone();
                    return Err(PerformError::Superseded { session });
                }
                match perform(&effect, Attempt::First, ports).await {
                    // The child was answered after the look, and goes on.
                    Err(PerformError::ChildRuns { .. }) if !leave.is_aborted() => {}
                    performed => return performed,
                }
            }
        };
        let mut under_way = UnderWay::new();

        let mut renew_at = holding.first_renewal();
        let mut renewal: Pin<Box<_>> = Box::pin(holding.renew(renew_at));
        let mut stopped = std::pin::pin!(stop.aborted());
        let mut leaving = stop.is_aborted().then_some(Leaving::Stop);

        let (mut state, effects) = decide(&facts, state, Event::started());
        let mut sleeps = may_be_left(&effects);
        under_way.extend(begin(effects, leaving.as_ref()).map(perform));
        loop {
            if sleeps && matches!(leaving, Some(Leaving::Stop)) {
                // The process that continues the run waits again, if it is still necessary.
                break;
            }
            let due = renew_at <= ports.clock.now();
            let next = poll_fn(|cx| {
                // Poll the renewal first, or a run that never waits would never renew its lease.
                if due && let Poll::Ready(renewed) = renewal.as_mut().poll(cx) {
                    return Poll::Ready(Next::Lease(renewed));
                }
                if let Poll::Ready(event) = under_way.poll_next(cx) {
                    return Poll::Ready(Next::Event(event));
                }
                // It never ends: a stop is heard by the effects.
                let _ = asking.as_mut().poll(cx);
                if leaving.is_none() && stopped.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Next::Stop);
                }
                renewal.as_mut().poll(cx).map(Next::Lease)
            });
            match next.await {
                Next::Lease(Ok(next)) => {
                    renew_at = next;
                    renewal = Box::pin(holding.renew(renew_at));
                }
                Next::Lease(Err(error)) => {
                    abort.abort();
                    return report(error);
                }
                Next::Stop => leaving = Some(Leaving::Stop),
                Next::Event(None) => break,
                Next::Event(Some(Err(error))) if error.is_superseded() => {
                    abort.abort();
                    return report(error);
                }
                // The process that continues the run waits for the child again.
                Next::Event(Some(Err(PerformError::ChildRuns { .. }))) => {
                    leaving.get_or_insert(Leaving::Stop);
                }
                // Effects in progress are awaited, so that their results are known.
                Next::Event(Some(Err(error))) => {
                    leaving = Some(Leaving::Failed(error));
                }
                Next::Event(Some(Ok(event))) => {
                    if let Some(child) = event.wakes.clone() {
                        children.wake(state.root_session_id.clone(), child, ports);
                    }
                    let (next, effects) = decide(&facts, state, event);
                    state = next;
                    if leaving.is_none() && stop.is_aborted() {
                        leaving = Some(Leaving::Stop);
                    }
                    sleeps = may_be_left(&effects);
                    under_way.extend(begin(effects, leaving.as_ref()).map(perform));
                    // A run whose effects never wait yields to other tasks.
                    tokio::task::coop::consume_budget().await;
                }
            }
        }
        if state.is_ended() {
            return Report::Ended {
                messages_wait: state.messages_wait,
            };
        }
        match leaving {
            Some(Leaving::Failed(error)) => report(error),
            Some(Leaving::Stop) => match holding.give_up().await {
                Err(error) if error.is_superseded() => Report::Superseded,
                Err(error) => {
                    tracing::warn!(event = "lease.not_given_up", session = %state.session_id, %error);
                    Report::HandedOver
                }
                Ok(()) => Report::HandedOver,
            },
            None => Report::Broken("the run has no effects left but has not ended"),
        }
    }
}

/// Returns the effects that are still started while the process shuts down.
///
/// The current step is finished: a call whose intent is durable counts as started, so a process
/// that takes the run over would have to treat its outcome as unknown. No further model reply is
/// requested. (After a failed effect, `decide` waits for its event and returns no effects.)
fn begin(effects: Vec<Effect>, leaving: Option<&Leaving>) -> impl Iterator<Item = Effect> + use<> {
    let stops = matches!(leaving, Some(Leaving::Stop));
    effects.into_iter().filter(move |effect| {
        let asks = matches!(
            effect.kind,
            EffectKind::Model { .. } | EffectKind::Sleep { .. } | EffectKind::Child { .. }
        );
        !(stops && asks)
    })
}

/// Whether all these effects only wait, so that dropping them loses nothing.
fn may_be_left(effects: &[Effect]) -> bool {
    let waits = |effect: &Effect| matches!(effect.kind, EffectKind::Sleep { .. });
    !effects.is_empty() && effects.iter().all(waits)
}

fn report(error: PerformError) -> Report {
    if error.is_superseded() {
        return Report::Superseded;
    }
    Report::Stalled(Arc::new(error))
}
