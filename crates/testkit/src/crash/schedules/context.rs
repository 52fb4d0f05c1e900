//! The state that all tasks of a schedule share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helix_agents_core::entries::{Entries, EntryError, Performer, ToolAnswer};
use helix_agents_core::error::{Coded, ErrorCode};
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{PendingCall, RunStatus, StopKind, SubmissionOutcome};
use helix_agents_core::store::{SessionQuery, Snapshot, StoreError};
use helix_agents_core::{CallId, RunId};

use super::Hosting;
use super::schedule::{Kill, Schedule};
use crate::crash::compare::Stored;
use crate::crash::observer::Observer;
use crate::crash::people::People;
use crate::crash::play::session;
use crate::crash::process::{LEASE, Process};
use crate::crash::{KillSwitch, Scenario, World};
use crate::unreliable::CommitObserver;
use crate::{
    AmnesiacHost, CrowdedHost, Dice, Faults, Host, PlainHost, SequentialIds, Spawner, TaskId,
    UnreliableStore, VirtualClock, block_on,
};

/// Whether a write was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum WriteOutcome {
    #[default]
    No,
    /// The acknowledgement was lost.
    Perhaps,
    Yes,
}

impl WriteOutcome {
    pub(super) fn is_certain(self) -> bool {
        self == Self::Yes
    }

    /// How often it may have been made.
    pub(super) fn times(self) -> RangeInclusive<usize> {
        match self {
            Self::No => 0..=0,
            Self::Perhaps => 0..=1,
            Self::Yes => 1..=1,
        }
    }
}

/// A record of what was accepted, and of what happened.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) answers: BTreeMap<CallId, (PendingCall, ToolAnswer)>,
    /// Calls for which an answer was submitted. It may be stored even if the acknowledgement was lost.
    pub(super) offered: BTreeSet<CallId>,
    pub(super) stops: Vec<(RunId, StopKind)>,
    pub(super) stop: WriteOutcome,
    pub(super) appended: WriteOutcome,
    /// The messages that rivals sent.
    pub(super) messages: BTreeMap<String, WriteOutcome>,
    /// The messages that wait, with the run that each sender was told.
    pub(super) told: Vec<(String, RunId)>,
    /// The calls that timed out.
    pub(super) expired: BTreeSet<CallId>,
    /// How often the clock was set past deadlines.
    pub(super) jumps: usize,
    /// The calls whose late answers were acknowledged.
    pub(super) late: BTreeSet<CallId>,
    /// The calls that rivals saw waiting.
    pub(super) asked: BTreeMap<CallId, PendingCall>,
    pub(super) kills: usize,
    pub(super) taken_over: bool,
    pub(super) over: bool,
    pub(super) violations: Vec<String>,
}

/// The state that all tasks of a schedule share.
pub(super) struct ScheduleContext {
    pub(super) scenario: Scenario,
    pub(super) spawner: Spawner,
    pub(super) clock: Arc<VirtualClock>,
    pub(super) dice: Dice,
    pub(super) world: World,
    pub(super) observer: Observer,
    pub(super) eager: bool,
    pub(super) twice: bool,
    pub(super) stop: Option<StopKind>,
    pub(super) append: bool,
    hosting: Hosting,
    leases: bool,
    durable: Backend,
    flaky: Backend,
    kills: Mutex<VecDeque<Kill>>,
    ledger: Mutex<Ledger>,
    processes: Mutex<usize>,
}

