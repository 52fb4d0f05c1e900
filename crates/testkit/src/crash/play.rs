//! One play of a scenario, with its kills.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::entries::{EntryError, ExecuteRequest};
use helix_agents_core::machine::RunState;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{RunStatus, RunTrigger, SubmissionOutcome};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{CallId, SessionId};

use super::compare::Stored;
use super::durable_work::DurableWork;
use super::killable_host::KillableHost;
use super::observer::{ObservedCounts, Observer};
use super::process::{LEASE, Process, World};
use super::{Disturbance, KillSwitch, Meddling, Scenario};
use crate::host::drive_on;
use crate::{Host, SequentialIds, VirtualClock};

/// The most processes of a play; one that needs more counts as endless.
const MAX_ROUNDS: usize = 64;

/// The outcome of an undisturbed play.
pub(super) struct Wanted {
    pub(super) points: usize,
    pub(super) seen: ObservedCounts,
    pub(super) stored: Stored,
}

/// A scenario that is being played on a store.
pub(super) struct Play<'a> {
    scenario: &'a Scenario,
    host: &'a dyn Host,
    durable: Backend,
    world: World,
    observer: Observer,
    pub(super) deaths: Vec<DurableWork>,
    pub(super) places: Vec<String>,
    pub(super) flaws: Vec<String>,
    points: usize,
    last_answer: Option<helix_agents_core::entries::ToolAnswer>,
}

/// How a process ended.
enum ProcessEnd {
    /// The scenario is over.
    Over,
    /// There is more to do.
    Continues,
    /// The process failed in an unexpected way.
    Failed(String),
}

impl<'a> Play<'a> {
    pub(super) fn new(scenario: &'a Scenario, host: &'a dyn Host, durable: Backend) -> Self {
        let switch = KillSwitch::default();
        let clock = VirtualClock::new(Timestamp::from_millis(1_700_000_000_000)).in_order();
        let world = World {
            backend: durable.clone(),
            switch,
            clock: Arc::new(clock),
            ids: Arc::new(SequentialIds::new()),
            session: session(),
        };
        Self {
            scenario,
            host,
            durable,
            world,
            observer: Observer::default(),
            deaths: Vec::new(),
            places: Vec::new(),
            flaws: Vec::new(),
            points: 0,
            last_answer: None,
        }
    }

    async fn stored(&self) -> Result<Stored, String> {
        let stored = Stored::read(&self.durable, &self.world.session).await;
        stored.map_err(|error| format!("the store cannot be read: {error}"))
    }

    /// The outcome of this play, which was not disturbed.
    pub(super) async fn wanted(&self) -> Result<Wanted, String> {
        let stored = self.stored().await?;
        if let Some(flaw) = stored.flaws_at_the_end().first() {
            return Err(format!("undisturbed: {flaw}"));
        }
        let state = stored.session.as_ref().map(|one| &one.state.custom_state);
        if let (Some(wanted), Some(state)) = (&self.scenario.leaves, state)
            && wanted != state.as_ref()
        {
            return Err(format!("undisturbed: the state is {state}, not {wanted}"));
        }
        Ok(Wanted {
            points: self.points,
            seen: self.observer.seen(),
            stored,
        })
    }

    /// Plays until every message is sent and every call is answered; the disturbance decides when
    /// processes die.
    pub(super) async fn until_over(&mut self, disturbance: &Disturbance) -> Result<(), String> {
        let switch = self.world.switch.clone();
        let mut meddling = disturbance.meddling.iter().copied();
        for number in 0..MAX_ROUNDS {
            switch.revive(disturbance.kills.get(number).copied());
            let process = Process::start(
                self.scenario,
                &self.world,
                &self.durable,
                &self.observer,
                number,
            );
            let life = async {
                loop {
                    if let Some(meddling) = meddling.next() {
                        self.meddle(&process, meddling).await;
                    }
                    match self.next(&process, disturbance).await {
                        ProcessEnd::Continues => {}
                        end => return end,
                    }
                }
            };
            let end = switch.live(life).await;
            self.points = switch.passed();
            match end {
                Some(ProcessEnd::Over) => return Ok(()),
                Some(ProcessEnd::Failed(why)) => return Err(why),
                Some(ProcessEnd::Continues) | None => {}
            }
            let place = switch.killed_at().unwrap_or_default();
            let stored = self.stored().await?;
            let flaws = stored.flaws().into_iter();
            self.flaws
                .extend(flaws.map(|flaw| format!("{flaw}, right after the kill")));
            let autopsy = DurableWork::new(place.clone(), &stored, self.observer.seen());
            self.deaths.push(autopsy);
            self.places.push(format!("killed {place}"));
            // Nobody waits for a process that is gone longer than its lease.
            self.world.clock.advance(LEASE + Duration::from_secs(1));
        }
        Err(format!(
            "the play did not end within {MAX_ROUNDS} processes"
        ))
    }

