//! The entry that continues a turn.

use super::answers::{Overdue, TakenAnswers, take_answers};
use super::budget::start_budget;
use super::close::forget_children;
use super::descendants::AwaitedChild;
use super::double_texting::refuse_while_messages_wait;
use super::start::{adopt, base, commit_on, note_child, raised, say, take_lease};
use super::{BudgetRequest, Drive, EntryError, KnownSession, Start};
use crate::budget::Budgets;
use crate::id::{CheckpointId, SessionId};
use crate::machine::RunState;
use crate::session::{RunStatus, RunTrigger, SessionStatus, StopRequest, WaitingCall};
use crate::store::{Change, Commit, Field, Snapshot};
use crate::stream::ChunkPayload;

/// How a session is resumed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeMode {
    /// Continues after a suspension whose calls are all answered, or after an interruption.
    #[default]
    Continue,
    /// Tries a failed or interrupted turn again, from its last good checkpoint.
    Retry,
    /// Rewinds the session to a checkpoint and continues from there.
    FromCheckpoint(CheckpointId),
}

/// The request to resume a session.
///
/// Made from the id of the session, or from a [`Snapshot`], which saves the entry a read.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ResumeRequest {
    /// The session.
    pub session: KnownSession,
    /// How it is resumed.
    pub mode: ResumeMode,
    /// The limits under which it is resumed. A session that a budget has paused needs a higher one.
    pub budget: BudgetRequest,
}

impl ResumeRequest {
    /// Resumes a session in this mode.
    #[must_use]
    pub fn new(session: impl Into<KnownSession>, mode: ResumeMode) -> Self {
        Self {
            session: session.into(),
            mode,
            budget: BudgetRequest::default(),
        }
    }

    /// Sets limits for the session, its run and its tree, on top of those of the agent.
    #[must_use]
    pub fn budget(mut self, budgets: impl Into<Budgets>) -> Self {
        self.budget.set(&budgets.into());
        self
    }
}

impl From<KnownSession> for ResumeRequest {
    fn from(session: KnownSession) -> Self {
        Self::new(session, ResumeMode::Continue)
    }
}

impl From<&SessionId> for ResumeRequest {
    fn from(session: &SessionId) -> Self {
        Self::new(session, ResumeMode::Continue)
    }
}

impl From<Snapshot> for ResumeRequest {
    fn from(found: Snapshot) -> Self {
        Self::new(found, ResumeMode::Continue)
    }
}

