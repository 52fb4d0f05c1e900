//! Two processes that try random operations on one session, each whenever it likes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helix_agents_core::entries::{
    DoubleTexting, Entered, EntryError, ExecuteRequest, ResumeMode, ResumeRequest, ToolAnswer,
};
use helix_agents_core::error::{Coded, ErrorCode};
use helix_agents_core::machine::RunState;
use helix_agents_core::session::{PendingCall, PendingKind, StopKind, SubmissionOutcome};
use helix_agents_core::store::{Sessions, StoreError};
use helix_agents_core::time::Clock;

use super::context::{Attempts, ScheduleContext, WriteOutcome, is_temporary};
use super::operation::Operation;
use crate::crash::process::{LEASE, Process};
use crate::host::drive_on;
use crate::{Dice, TaskId, yields};

/// The most operations of a process.
const MOST: usize = 12;
/// Longer than the deadline of any tool of a scenario.
const DEADLINE: Duration = Duration::from_secs(900);

/// Starts both processes.
pub(super) fn begin(context: &Arc<ScheduleContext>) {
    for _ in 0..2 {
        let rival = Rival {
            context: Arc::clone(context),
            dice: context.dice.fork(),
            tasks: Vec::new(),
            attempts: Arc::default(),
        };
        context.spawner.spawn(rival.live());
    }
}

/// A process that serves several requests at once.
struct Rival {
    context: Arc<ScheduleContext>,
    dice: Dice,
    /// The requests since the process began.
    tasks: Vec<TaskId>,
    attempts: Arc<Mutex<Vec<Attempts>>>,
}

impl Rival {
    async fn live(mut self) {
        for _ in 0..=self.dice.below(MOST) {
            self.linger().await;
            match Operation::draw(&self.dice) {
                Operation::Crash => self.crash(),
                operation => self.begin(operation),
            }
        }
    }

    /// Lets the requests go on for a while.
    async fn linger(&self) {
        if self.dice.chance(200) {
            let millis = u64::try_from(self.dice.below(4000)).unwrap_or_default();
            let until = self.context.clock.now();
            let until = until.saturating_add(Duration::from_millis(millis));
            self.context.clock.sleep_until(until).await;
        }
        let most = if self.dice.chance(500) { 12 } else { 120 };
        yields(self.dice.below(most)).await;
    }

    fn begin(&mut self, operation: Operation) {
        let request = Request {
            context: Arc::clone(&self.context),
            dice: self.dice.fork(),
            attempts: Arc::clone(&self.attempts),
        };
        let task = request.perform(operation);
        self.tasks.push(self.context.spawner.spawn(task));
    }

    /// Ends all requests where they are. Workers elsewhere may go on.
    fn crash(&mut self) {
        let spawner = &self.context.spawner;
        let alive = self.tasks.drain(..).filter(|task| spawner.is_alive(*task));
        let alive: Vec<_> = alive.collect();
        self.context.ledger().kills += usize::from(!alive.is_empty());
        let attempts = std::mem::take(&mut *lock(&self.attempts));
        let attempts = attempts.iter().flat_map(Attempts::all);
        let workers = attempts.filter(|_| self.dice.chance(500));
        alive
            .into_iter()
            .chain(workers)
            .for_each(|task| spawner.kill(task));
    }
}

/// A request that a process serves.
struct Request {
    context: Arc<ScheduleContext>,
    dice: Dice,
    attempts: Arc<Mutex<Vec<Attempts>>>,
}

impl Request {
    async fn perform(self, operation: Operation) {
        let done = match operation {
            Operation::Execute => self.execute().await,
            Operation::Message => self.message().await,
            Operation::Deliver => self.deliver().await,
            Operation::Timeout => self.time_out().await,
            Operation::Retry => self.go_back(ResumeMode::Retry).await,
            Operation::Rewind => self.rewind().await,
            Operation::Submit => self.submit().await,
            Operation::Resume => self.resume().await,
            Operation::Recover => self.recover().await,
            Operation::Interrupt => self.stop(StopKind::Interrupt).await,
            Operation::Abort => self.stop(StopKind::Abort).await,
            Operation::Crash => Ok(()),
        };
        if let Err(why) = done {
            let flaw = format!("{operation:?}: {why}");
            self.context.ledger().violations.push(flaw);
        }
    }

    async fn execute(&self) -> Result<(), String> {
        let message = self.new_message();
        let process = self.context.process();
        let execute = ExecuteRequest::new(&process.agent, message.as_str());
        let execute = execute.in_session(self.context.world.session.clone());
        match process.entries.execute(execute, &process.performer).await {
            Ok(state) => {
                self.note(message, WriteOutcome::Yes);
                self.drive(process, state).await
            }
            Err(error) if is_temporary(&error) => Ok(()),
            Err(error) => {
                self.note(message, WriteOutcome::No);
                expected(&error)
            }
        }
    }

