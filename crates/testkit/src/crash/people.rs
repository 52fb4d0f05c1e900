//! Actions of people at chosen moments of a run.
//!
//! A scenario plans them, and what is stored decides which one is due: a process that takes over
//! from a dead one finds the same action due until it has taken effect.

mod texts;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helix_agents_core::RunId;
use helix_agents_core::error::ErrorCode;
use helix_agents_core::session::{RunRecord, RunStatus, StopKind};
use helix_agents_core::step::StopCause;
use helix_agents_core::store::{Lookup, Page, Sessions, StoreError};
use helix_agents_core::time::Clock;

use super::World;
pub(super) use texts::{PlannedText, Texts};

/// A moment of a run at which a person acts.
///
/// ```
/// use helix_agents_core::Agent;
/// use helix_agents_testkit::EveryTool;
/// use helix_agents_testkit::crash::{Moment, Scenario};
///
/// let agent = Agent::builder("support").model(EveryTool).build()?;
/// let scenario = Scenario::new("a refund that is dropped", move |_world| agent.clone());
/// let scenario = scenario.says("Refund order 42.").aborts_when(Moment::Suspended);
/// # Ok::<(), helix_agents_core::DefinitionError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Moment {
    /// The model has said a part of its reply. The model of the scenario says when, with
    /// [`World::arrives`].
    MidReply,
    /// A tool is running. The tool of the scenario says when, with [`World::arrives`].
    MidTool,
    /// The run waits for answers, before any of them is given.
    Suspended,
}

/// A stop that a scenario plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlannedStop {
    /// The number of the turn, from 1.
    pub(super) turn: u32,
    pub(super) moment: Moment,
    pub(super) kind: StopKind,
}

/// The people of a play: the stops that they plan, and those that were accepted. Clones are the same
/// people.
#[derive(Debug, Clone, Default)]
pub(super) struct People {
    plan: Arc<[PlannedStop]>,
    accepted: Arc<Mutex<Vec<(RunId, StopKind)>>>,
    pub(super) texts: Texts,
    /// Whether the session is deleted while a tool runs.
    deletes: bool,
    /// The longest time that the scenario waits for a stop; without it, for ever.
    patience: Option<Duration>,
}

impl People {
    pub(super) fn new(plan: &[PlannedStop], texts: &[PlannedText]) -> Self {
        Self {
            plan: plan.into(),
            texts: Texts::new(texts),
            ..Self::default()
        }
    }

    /// Sets whether the session is deleted while a tool runs.
    pub(super) fn deleting(mut self, deletes: bool) -> Self {
        self.deletes = deletes;
        self
    }