/// Plans to continue after a suspension or an interruption.
///
/// The answers are taken in the same commit: an approved call may be run from then on, a client's
/// result is that call's result, and each answer is used once.
///
/// A call whose deadline has passed is taken as timed out.
///
/// A suspended run with a stop request continues, answered or not, only to end as requested.
///
/// # Errors
/// [`EntryError::AlreadyRunning`]; [`EntryError::AwaitingAnswers`] while a call is pending;
/// [`EntryError::AlreadyCompleted`]; [`EntryError::Stale`] after a failure;
/// [`EntryError::BudgetExhausted`] if a budget has paused the session, and is not raised.
pub(crate) fn plan_resume(
    found: &Snapshot,
    budget: &BudgetRequest,
    start: &Start,
) -> Result<Drive, EntryError> {
    let session = &found.state.session_id;
    let stale = |why| EntryError::Stale {
        session: session.clone(),
        why,
    };
    let Some(last) = &found.run else {
        return Err(stale("it never ran; execute it with a message"));
    };
    match last.status {
        RunStatus::Running => {
            return Err(EntryError::AlreadyRunning {
                session: session.clone(),
                run: last.id.clone(),
            });
        }
        RunStatus::Completed => {
            return Err(EntryError::AlreadyCompleted {
                session: session.clone(),
            });
        }
        RunStatus::Failed => return Err(stale("its last turn failed; retry it instead")),
        // The turn that a budget has paused is not over: messages wait for its end.
        RunStatus::Interrupted if found.state.status == SessionStatus::Paused => {}
        RunStatus::Interrupted => refuse_while_messages_wait(found)?,
        RunStatus::SuspendedClientTool
        | RunStatus::SuspendedAwaitingChildren
        | RunStatus::SuspendedStepPartial => {}
    }
    // A run with a stop request from its suspension continues only to end.
    let stop_request = found.stop.as_ref().filter(|stop| stop.run_id == last.id);
    if stop_request.is_none() && awaits_answers(found, &start.children, start) {
        let mut calls = Vec::new();
        unanswered(found, &start.children, &mut calls);
        return Err(EntryError::AwaitingAnswers {
            session: session.clone(),
            calls,
        });
    }
    let overdue = match stop_request {
        Some(_) => Overdue::IsLeft,
        None => Overdue::TimesOut,
    };

    let mut run = start.run(session.clone(), RunTrigger::Continue);
    run.turn = last.turn;
    run.step_count = last.step_count;
    run.steps_before = last.step_count;
    run.corrections = last.corrections;
    run.budget_from = last.budget_from;
    run.turn_start = last.turn_start;
    run.parent_call.clone_from(&last.parent_call);
    let mut commit = take_lease(commit_on(found, start), session, start);
    commit = note_child(commit, &found.state, &run.id);
    let step = found.open_step.as_ref();
    let base = base(&found.state, &run.id, step.map_or(0, |step| step.step));
    for field in [
        Field::Status(SessionStatus::Active),
        Field::InterruptContext(None),
        Field::SuspendedStep(None),
        Field::OneResumeMore,
    ] {
        commit = commit.then_in(session.clone(), Change::Set(field));
    }
    let started = ChunkPayload::RunStarted {
        trigger: run.trigger,
        turn: run.turn,
    };
    commit = say(commit, &base, start.at, started);
    commit = say(commit, &base, start.at, ChunkPayload::RunResumed {});
    commit = commit.then_in(session.clone(), Change::StartRun(Box::new(run.clone())));

    let mut after = found.clone();
    let mut answers = Vec::new();
    if let Some(step) = step {
        let taken = take_answers(&found.state, step, &run.id, start.at, overdue);
        commit = taken.write(commit, session, &base, start.at);
        after.open_step = Some(taken.step.clone());
        answers.push(taken);
    }
    commit = forget_children(commit, found);
    if stop_request.is_none() {
        for child in &start.children {
            commit = continue_child(commit, &mut after, child, start, &mut answers)?;
        }
    }
    commit = adopt(commit, session, run.step_count, after.open_step.as_ref());
    let asks_model = after.open_step.is_none() && stop_request.is_none();
    let first_step = asks_model.then(|| run.step_count.saturating_add(1));
    commit = start_budget(commit, found, &run, budget, first_step)?;
    after.stop = stop_request.map(|stop| StopRequest {
        run_id: run.id.clone(),
        ..stop.clone()
    });
    after.run = Some(run);
    let state = RunState::of(&after, raised(found.fence)).ok_or_else(|| stale("it never ran"))?;
    Ok(Drive {
        commit,
        state,
        answers,
    })
}

/// Whether a session, or one that it waits for, waits for an answer.
fn awaits_answers(found: &Snapshot, children: &[AwaitedChild], start: &Start) -> bool {
    let mut below = children.iter().filter_map(|child| {
        let found = child.suspended()?;
        Some((found, child))
    });
    found.state.awaits_answers(start.at)
        || below.any(|(found, child)| awaits_answers(found, &child.children, start))
}

/// Lists the calls without an answer of a session and of those that it waits for.
fn unanswered(found: &Snapshot, children: &[AwaitedChild], calls: &mut Vec<WaitingCall>) {
    calls.extend(found.state.unanswered_calls());
    for child in children {
        if let Some(found) = child.suspended() {
            unanswered(found, &child.children, calls);
        }
    }
}

/// Continues a child with its parent, whose call waits for the end of the child from now on.
fn continue_child(
    mut commit: Commit,
    parent: &mut Snapshot,
    child: &AwaitedChild,
    start: &Start,
    answers: &mut Vec<TakenAnswers>,
) -> Result<Commit, EntryError> {
    if let Some(found) = child.suspended() {
        let start = Start {
            run_id: child.run_id.clone(),
            children: child.children.clone(),
            ..start.clone()
        };
        let continued = plan_resume(found, &BudgetRequest::default(), &start)?;
        commit = commit.and(continued.commit);
        answers.extend(continued.answers);
    }
    let session = parent.state.session_id.clone();
    let index = usize::try_from(child.index).unwrap_or(usize::MAX);
    let step = parent.open_step.as_mut();
    let id = step
        .as_ref()
        .and_then(|step| step.call(index))
        .map(|(call, _)| call.id.clone());
    let open = step.and_then(|step| step.calls.get_mut(index));
    let (Some(id), Some(open)) = (id, open) else {
        return Ok(commit);
    };
    if let Some(awaited) = &mut open.child {
        awaited.suspended = false;
    }
    let change = Change::OpenCall(child.index, id, Box::new(open.clone()));
    Ok(commit.then_in(session, change))
}