    /// A message that no other request sends.
    fn new_message(&self) -> String {
        let messages = &mut self.context.ledger().messages;
        let message = format!("Message {}", messages.len());
        messages.insert(message.clone(), WriteOutcome::Perhaps);
        message
    }

    /// Notes whether a message was accepted.
    fn note(&self, message: String, outcome: WriteOutcome) {
        self.context.ledger().messages.insert(message, outcome);
    }

    async fn message(&self) -> Result<(), String> {
        let message = self.new_message();
        let process = self.context.process();
        let rules = DoubleTexting::ALL;
        let rule = rules.get(self.dice.below(rules.len())).copied();
        let request = ExecuteRequest::new(&process.agent, message.as_str())
            .in_session(self.context.world.session.clone())
            .double_texting(rule.unwrap_or_default())
            .abandon_pending(self.dice.chance(300));
        match process.entries.send(request, &process.performer).await {
            Ok(Entered::Run(state)) => {
                self.note(message, WriteOutcome::Yes);
                self.drive(process, state).await
            }
            Ok(Entered::Waits(waiting)) => {
                self.note(message.clone(), WriteOutcome::Yes);
                self.context.ledger().told.push((message, waiting.run));
                Ok(())
            }
            Err(error) if is_temporary(&error) => Ok(()),
            Err(error) => {
                self.note(message, WriteOutcome::No);
                expected(&error)
            }
        }
    }

    async fn deliver(&self) -> Result<(), String> {
        let process = self.context.process();
        let session = &self.context.world.session;
        match process
            .entries
            .deliver(&process.agent, session, &process.performer)
            .await
        {
            Ok(state) => self.drive(process, state).await,
            Err(error) => expected(&error),
        }
    }

    async fn time_out(&self) -> Result<(), String> {
        if self.dice.chance(500) {
            self.context.ledger().jumps += 1;
            self.context.clock.advance(DEADLINE);
        }
        let session = self.context.world.session.as_root();
        match self.context.entries().expire(session).await {
            Ok(expired) => {
                self.context.ledger().expired.extend(expired.calls);
                Ok(())
            }
            Err(error) => expected(&error),
        }
    }

    async fn rewind(&self) -> Result<(), String> {
        let checkpoints = self.context.stored()?.checkpoints;
        let place = self.dice.below(checkpoints.len().max(1));
        match checkpoints.into_iter().nth(place) {
            Some(one) => self.go_back(ResumeMode::FromCheckpoint(one.id)).await,
            None => Ok(()),
        }
    }

    async fn go_back(&self, mode: ResumeMode) -> Result<(), String> {
        let process = self.context.process();
        let request = ResumeRequest::new(&self.context.world.session, mode);
        match process.entries.resume(request, &process.performer).await {
            Ok(state) => self.drive(process, state).await,
            Err(error) => expected(&error),
        }
    }

    async fn resume(&self) -> Result<(), String> {
        let process = self.context.process();
        let session = &self.context.world.session;
        match process.entries.resume(session, &process.performer).await {
            Ok(state) => self.drive(process, state).await,
            Err(error) => expected(&error),
        }
    }

    async fn recover(&self) -> Result<(), String> {
        let process = self.context.process();
        let session = &self.context.world.session;
        if self.dice.chance(500) {
            // It takes a process that is slow for one that is dead.
            self.context.clock.advance(LEASE + Duration::from_secs(1));
        }
        match process.entries.recover(session, &process.performer).await {
            Ok(state) => self.drive(process, state).await,
            Err(error) => expected(&error),
        }
    }

    /// Performs a run to its end, unless others take it over.
    async fn drive(&self, mut process: Process, state: RunState) -> Result<(), String> {
        let (run, fence) = (state.run_id.clone(), state.fence);
        let jumps = self.context.ledger().jumps;
        let (host, attempts) = self.context.host(&mut process);
        lock(&self.attempts).push(attempts);
        let driven = drive_on(host.as_ref(), &process.facts, state, &process.ports).await;
        let error = match driven {
            // Who ends the run starts the next one, or dies before.
            Ok(state) if state.messages_wait && self.dice.chance(700) => {
                return Box::pin(self.deliver()).await;
            }
            Ok(state) if state.is_ended() => return Ok(()),
            Ok(state) => return Err(format!("the run has stalled: {state:?}")),
            Err(error) => error,
        };
        if error.code() == ErrorCode::StoreUnavailable && self.context.ledger().jumps > jumps {
            // An outage seemed longer than the patience with it, because the clock was set.
            return Ok(());
        }
        let found = self.context.stored()?.session;
        let is_held = found.is_some_and(|found| {
            let latest = found.run.filter(|latest| !latest.status.is_ended());
            found.fence == fence && latest.is_some_and(|latest| latest.id == run)
        });
        match is_held {
            // Others have taken it over, or ended it.
            false => Ok(()),
            true => Err(format!(
                "an effect has no event ({}): {error}",
                error.code()
            )),
        }
    }

