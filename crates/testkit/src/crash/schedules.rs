//! Random schedules: faults and actions of others during a run, at moments that a seed decides.

mod commit_checks;
mod context;
mod final_checks;
mod history_log;
mod interference;
mod interleavings;
mod operation;
mod orders;
mod rivals;
mod schedule;
mod supervisor;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use helix_agents_core::runtime::Backend;
use helix_agents_core::time::Timestamp;

use self::commit_checks::CommitChecks;
use self::context::ScheduleContext;
pub use self::interleavings::{InterleavingReport, Interleavings};
use self::schedule::Schedule;
use super::play::Wanted;
use super::{CrashTest, Scenario};
use crate::unreliable::CommitObserver;
use crate::{Scheduler, SchedulerOutcome, VirtualClock, block_on, scenarios};

/// The most polls of the tasks of one schedule; one that needs more counts as endless.
const MAX_POLLS: usize = 300_000;

/// The host on which schedules are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hosting {
    /// [`PlainHost`](crate::PlainHost), with a memory of what it read.
    Plain,
    /// [`AmnesiacHost`](crate::AmnesiacHost), which reads everything from the store.
    Amnesiac,
    /// [`CrowdedHost`](crate::CrowdedHost), which performs each effect up to three times and tells
    /// which attempt is the first.
    Crowded,
    /// [`CrowdedHost::untold`](crate::CrowdedHost::untold), which does not tell which attempt is
    /// the first.
    CrowdedUntold,
}

/// Plays scenarios by random schedules: a store that fails, delays and loses answers, processes that
/// die or only seem to, attempts that come late, answers that come twice and early, stops, and messages
/// appended beside the run. A seed decides all of it, and also the scenario.
///
/// [`Schedules::check`] and [`Schedules::play`] block until all is played, so a plain `#[test]` calls
/// them. They have a scheduler of their own, and wait for each call of the store on their thread: no
/// runtime is needed, and no `block_on` is given. A store that needs a tokio runtime finds the one that
/// the test has entered; a driver with sockets needs one with worker threads.
///
/// ```
/// use helix_agents_core::memory::MemoryStore;
/// use helix_agents_testkit::crash::{Hosting, Schedules};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let _entered = runtime.enter();
/// let store = || async { MemoryStore::new().into() };
/// Schedules::new(Hosting::Plain).check("memory", 3, store);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Schedules {
    scenarios: Vec<Scenario>,
    hosting: Hosting,
    rivals: bool,
}

/// The result of playing schedules.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ScheduleReport {
    /// The number of schedules that were played.
    pub played: usize,
    /// The number of processes that died, or seemed to.
    pub kills: usize,
    /// The number of answers, stops and added messages that were accepted.
    pub accepted: usize,
    /// The violations of each seed, one sentence each.
    pub violations: Vec<(u64, Vec<String>)>,
}

impl Schedules {
    /// Plays all scenarios of the test kit on this host.
    #[must_use]
    pub fn new(hosting: Hosting) -> Self {
        Self {
            scenarios: scenarios::all(),
            hosting,
            rivals: false,
        }
    }

    /// Plays these scenarios instead of all.
    #[must_use]
    pub fn of(mut self, scenarios: Vec<Scenario>) -> Self {
        self.scenarios = scenarios;
        self
    }

    /// Lets two processes send messages, answer, time out, resume, retry, rewind, take over, stop and crash at
    /// random, instead of playing the turns of the scenarios. Only their agents are used, and the stops that
    /// they plan; agents with deadlines, and one that fails until it is retried, are added.
    ///
    /// Every commit must leave a valid history and at most one run, and must not use the id of a removed call
    /// again. In the end every message and answer that was accepted was in the history once, every stop that
    /// was accepted stopped its run, and a call that has timed out has no other result.
    #[must_use]
    pub fn rivals(mut self) -> Self {
        self.scenarios.extend(scenarios::of_rivals());
        self.rivals = true;
        self
    }

    /// Plays a schedule for each seed, each in a store of its own. The seeds begin at `HELIX_SEED`,
    /// or 1; their number is `HELIX_SCHEDULES`, or `count`.
    ///
    /// # Panics
    /// When a schedule has violations. The message names its seed, and how to play it again.
    #[expect(clippy::panic, reason = "this is how a test fails")]
    #[expect(clippy::print_stderr, reason = "a test says what it tried")]
    pub fn check<F, Fut>(&self, named: &str, count: usize, store: F)
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Backend>,
    {
        let first = from_environment("HELIX_SEED").unwrap_or(1);
        let count = from_environment("HELIX_SCHEDULES").unwrap_or(count as u64);
        let hosting = self.hosting;
        eprintln!("HELIX_SEED={first} HELIX_SCHEDULES={count} ({named}, {hosting:?})");
        let report = self.play(first..first.saturating_add(count), store);
        let ScheduleReport {
            played,
            kills,
            accepted,
            violations,
        } = &report;
        eprintln!(
            "{played} schedules, {kills} kills, {accepted} answers, stops and messages accepted"
        );
        if violations.is_empty() {
            return;
        }
        let broken = violations.len();
        let shown = violations.iter().take(20);
        let all: Vec<_> = shown
            .map(|(seed, what)| {
                let (scenario, what) = (self.scenario(*seed).name(), what.join("\n      "));
                format!("HELIX_SEED={seed} HELIX_SCHEDULES=1 ({scenario}, {named}, {hosting:?}):\n      {what}")
            })
            .collect();
        let all = all.join("\n  ");
        panic!("{broken} of {played} schedules have violations; play one again with:\n  {all}");
    }

