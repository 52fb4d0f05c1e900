//! Explores the orders of the store calls of two executors, a submitter and a stopper.

use std::sync::Arc;

use helix_agents_core::entries::{EntryError, ExecuteRequest};
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::StopKind;
use helix_agents_core::store::{Page, PendingQuery, Sessions};
use helix_agents_core::time::Timestamp;

use super::commit_checks::CommitChecks;
use super::context::{ScheduleContext, WriteOutcome, is_temporary};
use super::orders::Orders;
use super::schedule::Schedule;
use super::{Hosting, final_checks, supervisor};
use crate::crash::play::Wanted;
use crate::crash::{CrashTest, Scenario};
use crate::host::drive_on;
use crate::unreliable::CommitObserver;
use crate::{Dice, Scheduler, SchedulerOutcome, TaskId, VirtualClock, block_on};

const MAX_POLLS: usize = 20_000;

/// A small model checker. One executor performs the first turn of a scenario. Beside it another
/// executor takes the run over, a submitter answers pending calls, and a stopper asks the run to
/// stop. Each call of the store is one step, and the order of the steps is explored. Afterwards the
/// scenario is played to its end, undisturbed.
///
/// Each order is checked like a schedule ([`Schedules`](super::Schedules)). In addition, only the
/// highest fence commits, no run begins beside another, and no committed reply, result or answer is
/// overwritten.
#[derive(Debug, Clone)]
pub struct Interleavings {
    scenario: Scenario,
    takes_over: bool,
    answers: bool,
    stops: Option<StopKind>,
}

/// The result of exploring orders.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct InterleavingReport {
    /// The number of orders that were played.
    pub orders: usize,
    /// The violations, one sentence each, with the choices or the seed that lead there.
    pub violations: Vec<String>,
}

impl Interleavings {
    /// Explores the first turn of a scenario, which one executor performs.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            takes_over: false,
            answers: false,
            stops: None,
        }
    }

    /// Adds a second executor, which takes the run over.
    #[must_use]
    pub fn takes_over(mut self) -> Self {
        self.takes_over = true;
        self
    }

    /// Adds a submitter, which answers the pending calls it finds.
    #[must_use]
    pub fn answers(mut self) -> Self {
        self.answers = true;
        self
    }

    /// Adds a stopper, which asks the run to stop.
    #[must_use]
    pub fn stops(mut self, kind: StopKind) -> Self {
        self.stops = Some(kind);
        self
    }

    /// Plays every order in which a task is preempted at most this many times before it has ended.
    pub fn every_order(
        &self,
        preemptions: usize,
        store: impl Fn() -> Backend,
    ) -> InterleavingReport {
        let mut report = InterleavingReport::default();
        let wanted = match self.undisturbed(&store) {
            Ok(wanted) => wanted,
            Err(why) => {
                report.violations.push(why);
                return report;
            }
        };
        let mut orders = Orders::new(preemptions);
        loop {
            let mut order = orders.begin();
            let found = self.play(&wanted, store(), |ready, last| order.choose(ready, last));
            let made = order.into_choices();
            report.orders += 1;
            let choices = || -> Vec<usize> { made.iter().map(|(choice, _)| *choice).collect() };
            let found = found.into_iter();
            let found = found.map(|what| format!("[choices {:?}] {what}", choices()));
            report.violations.extend(found);
            if !orders.next(made) {
                return report;
            }
        }
    }

    /// Plays one order for each seed.
    pub fn random_orders(
        &self,
        seeds: impl Iterator<Item = u64>,
        store: impl Fn() -> Backend,
    ) -> InterleavingReport {
        let mut report = InterleavingReport::default();
        let wanted = match self.undisturbed(&store) {
            Ok(wanted) => wanted,
            Err(why) => {
                report.violations.push(why);
                return report;
            }
        };
        for seed in seeds {
            let dice = Dice::new(seed);
            // Somebody who is held up is often held up for long.
            let slow = dice.below(4);
            let found = self.play(&wanted, store(), |ready, _| {
                let place = dice.below(ready.len());
                if place == slow {
                    dice.below(ready.len())
                } else {
                    place
                }
            });
            report.orders += 1;
            let found = found.into_iter();
            let found = found.map(|what| format!("[HELIX_SEED={seed}] {what}"));
            report.violations.extend(found);
        }
        report
    }

    fn undisturbed(&self, store: impl Fn() -> Backend) -> Result<Wanted, String> {
        block_on(CrashTest::new(self.scenario.clone()).undisturbed(store()))
    }

    fn play(
        &self,
        wanted: &Wanted,
        durable: Backend,
        choose: impl FnMut(&[TaskId], Option<TaskId>) -> usize,
    ) -> Vec<String> {
        let clock = VirtualClock::new(Timestamp::from_millis(1_700_000_000_000));
        let clock = Arc::new(clock);
        let mut scheduler = Scheduler::new(Arc::clone(&clock), MAX_POLLS);
        let spawner = scheduler.spawner();
        let seen = Arc::new(CommitChecks::of(&durable));
        let mut schedule = Schedule::calm();
        schedule.eager = self.answers;
        let context = Arc::new(ScheduleContext::set(
            &self.scenario,
            Hosting::Plain,
            durable,
            &clock,
            &spawner,
            schedule,
            Some(Arc::clone(&seen) as Arc<dyn CommitObserver>),
        ));
        if let Err(why) = self.begin(&context) {
            return vec![why];
        }
        let rest = scheduler.run_by(choose);
        if rest == SchedulerOutcome::Over {
            supervisor::begin(&context);
        }
        let rest = match rest {
            SchedulerOutcome::Over => scheduler.run_by(|_, _| 0),
            rest => rest,
        };
        drop(scheduler);
        let mut all = final_checks::violations_at_the_end(&context, rest, wanted);
        if let Ok(stored) = context.stored() {
            all.extend(seen.flaws(&stored));
        }
        all
    }

    /// Begins the turn, and starts all tasks.
    fn begin(&self, context: &Arc<ScheduleContext>) -> Result<(), String> {
        let spawner = &context.spawner;
        let session = context.world.session.clone();
        let process = context.process();
        let message = self.scenario.turns.first().cloned().unwrap_or_default();
        let execute = ExecuteRequest::new(&process.agent, message).in_session(session);
        let begun = block_on(context.calm_entries().execute(execute, &process.performer));
        let state = begun.map_err(|error| format!("an entry was refused: {error}"))?;
        spawner.spawn(async move {
            let ports = process.ports.clone().remembering();
            // It is held to nothing: another one may take over at any moment.
            drop(drive_on(&crate::PlainHost, &process.facts, state, &ports).await);
        });
        if self.takes_over {
            let context = Arc::clone(context);
            spawner.spawn(async move { take_over(&context).await });
        }
        if self.answers {
            let context = Arc::clone(context);
            spawner.spawn(async move { answer(&context).await });
        }
        if let Some(kind) = self.stops {
            let context = Arc::clone(context);
            spawner.spawn(async move { stop(&context, kind).await });
        }
        Ok(())
    }
}

