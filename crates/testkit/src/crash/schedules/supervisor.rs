//! Plays a scenario to its end, and starts a new process whenever one dies.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helix_agents_core::entries::{EntryError, ExecuteRequest};
use helix_agents_core::machine::RunState;
use helix_agents_core::notify::Notify;
use helix_agents_core::session::{PendingCall, RunStatus, StopKind, SubmissionOutcome};
use helix_agents_core::store::{SessionKey, Snapshot, StoreError};
use helix_agents_core::time::Clock;

use super::context::{Attempts, ScheduleContext, is_temporary};
use super::schedule::Kill;
use crate::crash::Moment;
use crate::crash::process::{LEASE, Process};
use crate::host::{drive_child, drive_on};
use crate::{TaskId, yields};

/// The most rounds of a play; one that needs more counts as endless.
const MAX_ROUNDS: usize = 64;

/// Starts the task that plays the scenario to its end.
pub(super) fn begin(context: &Arc<ScheduleContext>) {
    let directed = Arc::clone(context);
    let spawner = &context.spawner;
    spawner.spawn(async move { supervise(&directed).await });
}

/// Plays the scenario to its end.
async fn supervise(context: &Arc<ScheduleContext>) {
    let mut ended = Err(format!("the play did not end within {MAX_ROUNDS} rounds"));
    for _ in 0..MAX_ROUNDS {
        match next(context).await {
            Ok(true) => {}
            Ok(false) => {
                ended = Ok(());
                break;
            }
            Err(why) => {
                ended = Err(why);
                break;
            }
        }
    }
    let mut ledger = context.ledger();
    ledger.over = true;
    ledger.violations.extend(ended.err());
}

/// Takes the next action of the scenario. Returns false when there is none left.
async fn next(context: &Arc<ScheduleContext>) -> Result<bool, String> {
    let session = &context.world.session;
    let stored = context.stored()?;
    let last = stored.runs.last();
    let process = context.process();
    let is_running = last.is_some_and(|run| run.status == RunStatus::Running);
    if !is_running && last.is_some() {
        if let Some(found) = stored.unattended() {
            return attend(context, process, found.clone()).await;
        }
        if let Some(found) = context.left_behind()? {
            return attend(context, process, found).await;
        }
    }
    let begun = match last.map(|run| run.status) {
        Some(RunStatus::Running) => recover(context, &process).await,
        Some(status) if status.is_suspended() && !stored.is_asked_to_stop() => {
            let due = context.world.people.due(&stored.runs);
            if let Some(stop) = due.filter(|stop| stop.moment == Moment::Suspended) {
                return stop_suspended(context, &process, stop.kind).await;
            }
            if let Some(call) = stored.unanswered(false).first() {
                return answer(context, call).await;
            }
            process.entries.resume(session, &process.performer).await
        }
        // It was asked to stop, and continues only to end.
        Some(status) if status.is_suspended() => {
            process.entries.resume(session, &process.performer).await
        }
        Some(status) if !status.is_suspended() && stored.has_waiting_messages() => {
            process
                .entries
                .deliver(&process.agent, session, &process.performer)
                .await
        }
        // The run was stopped: the turn is continued, or the user sends the next message.
        Some(RunStatus::Interrupted)
            if last.is_some_and(|run| context.scenario.resumes_turn(run.turn))
                || context.dice.chance(500) =>
        {
            process.entries.resume(session, &process.performer).await
        }
        _ => match context.scenario.turns.get(stored.turns_begun()) {
            None => return Ok(false),
            Some(message) => {
                let execute = ExecuteRequest::new(&process.agent, message.as_str());
                let execute = execute.in_session(session.clone());
                process.entries.execute(execute, &process.performer).await
            }
        },
    };
    match begun {
        Ok(state) => drive(context, process, state).await.map(|()| true),
        // It was begun or not; who looks again knows.
        Err(error) if is_temporary(&error) => {
            wait(context).await;
            Ok(true)
        }
        // It came to its end under the hands of a process that was given up.
        Err(EntryError::NotRunning { .. }) => Ok(true),
        Err(error) => Err(format!("an entry was refused: {error}")),
    }
}

/// Attends to a session under the root that nobody waits for, as a sweeper does.
async fn attend(
    context: &Arc<ScheduleContext>,
    mut process: Process,
    mut found: Snapshot,
) -> Result<bool, String> {
    context.clock.advance(LEASE + Duration::from_secs(1));
    let session = found.state.session_id.clone();
    let run = found.run.as_ref().map(|run| run.status);
    if run.is_some_and(RunStatus::is_suspended) {
        let resumed = process.entries.resume(&session, &process.performer).await;
        match resumed {
            Ok(_) => {}
            Err(error) if is_temporary(&error) => {
                wait(context).await;
                return Ok(true);
            }
            Err(EntryError::AlreadyRunning { .. }) => return Ok(true),
            Err(error) => return Err(format!("{session} does not go on: {error}")),
        }
        let key = SessionKey::new(&context.world.session, &session);
        match process.ports.store.load(key).await {
            Ok(Some(now)) => found = now,
            // Who looks again knows.
            _ => return Ok(true),
        }
    }
    let (host, _) = context.host(&mut process);
    match drive_child(host.as_ref(), found, &process.ports).await {
        Ok(()) => Ok(true),
        Err(error) => {
            let code = helix_agents_core::error::Coded::code(&error);
            Err(format!(
                "an effect of {session} has no event ({code}): {error}"
            ))
        }
    }
}