    /// Plays a schedule for each seed, each in a store of its own.
    pub fn play<F, Fut>(&self, seeds: impl Iterator<Item = u64>, store: F) -> ScheduleReport
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Backend>,
    {
        let mut report = ScheduleReport::default();
        let mut wanted: BTreeMap<String, Arc<Wanted>> = BTreeMap::new();
        for seed in seeds {
            report.played += 1;
            let scenario = self.scenario(seed);
            let wanted = match wanted.get(scenario.name()) {
                Some(wanted) => Arc::clone(wanted),
                None => {
                    let test = CrashTest::new(scenario.clone());
                    let calm = block_on(async { test.undisturbed(store().await).await });
                    match calm {
                        Err(why) => {
                            report.violations.push((seed, vec![why]));
                            continue;
                        }
                        Ok(calm) => {
                            let calm = Arc::new(calm);
                            wanted.insert(scenario.name().to_owned(), Arc::clone(&calm));
                            calm
                        }
                    }
                }
            };
            let _guard = SeedOnPanic(seed);
            let found = self.play_one(seed, scenario, block_on(store()), &wanted, &mut report);
            if !found.is_empty() {
                report.violations.push((seed, found));
            }
        }
        report
    }

    fn scenario(&self, seed: u64) -> &Scenario {
        let count = u64::try_from(self.scenarios.len()).unwrap_or(u64::MAX);
        let place = usize::try_from(seed % count.max(1)).unwrap_or_default();
        match self.scenarios.get(place) {
            Some(scenario) => scenario,
            None => unreachable!("there are no scenarios"),
        }
    }

    fn play_one(
        &self,
        seed: u64,
        scenario: &Scenario,
        durable: Backend,
        wanted: &Wanted,
        report: &mut ScheduleReport,
    ) -> Vec<String> {
        let clock = VirtualClock::new(Timestamp::from_millis(1_700_000_000_000));
        let clock = Arc::new(clock);
        let schedule = Schedule::draw(seed);
        let mut scheduler = Scheduler::new(Arc::clone(&clock), MAX_POLLS);
        let spawner = scheduler.spawner();
        let order = schedule.dice.fork();
        let checks = self.rivals.then(|| Arc::new(CommitChecks::of(&durable)));
        let context = ScheduleContext::set(
            &self.played(scenario),
            self.hosting,
            durable,
            &clock,
            &spawner,
            schedule,
            checks
                .clone()
                .map(|checks| checks as Arc<dyn CommitObserver>),
        );
        let context = Arc::new(context);
        if self.rivals {
            rivals::begin(&context);
        } else {
            interference::begin(&context);
            supervisor::begin(&context);
        }
        // What comes late comes to its end, too, before anybody looks.
        let mut rest = scheduler.run(&order);
        if self.rivals && rest == SchedulerOutcome::Over {
            // What the rivals left is brought to its end.
            supervisor::begin(&context);
            rest = scheduler.run(&order);
        }
        drop(scheduler);
        report.add(&context);
        let Some(checks) = checks else {
            return final_checks::violations_at_the_end(&context, rest, wanted);
        };
        final_checks::violations_of_rivals(&context, rest, wanted, &checks)
    }

    /// The scenario as it is played: rivals have messages of their own.
    fn played(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        if self.rivals {
            scenario.turns.clear();
            scenario.texts.clear();
        }
        scenario
    }
}

impl ScheduleReport {
    fn add(&mut self, context: &ScheduleContext) {
        let ledger = context.ledger();
        let messages = ledger.messages.values();
        let messages = messages.filter(|outcome| outcome.is_certain()).count();
        let stops = ledger.stops.len() + context.world.people.accepted().len();
        self.kills += ledger.kills;
        self.accepted +=
            ledger.answers.len() + stops + messages + usize::from(ledger.appended.is_certain());
    }
}

/// Prints the seed of a schedule that panics.
struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    #[expect(clippy::print_stderr, reason = "a test says where it failed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(seed) = self;
            eprintln!("a panic in the schedule HELIX_SEED={seed} HELIX_SCHEDULES=1");
        }
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