    /// Answers a call that is pending, or one that was.
    async fn submit(&self) -> Result<(), String> {
        let open = self.context.open_questions()?;
        let place = self.dice.below(open.len());
        let call = {
            let asked = &mut self.context.ledger().asked;
            asked.extend(
                open.iter()
                    .map(|call| (call.tool_call_id.clone(), call.clone())),
            );
            let other = self.dice.below(asked.len());
            match open.into_iter().nth(place) {
                Some(call) if !self.dice.chance(100) => Some(call),
                _ => asked.values().nth(other).cloned(),
            }
        };
        let Some(call) = call else { return Ok(()) };
        let answer = self.answer(&call);
        let submitted = self.context.entries().submit(&answer).await;
        let outcome = match submitted {
            Ok(submitted) => submitted.outcome,
            Err(error) if is_temporary(&error) => return Ok(()),
            // A sub-agent that is started again may use the ids of the first, and then asks something else.
            Err(EntryError::Answer(error)) if self.is_asked(&call)? => {
                return Err(error.to_string());
            }
            Err(EntryError::Answer(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        match outcome {
            SubmissionOutcome::Accepted => self.accept(call, answer),
            SubmissionOutcome::LateAnswerAfterTimeout => {
                self.context.ledger().late.insert(call.tool_call_id);
                Ok(())
            }
            SubmissionOutcome::AlreadyCompleted | SubmissionOutcome::UnknownToolCall => Ok(()),
            other => Err(format!("an answer was {other:?}")),
        }
    }

    /// Whether exactly this is asked, so that an answer to it fits.
    fn is_asked(&self, call: &PendingCall) -> Result<bool, String> {
        let binding = |call: &PendingCall| {
            let (session, run) = (call.session_id.clone(), call.run_id.clone());
            let (id, approval) = (call.tool_call_id.clone(), call.approval_id.clone());
            (session, run, id, approval, call.digest.clone())
        };
        let asked = self.context.open_questions()?;
        Ok(asked.iter().any(|now| binding(now) == binding(call)))
    }

    /// Notes that an answer was accepted. Of different answers to a call only one is.
    fn accept(&self, call: PendingCall, answer: ToolAnswer) -> Result<(), String> {
        let id = call.tool_call_id.clone();
        let (submission, session) = (answer.submission.clone(), call.session_id.clone());
        let answers = &mut self.context.ledger().answers;
        match answers.insert(id.clone(), (call, answer)) {
            // A sub-agent that is started again may use the ids of the first.
            Some((asked, before))
                if asked.session_id == session && before.submission != submission =>
            {
                Err(format!("two answers to call {id} were accepted"))
            }
            _ => Ok(()),
        }
    }

    /// An answer that no other request gives, unless it approves.
    fn answer(&self, call: &PendingCall) -> ToolAnswer {
        let number = self.dice.draw();
        match (call.kind, self.dice.chance(700)) {
            (PendingKind::Approval, true) => call.approve(),
            (PendingKind::Approval, false) => call.deny(format!("denied {number}")),
            (_, true) => call.result(format!("result {number}")),
            (_, false) => call.error(format!("error {number}")),
        }
    }

    async fn stop(&self, kind: StopKind) -> Result<(), String> {
        let store = self.context.flaky().store.as_ref();
        let sessions = Sessions::new(store, self.context.clock.as_ref());
        let asked = sessions.request_stop(&self.context.world.session, kind, None);
        match asked.await {
            Ok(Some(run)) => {
                if self.context.is_of_root(&run) {
                    self.context.ledger().stops.push((run, kind));
                }
                Ok(())
            }
            Ok(None) | Err(StoreError::NotFound { .. } | StoreError::Unavailable { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Whether the session could be in a state in which this is refused.
fn expected(error: &EntryError) -> Result<(), String> {
    let is_expected = matches!(
        error,
        EntryError::AlreadyRunning { .. }
            | EntryError::AwaitingAnswers { .. }
            | EntryError::AlreadyCompleted { .. }
            | EntryError::Stale { .. }
            | EntryError::NotRunning { .. }
            | EntryError::StillHeld { .. }
            | EntryError::NothingWaits { .. }
            | EntryError::UnknownCheckpoint { .. }
            | EntryError::Store(StoreError::NotFound { .. })
    );
    match is_expected || is_temporary(error) {
        true => Ok(()),
        false => Err(format!("an entry was refused: {error}")),
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
