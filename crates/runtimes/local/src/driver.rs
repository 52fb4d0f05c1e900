//! Drives one run: feeds events to the loop and performs what it says.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use helix_agents_core::abort::{AbortHandle, AbortSignal};
use helix_agents_core::machine::{AgentFacts, Effect, EffectKind, Event, RunState, decide};
use helix_agents_core::perform::{Attempt, PerformError, Ports, perform};
use helix_agents_core::time::Timestamp;

use crate::lease::Holding;
use crate::table::Report;

/// What is needed to drive a run.
pub(crate) struct Driver {
    pub(crate) facts: AgentFacts,
    pub(crate) state: RunState,
    pub(crate) ports: Ports,
    pub(crate) holding: Holding,
    /// Tells that the process shuts down.
    pub(crate) stop: AbortSignal,
}

/// What comes next.
enum Next {
    /// An effect has its event; `None`: no effect is under way.
    Event(Option<Result<Event, PerformError>>),
    /// The lease was renewed, or could not be, and is again at this instant; or it is lost.
    Lease(Result<Timestamp, PerformError>),
    /// The process shuts down.
    Stop,
}

/// Why no more effects are begun.
enum Leaving {
    /// The process shuts down.
    Stop,
    /// An effect failed.
    Failed(PerformError),
}

impl Driver {
    /// Performs the run until it ends, is taken over, or has to be left.
    pub(crate) async fn drive(self) -> Report {
        let Self {
            facts,
            state,
            mut ports,
            holding,
            stop,
        } = self;
        // Tools that outlive their run are told so.
        let abort = AbortHandle::new();
        ports.abort = abort.signal();
        let (ports, hold, session) = (&ports, &*holding.hold, &state.session_id.clone());
        let perform = |effect: Effect| async move {
            // Nothing is begun under a lease that has lapsed: somebody else may be at it already.
            // A renewal under the same fence says that nobody is.
            if !hold.valid(&*ports.clock).await {
                let session = session.clone();
                return Err(PerformError::Superseded { session });
            }
            perform(&effect, Attempt::First, ports).await
        };
        let mut under_way = FuturesUnordered::new();

        let mut renew_at = holding.first_renewal();
        let mut renewal: Pin<Box<_>> = Box::pin(holding.renew(renew_at));
        let mut stopped = std::pin::pin!(stop.aborted());
        let mut leaving = stop.is_aborted().then_some(Leaving::Stop);

        let (mut state, effects) = decide(&facts, state, Event::started());
        let mut sleeps = may_be_left(&effects);
        under_way.extend(begin(effects, leaving.as_ref()).map(perform));
        loop {
            if sleeps && matches!(leaving, Some(Leaving::Stop)) {
                // Whoever goes on waits again, for a moment or not at all.
                break;
            }
            let due = renew_at <= ports.clock.now();
            let next = poll_fn(|cx| {
                // A run that never waits would never renew its lease.
                if due && let Poll::Ready(renewed) = renewal.as_mut().poll(cx) {
                    return Poll::Ready(Next::Lease(renewed));
                }
                if let Poll::Ready(event) = under_way.poll_next_unpin(cx) {
                    return Poll::Ready(Next::Event(event));
                }
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
                // Effects beside it are waited for: what they did is then known.
                Next::Event(Some(Err(error))) => {
                    leaving = Some(Leaving::Failed(error));
                }
                Next::Event(Some(Ok(event))) => {
                    let (next, effects) = decide(&facts, state, event);
                    state = next;
                    if leaving.is_none() && stop.is_aborted() {
                        leaving = Some(Leaving::Stop);
                    }
                    sleeps = may_be_left(&effects);
                    under_way.extend(begin(effects, leaving.as_ref()).map(perform));
                    // A run whose effects never wait lets others have their turn.
                    tokio::task::coop::consume_budget().await;
                }
            }
        }
        if state.is_ended() {
            return Report::Ended;
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
            None => Report::Broken("the loop had nothing more to do before the end"),
        }
    }
}

/// What is still begun of these effects by a process that shuts down.
///
/// It finishes the step it is in: a call whose intent is durable counts as started for whoever takes
/// the run over, and would be one of unknown outcome. It does not buy another reply. (After an
/// effect that failed, the loop waits for its event and gives nothing to begin.)
fn begin(effects: Vec<Effect>, leaving: Option<&Leaving>) -> impl Iterator<Item = Effect> + use<> {
    let stops = matches!(leaving, Some(Leaving::Stop));
    effects.into_iter().filter(move |effect| {
        let asks = matches!(
            effect.kind,
            EffectKind::Model { .. } | EffectKind::Sleep { .. }
        );
        !(stops && asks)
    })
}

/// Whether nothing is lost when these effects are dropped: they only wait.
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
