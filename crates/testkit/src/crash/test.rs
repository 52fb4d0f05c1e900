//! Plays a scenario undisturbed, and then with kills.

use std::future::Future;
use std::sync::Arc;

use helix_agents_core::agent::{Agent, ModelRef};
use helix_agents_core::entries::ToolAnswer;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::PendingCall;

use super::play::{Play, Wanted};
use super::{CrashReport, Disturbance, Scenario};
use crate::{EveryTool, Host, PlainHost};

/// Plays a scenario, killed at every point.
///
/// ```
/// use helix_agents_testkit::block_on;
/// use helix_agents_testkit::crash::CrashTest;
/// # use helix_agents_core::{Agent, DefinitionError};
/// # let support = Agent::builder("support").model("anthropic/claude-sonnet-4-5").build()?;
///
/// // A model that is only named is replaced by one that calls every tool.
/// block_on(CrashTest::of(&support).says("Order 42 arrived broken.").assert_survives());
/// # Ok::<(), DefinitionError>(())
/// ```
#[derive(Clone)]
pub struct CrashTest {
    scenario: Scenario,
    host: Arc<dyn Host>,
}

impl std::fmt::Debug for CrashTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CrashTest")
            .field("scenario", &self.scenario)
            .finish_non_exhaustive()
    }
}

impl CrashTest {
    /// Creates a test of an agent: the user sends "Go.", every approval is given, and calls that
    /// wait for a client get an error. Use [`CrashTest::says`] and [`CrashTest::answers`] for other
    /// messages and answers.
    ///
    /// The agent's tools really run, many times. A model that is given by name is not called: a
    /// stand-in calls every tool once, with arguments generated from the tool's schema, and then
    /// finishes.
    #[must_use]
    pub fn of<Out>(agent: &Agent<Out>) -> Self {
        let agent = match agent.model() {
            ModelRef::Named(_) => agent.with_model(EveryTool).erase(),
            _ => agent.erase(),
        };
        let name = agent.name().to_owned();
        let scenario = Scenario::new(name, move |_| agent.clone()).approves();
        Self::new(scenario)
    }

    /// Adds a message of the user, sent when the turn before has ended.
    #[must_use]
    pub fn says(mut self, message: impl Into<String>) -> Self {
        self.scenario = self.scenario.says(message);
        self
    }

    /// Sets how pending calls of a tool are answered.
    #[must_use]
    pub fn answers(
        mut self,
        tool: impl Into<String>,
        reply: impl Fn(&PendingCall) -> ToolAnswer + Send + Sync + 'static,
    ) -> Self {
        self.scenario = self.scenario.answers(tool, reply);
        self
    }

    /// Kills the process at every point, each time with a fresh store in memory, and compares the
    /// outcome with that of an undisturbed play.
    ///
    /// # Panics
    /// When anything was lost, duplicated, run twice or left unpaired; the message names the kill
    /// point.
    pub async fn assert_survives(self) {
        let test = match self.scenario.turns.is_empty() {
            true => self.says("Go."),
            false => self,
        };
        let store = || async { MemoryStore::new().into() };
        test.every_point(store).await.check();
    }

    /// Creates a test of a scenario on a [`PlainHost`].
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            host: Arc::new(PlainHost),
        }
    }

    /// Replaces the host.
    #[must_use]
    pub fn on(mut self, host: impl Host + 'static) -> Self {
        self.host = Arc::new(host);
        self
    }

    /// Plays the scenario undisturbed, and then killed at every point, each time in a store of its
    /// own.
    pub async fn every_point<F, Fut>(&self, store: F) -> CrashReport
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Backend>,
    {
        self.at_points(store, |points| (1..=points).collect()).await
    }

    /// Plays the scenario undisturbed, and then killed at so many of its points, spread over it; at
    /// every point where `HELIX_EVERY_POINT` is set. `HELIX_SEED` decides which. For stores where a play takes its
    /// time.
    #[expect(clippy::print_stderr, reason = "a test says which points it tried")]
    pub async fn some_points<F, Fut>(&self, store: F, count: usize) -> CrashReport
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Backend>,
    {
        if std::env::var_os("HELIX_EVERY_POINT").is_some() {
            return self.every_point(store).await;
        }
        let seed = std::env::var("HELIX_SEED").ok();
        let seed: usize = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
        let sampled = |points: usize| {
            let spread = |sample| (seed.wrapping_mul(7) + sample * points / count) % points + 1;
            let sampled: Vec<usize> = (0..count.min(points)).map(spread).collect();
            eprintln!("HELIX_SEED={seed}: killed at the points {sampled:?} of {points}");
            sampled
        };
        self.at_points(store, sampled).await
    }

    async fn at_points<F, Fut>(
        &self,
        store: F,
        chosen: impl FnOnce(usize) -> Vec<usize>,
    ) -> CrashReport
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Backend>,
    {
        let mut report = CrashReport {
            scenario: self.scenario.name().to_owned(),
            points: 0,
            kills: 0,
            violations: Vec::new(),
        };
        let wanted = match self.undisturbed(store().await).await {
            Ok(wanted) => wanted,
            Err(why) => {
                report.violations.push(why);
                return report;
            }
        };
        report.points = wanted.points;
        for point in chosen(wanted.points) {
            let disturbance = Disturbance {
                kills: vec![point],
                ..Disturbance::default()
            };
            self.add(&mut report, store().await, &wanted, &disturbance)
                .await;
        }
        // A host that does too much without being killed is caught here.
        let calm = Disturbance::default();
        self.add(&mut report, store().await, &wanted, &calm).await;
        report
    }

    /// Plays the scenario under a disturbance.
    pub async fn disturbed<F, Fut>(&self, store: F, disturbance: &Disturbance) -> CrashReport
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Backend>,
    {
        let mut report = CrashReport {
            scenario: self.scenario.name().to_owned(),
            points: 0,
            kills: 0,
            violations: Vec::new(),
        };
        match self.undisturbed(store().await).await {
            Ok(wanted) => {
                report.points = wanted.points;
                let store = store().await;
                self.add(&mut report, store, &wanted, disturbance).await;
            }
            Err(why) => report.violations.push(why),
        }
        report
    }

    /// Plays the scenario once on a [`PlainHost`], without kills.
    pub(super) async fn undisturbed(&self, store: Backend) -> Result<Wanted, String> {
        let mut play = Play::new(&self.scenario, &PlainHost, store);
        play.until_over(&Disturbance::default()).await?;
        play.wanted().await
    }

    async fn add(
        &self,
        report: &mut CrashReport,
        store: Backend,
        wanted: &Wanted,
        disturbance: &Disturbance,
    ) {
        let mut play = Play::new(&self.scenario, self.host.as_ref(), store);
        let ended = play.until_over(disturbance).await;
        report.kills += play.deaths.len();
        let mut found = std::mem::take(&mut play.flaws);
        match ended {
            Err(why) => found.push(why),
            Ok(()) => found.extend(play.compared_with(wanted).await),
        }
        let place = play.places.join(", then ");
        let place = if place.is_empty() {
            "undisturbed"
        } else {
            &place
        };
        let violations = found.into_iter().map(|what| format!("[{place}] {what}"));
        report.violations.extend(violations);
    }
}