impl ScheduleContext {
    pub(super) fn set(
        scenario: &Scenario,
        hosting: Hosting,
        durable: Backend,
        clock: &Arc<VirtualClock>,
        spawner: &Spawner,
        schedule: Schedule,
        commit_observer: Option<Arc<dyn CommitObserver>>,
    ) -> Self {
        let dice = schedule.dice;
        let flaky = UnreliableStore::new(
            durable.clone(),
            Arc::clone(clock),
            dice.fork(),
            schedule.faults,
        );
        let flaky = match commit_observer {
            Some(commit_observer) => flaky.observed_by(commit_observer),
            None => flaky,
        };
        // What tools do outside of the framework does not fail.
        let calm = flaky.with_faults(Faults::none());
        let world = World {
            switch: KillSwitch::lingering(dice.fork(), schedule.lingers),
            backend: calm.backend(),
            clock: Arc::clone(clock),
            ids: Arc::new(SequentialIds::new()),
            session: session(),
            people: People::new(&scenario.stops, &scenario.texts)
                .patient_for(Duration::from_secs(60)),
        };
        Self {
            scenario: scenario.clone(),
            spawner: spawner.clone(),
            clock: Arc::clone(clock),
            dice: dice.fork(),
            world,
            observer: Observer::default(),
            eager: schedule.eager,
            twice: schedule.twice,
            stop: schedule.stop,
            append: schedule.append,
            hosting,
            leases: schedule.leases,
            durable,
            flaky: flaky.backend(),
            kills: Mutex::new(schedule.kills),
            ledger: Mutex::default(),
            processes: Mutex::default(),
        }
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is stored, without the faults.
    pub(super) fn stored(&self) -> Result<Stored, String> {
        let stored = block_on(Stored::read(&self.durable, &self.world.session));
        stored.map_err(|error| format!("the store cannot be read: {error}"))
    }

    /// Whether a run is one of the root. A stop of a root at rest asks those that work for it, whose runs may never
    /// begin, or be taken back.
    pub(super) fn is_of_root(&self, run: &RunId) -> bool {
        let stored = self.stored();
        stored.is_ok_and(|stored| stored.runs.iter().any(|record| record.id == *run))
    }

    /// A session under the root that works or was asked to stop, also one that the root does not know any more.
    pub(super) fn left_behind(&self) -> Result<Option<Snapshot>, String> {
        let store = &self.durable.store;
        let found = block_on(async {
            for session in store.list(&SessionQuery::default()).await?.items {
                let found = match session.key().is_root() {
                    true => None,
                    false => store.load(session.key()).await?,
                };
                let works = |found: &Snapshot| {
                    let run = found.run.as_ref().map(|run| run.status);
                    let is_suspended = run.is_some_and(RunStatus::is_suspended);
                    run == Some(RunStatus::Running) || (is_suspended && found.stop.is_some())
                };
                if let Some(found) = found.filter(works) {
                    return Ok(Some(found));
                }
            }
            Ok::<_, StoreError>(None)
        });
        found.map_err(|error| format!("the store cannot be read: {error}"))
    }

    /// The store as the processes see it.
    pub(super) fn flaky(&self) -> &Backend {
        &self.flaky
    }

    /// The entries over the store as processes see it.
    pub(super) fn entries(&self) -> Entries {
        let world = World {
            backend: self.flaky.clone(),
            ..self.world.clone()
        };
        world.entries()
    }

    /// The entries over a store that works.
    pub(super) fn calm_entries(&self) -> Entries {
        self.world.entries()
    }

    pub(super) fn next_kill(&self) -> Option<Kill> {
        let mut kills = self.kills.lock().unwrap_or_else(PoisonError::into_inner);
        kills.pop_front()
    }

    /// Starts another simulated process, with a number of its own.
    pub(super) fn process(&self) -> Process {
        let number = {
            let mut count = self
                .processes
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *count += 1;
            *count
        };
        let performer = Performer::new("schedule");
        let performer = match self.hosting {
            Hosting::Plain | Hosting::Amnesiac if self.leases => {
                performer.leased(format!("process-{number}"), LEASE)
            }
            // Engines look after their runs themselves.
            _ => performer,
        };
        Process::over(
            &self.scenario,
            &self.world,
            &self.flaky,
            &self.observer,
            performer,
        )
    }

    /// The host of a process, its ports, and who knows its attempts.
    pub(super) fn host(&self, process: &mut Process) -> (Box<dyn Host>, Attempts) {
        let crowded = || {
            let clock = Arc::clone(&self.clock);
            CrowdedHost::new(self.spawner.clone(), clock, self.dice.fork())
        };
        let host = match self.hosting {
            Hosting::Plain => {
                process.ports = process.ports.clone().remembering();
                return (Box::new(PlainHost), Attempts(None));
            }
            Hosting::Amnesiac => return (Box::new(AmnesiacHost), Attempts(None)),
            Hosting::Crowded => crowded(),
            Hosting::CrowdedUntold => crowded().untold(),
        };
        (Box::new(host.clone()), Attempts(Some(host)))
    }

    /// Submits an answer as the scenario defines it. The error describes an unexpected outcome.
    pub(super) async fn answer(&self, call: &PendingCall) -> Result<SubmissionOutcome, EntryError> {
        let answer = self.scenario.answer(call);
        self.ledger().offered.insert(call.tool_call_id.clone());
        let submitted = self.entries().submit(&answer).await?;
        let taken = matches!(
            submitted.outcome,
            SubmissionOutcome::Accepted | SubmissionOutcome::AlreadyCompleted
        );
        if taken {
            let kept = (call.clone(), answer);
            self.ledger()
                .answers
                .entry(call.tool_call_id.clone())
                .or_insert(kept);
        }
        Ok(submitted.outcome)
    }

    /// The pending calls without an answer.
    pub(super) fn open_questions(&self) -> Result<Vec<PendingCall>, String> {
        Ok(self.stored()?.unanswered(false))
    }
}

/// The attempts of a process that may outlive it.
pub(super) struct Attempts(Option<CrowdedHost>);

impl Attempts {
    pub(super) fn all(&self) -> Vec<TaskId> {
        self.0
            .as_ref()
            .map(CrowdedHost::attempts)
            .unwrap_or_default()
    }
}

/// Whether an entry may be tried again.
pub(super) fn is_temporary(error: &EntryError) -> bool {
    matches!(
        error.code(),
        ErrorCode::StoreUnavailable | ErrorCode::StoreFull
    )
}