async fn take_over(context: &ScheduleContext) {
    let process = context.process();
    let session = &context.world.session;
    let recovered = process.entries.recover(session, &process.performer).await;
    match recovered {
        Ok(state) => {
            let ports = process.ports.clone().remembering();
            let driven = drive_on(&crate::PlainHost, &process.facts, state, &ports).await;
            if let Err(error) = driven {
                let flaw = format!("the executor that took over was refused: {error}");
                context.ledger().violations.push(flaw);
            }
        }
        Err(EntryError::NotRunning { .. }) => {}
        Err(error) => {
            let flaw = format!("a take-over was refused: {error}");
            context.ledger().violations.push(flaw);
        }
    }
}

async fn answer(context: &ScheduleContext) {
    for _ in 0..2 {
        let query = PendingQuery {
            root: Some(context.world.session.clone()),
            page: Page::ALL,
            ..PendingQuery::default()
        };
        let Ok(pending) = context.flaky().store.pending(&query).await else {
            return;
        };
        for call in pending.items {
            match context.answer(&call).await {
                Ok(_) => {}
                Err(error) if is_temporary(&error) => {}
                Err(error) => {
                    let flaw = format!("an answer was refused: {error}");
                    context.ledger().violations.push(flaw);
                }
            }
        }
    }
}

async fn stop(context: &ScheduleContext, kind: StopKind) {
    let sessions = Sessions::new(context.flaky().store.as_ref(), context.clock.as_ref());
    let asked = sessions
        .request_stop(&context.world.session, kind, None)
        .await;
    let mut ledger = context.ledger();
    match asked {
        Ok(None) => {}
        Ok(Some(run)) => {
            if context.is_of_root(&run) {
                ledger.stops.push((run, kind));
            }
            ledger.stop = WriteOutcome::Yes;
        }
        Err(error) => {
            let flaw = format!("a stop was refused: {error}");
            ledger.violations.push(flaw);
        }
    }
}