    /// Takes the next action of the scenario.
    async fn next(&mut self, process: &Process, disturbance: &Disturbance) -> ProcessEnd {
        let session = &self.world.session;
        let stored = match self.stored().await {
            Ok(stored) => stored,
            Err(why) => return ProcessEnd::Failed(why),
        };
        let executed = stored
            .runs
            .iter()
            .filter(|run| run.trigger == RunTrigger::Execute)
            .count();
        let status = stored.runs.last().map(|run| run.status);
        let driven = match status {
            Some(RunStatus::Running) => process.entries.recover(session, &process.performer).await,
            Some(status) if status.is_suspended() => {
                let snapshot = stored.session.as_ref();
                let pending = snapshot.map(|one| &one.state.pending_client_tool_calls);
                let mut open: Vec<_> = pending
                    .into_iter()
                    .flat_map(|pending| pending.values())
                    .filter(|call| call.answer.is_none())
                    .collect();
                if disturbance.backwards {
                    open.reverse();
                }
                if let Some(call) = open.first() {
                    let answer = self.scenario.answer(call);
                    self.last_answer = Some(answer.clone());
                    return match process.entries.submit(&answer).await {
                        Ok(submitted) if submitted.outcome == SubmissionOutcome::Accepted => {
                            ProcessEnd::Continues
                        }
                        other => {
                            ProcessEnd::Failed(format!("an answer was not accepted: {other:?}"))
                        }
                    };
                }
                process.entries.resume(session, &process.performer).await
            }
            _ => match self.scenario.turns.get(executed) {
                None => return ProcessEnd::Over,
                Some(message) => {
                    let execute = ExecuteRequest::new(&process.agent, message.as_str());
                    let execute = execute.in_session(session.clone());
                    process.entries.execute(execute, &process.performer).await
                }
            },
        };
        match driven {
            Err(error) => ProcessEnd::Failed(format!("an entry was refused: {error}")),
            Ok(state) => self.drive(process, state).await,
        }
    }

    async fn drive(&self, process: &Process, state: RunState) -> ProcessEnd {
        let host = KillableHost {
            host: self.host,
            switch: &self.world.switch,
        };
        match drive_on(&host, &process.facts, state, &process.ports).await {
            Ok(state) if state.is_ended() => ProcessEnd::Continues,
            Ok(state) => ProcessEnd::Failed(format!("the run has stalled: {state:?}")),
            Err(error) => ProcessEnd::Failed(format!("an effect has no event: {error}")),
        }
    }

    /// Takes an action that the scenario does not ask for. It is refused, or changes nothing.
    async fn meddle(&self, process: &Process, meddling: Meddling) {
        let session = &self.world.session;
        let refused = |result: Result<RunState, EntryError>| result.err();
        let stored = self.stored().await.ok();
        let runs = stored.iter().flat_map(|stored| &stored.runs);
        let status = runs.last().map(|run| run.status);
        match meddling {
            Meddling::AnswerAgain => {
                if let Some(answer) = &self.last_answer {
                    drop(process.entries.submit(answer).await);
                }
            }
            // Actions that would succeed are left to the play itself.
            Meddling::Resume if !matches!(status, Some(status) if status.is_suspended()) => {
                drop(refused(
                    process.entries.resume(session, &process.performer).await,
                ));
            }
            Meddling::Recover if status != Some(RunStatus::Running) => {
                drop(refused(
                    process.entries.recover(session, &process.performer).await,
                ));
            }
            Meddling::Execute
                if status.is_some_and(|status| {
                    status == RunStatus::Running || status.is_suspended()
                }) =>
            {
                let execute = ExecuteRequest::new(&process.agent, "Are you there?");
                let execute = execute.in_session(session.clone());
                drop(refused(
                    process.entries.execute(execute, &process.performer).await,
                ));
            }
            _ => {}
        }
    }

    /// The differences between the outcome and that of an undisturbed play.
    pub(super) async fn compared_with(&self, wanted: &Wanted) -> Vec<String> {
        let stored = match self.stored().await {
            Ok(stored) => stored,
            Err(why) => return vec![why],
        };
        let mut all = stored.flaws_at_the_end();
        let seen = self.observer.seen();
        for autopsy in &self.deaths {
            all.extend(autopsy.repetitions(&seen));
        }
        let mut unsure: BTreeSet<CallId> = BTreeSet::new();
        for (call, (count, may_repeat)) in &seen.starts {
            let undisturbed = wanted.seen.starts.get(call).map_or(0, |(count, _)| *count);
            if *count > undisturbed && (self.deaths.is_empty() || !may_repeat) {
                all.push(format!("call {call} was run {count} times"));
            }
            if !may_repeat && !self.deaths.is_empty() {
                unsure.insert(call.clone());
            }
        }
        if self.deaths.is_empty() && seen.asked != wanted.seen.asked {
            let (asked, wanted) = (&seen.asked, &wanted.seen.asked);
            all.push(format!(
                "the model was asked {asked:?} instead of {wanted:?}"
            ));
        }
        // A call that died before its tool was reached was never seen to start.
        let unknown = stored.unknown_results();
        if !self.deaths.is_empty() {
            let repeatable = |call: &&CallId| seen.starts.get(*call).is_some_and(|(_, may)| *may);
            for call in unknown.iter().filter(repeatable) {
                all.push(format!(
                    "call {call} may be run again, but was left unknown"
                ));
            }
            unsure.extend(unknown);
        }
        all.extend(stored.differences(&wanted.stored, &unsure));
        all
    }
}

pub(super) fn session() -> SessionId {
    // A constant text that is an id; the fallback is never taken.
    match SessionId::new("session-1") {
        Ok(session) => session,
        Err(error) => unreachable!("{error}"),
    }
}