    /// Sets the longest time that the scenario waits for a stop. An executor that was superseded may
    /// never hear of it.
    pub(super) fn patient_for(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// The next stop of the current turn that did not stop it yet.
    pub(super) fn due(&self, runs: &[RunRecord]) -> Option<PlannedStop> {
        let turn = runs.last()?.turn;
        let stopped = runs
            .iter()
            .filter(|run| run.turn == turn && is_stopped(run));
        let planned = self.plan.iter().filter(|stop| stop.turn == turn);
        planned.copied().nth(stopped.count())
    }

    /// Checks that every planned stop stopped a run of its turn, as it was planned.
    pub(super) fn unmet(&self, runs: &[RunRecord]) -> Vec<String> {
        let stopped = runs.iter().filter(|run| is_stopped(run));
        let stopped = stopped.map(|run| (run.turn, run.status));
        let planned = self.plan.iter().map(|stop| match stop.kind {
            StopKind::Interrupt => (stop.turn, RunStatus::Interrupted),
            _ => (stop.turn, RunStatus::Failed),
        });
        let interrupted = |turn| (turn, RunStatus::Interrupted);
        let planned = planned.chain(self.texts.interrupted_turns().map(interrupted));
        if stopped.clone().eq(planned.clone()) {
            return Vec::new();
        }
        let (stopped, planned): (Vec<_>, Vec<_>) = (stopped.collect(), planned.collect());
        vec![format!(
            "the stopped runs are {stopped:?} instead of {planned:?}"
        )]
    }

    /// The number of replies that interruptions cut off, if no process dies.
    pub(super) fn planned_cuts(&self) -> usize {
        let is_cut = |stop: &&PlannedStop| {
            stop.moment == Moment::MidReply && stop.kind == StopKind::Interrupt
        };
        self.plan.iter().filter(is_cut).count()
    }

    /// The stops that were acknowledged so far, with the run that each of them names.
    pub(super) fn accepted(&self) -> Vec<(RunId, StopKind)> {
        let accepted = self.accepted.lock();
        accepted.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether a run ended because it was asked to.
pub(super) fn is_stopped(run: &RunRecord) -> bool {
    let code = run.error.as_ref().map(|error| error.code);
    let is_interrupted = run.status == RunStatus::Interrupted && !is_out_of_budget(run);
    is_interrupted || code == Some(ErrorCode::FrameworkCancelled)
}

/// Whether a budget ended a run.
pub(super) fn is_out_of_budget(run: &RunRecord) -> bool {
    run.completion_reason == Some(StopCause::Budget)
}

impl World {
    /// Lets the person act who waits for this moment. Returns true if the run was asked to stop: then
    /// call [`World::waits_for_the_stop`].
    pub async fn arrives(&self, moment: Moment) -> bool {
        // The run may hear of it before the store has answered here. It does not run out of patience meanwhile.
        let _held = self.clock.hold();
        if moment == Moment::MidTool && self.people.deletes {
            // What became of it is seen in the store.
            let _ = self.deletes().await;
        }
        self.stops(moment).await || self.texts(moment).await
    }

    /// Deletes the session.
    pub(super) async fn deletes(&self) -> Result<(), StoreError> {
        let sessions = Sessions::new(self.backend.store.as_ref(), self.clock.as_ref());
        sessions.delete_session(&self.session).await.map(drop)
    }

    /// Lets the person stop the run who waits for this moment.
    async fn stops(&self, moment: Moment) -> bool {
        let runs = Lookup::Page(Page::ALL);
        let runs = self.backend.store.runs(self.session.as_root(), runs).await;
        let due = runs.ok().and_then(|runs| self.people.due(&runs.items));
        let Some(stop) = due.filter(|stop| stop.moment == moment) else {
            return false;
        };
        matches!(self.asks_to_stop(stop.kind).await, Ok(Some(_)))
    }

    /// Waits until the run hears that it was asked to stop, which drops the model call or the tool that
    /// waits here. In a random schedule the wait ends after a minute.
    pub async fn waits_for_the_stop(&self) {
        match self.people.patience {
            None => std::future::pending().await,
            Some(patience) => {
                let until = self.clock.now().saturating_add(patience);
                self.clock.sleep_until(until).await;
            }
        }
    }

    /// Asks the latest run to stop.
    pub(super) async fn asks_to_stop(&self, kind: StopKind) -> Result<Option<RunId>, StoreError> {
        let sessions = Sessions::new(self.backend.store.as_ref(), self.clock.as_ref());
        // Read before: who asks from inside of a tool does nothing after it but wait for the stop.
        let runs = self
            .backend
            .store
            .runs(self.session.as_root(), Lookup::Page(Page::ALL));
        let runs = runs.await?.items;
        let asked = sessions.request_stop(&self.session, kind, None).await?;
        let is_own = |asked: &&RunId| runs.iter().any(|run| run.id == **asked);
        if let Some(run) = asked.as_ref().filter(is_own) {
            let accepted = self.people.accepted.lock();
            let mut accepted = accepted.unwrap_or_else(PoisonError::into_inner);
            accepted.push((run.clone(), kind));
        }
        Ok(asked)
    }
}