/// Answers a call, perhaps twice.
async fn answer(context: &ScheduleContext, call: &PendingCall) -> Result<bool, String> {
    let times = if context.twice { 2 } else { 1 };
    for _ in 0..times {
        match context.answer(call).await {
            Ok(
                SubmissionOutcome::Accepted
                | SubmissionOutcome::AlreadyCompleted
                | SubmissionOutcome::LateAnswerAfterTimeout,
            ) => {}
            Err(error) if is_temporary(&error) => wait(context).await,
            other => return Err(format!("an answer was not accepted: {other:?}")),
        }
    }
    Ok(true)
}

/// Asks a suspended run to stop.
async fn stop_suspended(
    context: &ScheduleContext,
    process: &Process,
    kind: StopKind,
) -> Result<bool, String> {
    match process.world.asks_to_stop(kind).await {
        Ok(Some(_)) => Ok(true),
        Ok(None) => Err(format!("a stop ({kind:?}) found nothing to stop")),
        // It was asked or not; who looks again knows.
        Err(StoreError::Unavailable { .. }) => {
            wait(context).await;
            Ok(true)
        }
        Err(error) => Err(format!("a stop ({kind:?}) was refused: {error}")),
    }
}

/// Lets a moment pass before something is tried again.
async fn wait(context: &ScheduleContext) {
    let until = context.clock.now().saturating_add(Duration::from_secs(1));
    context.clock.sleep_until(until).await;
}

/// Takes a run over from a process that is gone, or seems to be.
async fn recover(context: &ScheduleContext, process: &Process) -> Result<RunState, EntryError> {
    let session = &context.world.session;
    // Nobody waits for a process that is gone longer than its lease.
    context.clock.advance(LEASE + Duration::from_secs(1));
    let is_first = !std::mem::replace(&mut context.ledger().taken_over, true);
    if is_first {
        match process.entries.recover(session, &process.performer).await {
            // It may have been made all the same: then the lease is this process's own.
            Err(error) if is_temporary(&error) => {
                context.clock.advance(LEASE + Duration::from_secs(1));
            }
            other => return other,
        }
    }
    // A run that is taken over again and again without getting anywhere is given up. That is not what
    // is played here, so a take-over is not lost twice.
    let entries = context.calm_entries();
    entries.recover(session, &process.performer).await
}

/// How a process ended.
enum Ending {
    Over(Box<Result<RunState, String>>),
    /// The process died, or is believed to be dead.
    Gone,
}

#[derive(Clone, Default)]
struct ProcessEnd {
    life: Arc<Mutex<Option<Ending>>>,
    bell: Notify,
}

impl ProcessEnd {
    /// The first end counts.
    fn set_end(&self, life: Ending) -> bool {
        let mut process_end = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = process_end.is_none();
        if is_first {
            *process_end = Some(life);
        }
        drop(process_end);
        self.bell.ring();
        is_first
    }

    fn is_filled(&self) -> bool {
        let process_end = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        process_end.is_some()
    }

    async fn take(&self) -> Option<Ending> {
        loop {
            let heard = self.bell.heard();
            if self.is_filled() {
                let mut process_end = self.life.lock().unwrap_or_else(PoisonError::into_inner);
                // What comes after this is nobody's concern, and is not put in here again.
                return process_end.replace(Ending::Gone);
            }
            heard.await;
        }
    }
}

/// Drives a run in a process of its own, to its end or to the end of the process.
async fn drive(
    context: &Arc<ScheduleContext>,
    mut process: Process,
    state: RunState,
) -> Result<(), String> {
    let (host, attempts) = context.host(&mut process);
    let process_end = ProcessEnd::default();
    let main = {
        let process_end = process_end.clone();
        context.spawner.spawn(async move {
            let driven = drive_on(host.as_ref(), &process.facts, state, &process.ports).await;
            let driven = driven.map_err(|error| {
                let code = helix_agents_core::error::Coded::code(&error);
                format!("an effect has no event ({code}): {error}")
            });
            process_end.set_end(Ending::Over(Box::new(driven)));
        })
    };
    if let Some(kill) = context.next_kill() {
        let (context, process_end) = (Arc::clone(context), process_end.clone());
        let spawner = context.spawner.clone();
        spawner.spawn(async move { end(&context, &process_end, kill, main, &attempts).await });
    }
    match process_end.take().await {
        Some(Ending::Over(driven)) => match *driven {
            Ok(state) if state.is_ended() => Ok(()),
            Ok(state) => Err(format!("the run has stalled: {state:?}")),
            Err(why) => Err(why),
        },
        Some(Ending::Gone) | None => Ok(()),
    }
}

/// Kills a process, or makes others believe that it is dead.
async fn end(
    context: &ScheduleContext,
    process_end: &ProcessEnd,
    kill: Kill,
    main: TaskId,
    attempts: &Attempts,
) {
    yields(kill.after).await;
    if process_end.is_filled() {
        return;
    }
    if !kill.survives {
        context.spawner.kill(main);
        // Other workers may survive.
        for attempt in attempts.all() {
            if context.dice.chance(500) {
                context.spawner.kill(attempt);
            }
        }
    }
    if process_end.set_end(Ending::Gone) {
        context.ledger().kills += 1;
    }
}
