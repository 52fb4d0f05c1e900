//! One play of a scenario, with its kills.

mod later;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::entries::{EntryError, ExecuteRequest, ToolAnswer};
use helix_agents_core::machine::RunState;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{PendingCall, RunStatus, StopKind, SubmissionOutcome};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{CallId, SessionId};

use self::later::HALTING_TOOL;
use super::compare::Stored;
use super::durable_work::DurableWork;
use super::killable_host::KillableHost;
use super::observer::{ObservedCounts, Observer};
use super::people::{Moment, People, is_out_of_budget, is_stopped};
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
    /// Whether the session was there.
    has_begun: bool,
    last_answer: Option<ToolAnswer>,
    /// The answers to calls of a run that was stopped before they were given.
    late_answers: Vec<ToolAnswer>,
    /// The calls that people were asked.
    asked: BTreeMap<CallId, PendingCall>,
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
            people: People::new(&scenario.stops, &scenario.texts).deleting(scenario.deletes),
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
            has_begun: false,
            last_answer: None,
            late_answers: Vec::new(),
            asked: BTreeMap::new(),
        }
    }

    async fn stored(&self) -> Result<Stored, String> {
        let stored = Stored::read(&self.durable, &self.world.session).await;
        stored.map_err(|error| format!("the store cannot be read: {error}"))
    }

    /// The outcome of this play, which was not disturbed.
    pub(super) async fn wanted(&self) -> Result<Wanted, String> {
        let stored = self.stored().await?;
        if self.scenario.deletes {
            if let Some(flaw) = self.flaws_of_a_deletion().await.first() {
                return Err(format!("undisturbed: {flaw}"));
            }
            return Ok(Wanted {
                points: self.points,
                seen: self.observer.seen(),
                stored,
            });
        }
        if let Some(flaw) = stored.flaws_at_the_end().first() {
            return Err(format!("undisturbed: {flaw}"));
        }
        let people = &self.world.people;
        if let Some(flaw) = people.unmet(&stored.runs).first() {
            return Err(format!("undisturbed: {flaw}"));
        }
        if let Some(flaw) = people.texts.unmet(&stored).first() {
            return Err(format!("undisturbed: {flaw}"));
        }
        if self.scenario.raises.is_some() && !stored.runs.iter().any(is_out_of_budget) {
            return Err("undisturbed: no budget has paused the session".to_owned());
        }
        let (cuts, wanted) = (stored.cut_replies(), people.planned_cuts());
        let keeps_cuts = !self.scenario.rewinds() && self.scenario.texts.is_empty();
        if cuts != wanted && keeps_cuts {
            return Err(format!(
                "undisturbed: {cuts} replies were cut off, not {wanted}"
            ));
        }
        let state = stored.session.as_ref().map(|one| &one.state.custom_state);
        if let (Some(wanted), Some(state)) = (&self.scenario.leaves, state)
            && wanted != state.as_ref()
        {
            return Err(format!("undisturbed: the state is {state}, not {wanted}"));
        }
        let told = stored.times_told();
        if self.scenario.tells.is_some_and(|wanted| wanted != told) {
            return Err(format!(
                "undisturbed: the model was told of {told} things by the framework"
            ));
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

    /// Takes the next action of the scenario, which what is stored decides.
    async fn next(&mut self, process: &Process, disturbance: &Disturbance) -> ProcessEnd {
        let stored = match self.stored().await {
            Ok(stored) => stored,
            Err(why) => return ProcessEnd::Failed(why),
        };
        self.has_begun |= stored.session.is_some();
        if self.scenario.deletes && self.has_begun && stored.session.is_none() {
            return ProcessEnd::Over;
        }
        if let Some(end) = self.attend(process, &stored).await {
            return end;
        }
        if let Some(end) = self.act_later(process, &stored).await {
            return end;
        }
        let session = &self.world.session;
        let due = self.world.people.due(&stored.runs);
        let last = stored.runs.last();
        let driven = match last.map(|run| run.status) {
            Some(RunStatus::Running) => {
                // A call that was begun is not begun again, so nobody waits for that moment.
                let due = due.filter(|_| stored.has_open_call(HALTING_TOOL));
                if self.scenario.deletes && stored.has_open_call(HALTING_TOOL) {
                    return match process.world.deletes().await {
                        Ok(()) => ProcessEnd::Continues,
                        Err(error) => ProcessEnd::Failed(format!("it was not deleted: {error}")),
                    };
                }
                if let Some(stop) = due.filter(|stop| stop.moment == Moment::MidTool)
                    && let Err(why) = asks_to_stop(process, stop.kind).await
                {
                    return ProcessEnd::Failed(why);
                }
                process.entries.recover(session, &process.performer).await
            }
            Some(status) if status.is_suspended() && !stored.is_asked_to_stop() => {
                let open = self.unanswered(&stored, disturbance.backwards);
                if let Some(stop) = due.filter(|stop| stop.moment == Moment::Suspended) {
                    return self.stop_suspended(process, stop.kind, &open).await;
                }
                if let Some(call) = open.first() {
                    return self.submit(process, call).await;
                }
                process.entries.resume(session, &process.performer).await
            }
            Some(status) if status.is_suspended() => {
                process.entries.resume(session, &process.performer).await
            }
            Some(RunStatus::Interrupted) if last.is_some_and(is_out_of_budget) => {
                self.raise_budget(process).await
            }
            Some(RunStatus::Interrupted)
                if last.is_some_and(|run| self.scenario.resumes_turn(run.turn)) =>
            {
                process.entries.resume(session, &process.performer).await
            }
            _ => {
                if let Err(why) = self.submit_late(process).await {
                    return ProcessEnd::Failed(why);
                }
                match self.scenario.turns.get(stored.turns_begun()) {
                    None => return ProcessEnd::Over,
                    Some(message) => {
                        let execute = ExecuteRequest::new(&process.agent, message.as_str());
                        // As a runtime does: the start reserves the first model call.
                        let completed =
                            execute.in_session(session.clone()).complete(&process.ports);
                        let Ok((_, execute)) = completed else {
                            return ProcessEnd::Failed("a start was not completed".to_owned());
                        };
                        let begun = process.entries.execute(execute, &process.performer).await;
                        self.has_begun |= begun.is_ok();
                        begun
                    }
                }
            }
        };
        self.driven(process, driven).await
    }

    /// Performs a run that an entry started.
    async fn driven(&self, process: &Process, begun: Result<RunState, EntryError>) -> ProcessEnd {
        match begun {
            Err(error) => ProcessEnd::Failed(format!("an entry was refused: {error}")),
            Ok(state) => self.drive(process, state).await,
        }
    }

    /// Answers a pending call.
    async fn submit(&mut self, process: &Process, call: &PendingCall) -> ProcessEnd {
        let answer = self.scenario.answer(call);
        self.last_answer = Some(answer.clone());
        match process.entries.submit(&answer).await {
            Ok(submitted) if submitted.outcome == SubmissionOutcome::Accepted => {
                ProcessEnd::Continues
            }
            other => ProcessEnd::Failed(format!("an answer was not accepted: {other:?}")),
        }
    }

    /// Stops a suspended run, and keeps the answers to its calls for later.
    async fn stop_suspended(
        &mut self,
        process: &Process,
        kind: StopKind,
        open: &[PendingCall],
    ) -> ProcessEnd {
        self.late_answers = open.iter().map(|call| self.scenario.answer(call)).collect();
        match asks_to_stop(process, kind).await {
            Ok(()) => ProcessEnd::Continues,
            Err(why) => ProcessEnd::Failed(why),
        }
    }

    /// Submits the answers to calls of a run that was stopped before, which nobody takes any more.
    async fn submit_late(&self, process: &Process) -> Result<(), String> {
        for answer in &self.late_answers {
            match process.entries.submit(answer).await {
                Ok(late) if late.outcome == SubmissionOutcome::UnknownToolCall => {}
                other => return Err(format!("an answer after a stop was not refused: {other:?}")),
            }
        }
        Ok(())
    }

    async fn drive(&self, process: &Process, state: RunState) -> ProcessEnd {
        let host = KillableHost {
            host: self.host,
            switch: &self.world.switch,
        };
        match drive_on(&host, &process.facts, state, &process.ports).await {
            Ok(state) if state.is_ended() => ProcessEnd::Continues,
            Ok(state) => ProcessEnd::Failed(format!("the run has stalled: {state:?}")),
            // The session is gone.
            Err(error) if self.scenario.deletes && error.is_superseded() => ProcessEnd::Continues,
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
            Meddling::Resume
                if !status.is_some_and(|status| {
                    status == RunStatus::Interrupted || status.is_suspended()
                }) =>
            {
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
        let seen = self.observer.seen();
        if self.scenario.deletes {
            let mut all = self.flaws_of_a_deletion().await;
            for (call, (count, _)) in &seen.starts {
                let undisturbed = wanted.seen.starts.get(call).map_or(0, |(count, _)| *count);
                if *count > undisturbed {
                    all.push(format!("call {call} was run {count} times"));
                }
            }
            return all;
        }
        let mut all = stored.flaws_at_the_end();
        let allowed = match self.scenario.rewinds() {
            true => wanted.seen.asked.clone(),
            false => BTreeMap::new(),
        };
        for autopsy in &self.deaths {
            all.extend(autopsy.repetitions(&seen, &allowed));
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
            // A stopped run does not run them again.
            let is_stopped = stored.runs.iter().any(is_stopped);
            let repeatable =
                |call: &&CallId| !is_stopped && seen.starts.get(*call).is_some_and(|(_, may)| *may);
            for call in unknown.iter().filter(repeatable) {
                all.push(format!(
                    "call {call} may be run again, but was left unknown"
                ));
            }
            unsure.extend(unknown);
        }
        all.extend(stored.differences(&wanted.stored, &unsure));
        all.extend(self.world.people.unmet(&stored.runs));
        all.extend(self.world.people.texts.unmet(&stored));
        let (accepted, failures) = (self.world.people.accepted(), wanted.stored.failures());
        all.extend(stored.flaws_of_the_stops(&accepted, &failures));
        all
    }
}

/// Asks the run to stop, which it must be able to.
async fn asks_to_stop(process: &Process, kind: StopKind) -> Result<(), String> {
    match process.world.asks_to_stop(kind).await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(format!("a stop ({kind:?}) found nothing to stop")),
        Err(error) => Err(format!("a stop ({kind:?}) was refused: {error}")),
    }
}

pub(super) fn session() -> SessionId {
    // A constant text that is an id; the fallback is never taken.
    match SessionId::new("conversation") {
        Ok(session) => session,
        Err(error) => unreachable!("{error}"),
    }
}
