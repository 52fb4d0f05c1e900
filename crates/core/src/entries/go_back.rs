//! The entries that go back to an earlier point of a session: a retry, and time travel.

use super::budget::start_budget;
use super::close::stop_children;
use super::descendants::stop_working;
use super::double_texting::refuse_while_messages_wait;
use super::rewind::rewind;
use super::rewind_point::ReturnPoint;
use super::start::{base, commit_on, raised, say, take_lease};
use super::{
    AsRead, BudgetRequest, Drive, Entries, EntryError, KnownSession, Performer, Planned, Start,
    or_not_found,
};
use crate::id::{CheckpointId, RunId};
use crate::machine::RunState;
use crate::session::{Checkpoint, RunRecord, RunStatus, RunTrigger, SessionStatus};
use crate::store::{Change, Field, Snapshot, WorkingChild};
use crate::stream::ChunkPayload;

/// The point to which an entry goes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GoBack {
    /// The last good point of the last turn.
    Retry,
    /// A checkpoint of the session.
    To(CheckpointId),
}

impl GoBack {
    fn trigger(&self) -> RunTrigger {
        match self {
            Self::Retry => RunTrigger::Retry,
            Self::To(_) => RunTrigger::FromCheckpoint,
        }
    }
}

impl Entries {
    /// Rewinds a session and starts a run from there, in one commit.
    ///
    /// A caller that was overtaken by another run is refused, also if that run has ended: what it meant to go back
    /// from is not there any more.
    pub(super) async fn go_back(
        &self,
        session: KnownSession,
        back: &GoBack,
        budget: &BudgetRequest,
        performer: &Performer,
    ) -> Result<RunState, EntryError> {
        let KnownSession { id, mut read } = session;
        let mut entering = self.entering(&id, performer)?;
        let first = FirstRead::default();
        loop {
            let found = self.read(&id, std::mem::take(&mut read)).await?;
            let found = or_not_found(found, &id)?;
            let start = self.start(&entering, Some(&found)).await?;
            refuse_running(&found)?;
            refuse_while_messages_wait(&found)?;
            let to = match back {
                GoBack::Retry => {
                    let last = retryable(&found)?;
                    self.retry_point(&found, last).await?
                }
                GoBack::To(checkpoint) => self.point_of(&found, checkpoint).await?,
            };
            first.check(&found)?;
            let left = Box::pin(self.working_for(&found, &to.cut)).await?;
            let with = (budget, &start);
            let drive = plan_return(&found, (&to, &left), back.trigger(), with)?;
            let planned = Planned::Run(drive);
            let entered = self.make(&mut entering, Some(&found), planned).await?;
            if let Some(entered) = entered {
                return entered.run(&id);
            }
            read = AsRead::Unread;
        }
    }
}

/// The latest run of a session when an entry first read it.
#[derive(Debug, Default)]
pub(super) struct FirstRead(std::sync::OnceLock<Option<RunId>>);

impl FirstRead {
    /// Refuses a session in which another run was started since it was first read.
    ///
    /// # Errors
    /// [`EntryError::Stale`].
    pub(super) fn check(&self, found: &Snapshot) -> Result<(), EntryError> {
        let run = found.run.as_ref().map(|run| run.id.clone());
        if *self.0.get_or_init(|| run.clone()) == run {
            return Ok(());
        }
        Err(EntryError::Stale {
            session: found.state.session_id.clone(),
            why: "another run of it was started meanwhile; look at its outcome first",
        })
    }
}

fn refuse_running(found: &Snapshot) -> Result<(), EntryError> {
    match found.run.as_ref() {
        Some(run) if run.status == RunStatus::Running => Err(EntryError::AlreadyRunning {
            session: found.state.session_id.clone(),
            run: run.id.clone(),
        }),
        _ => Ok(()),
    }
}

/// Returns the run to retry.
///
/// # Errors
/// [`EntryError::AlreadyRunning`]; [`EntryError::AlreadyCompleted`]; [`EntryError::AwaitingAnswers`] while a call
/// is pending; [`EntryError::Stale`] if its calls are answered, or if the session never ran.
fn retryable(found: &Snapshot) -> Result<&RunRecord, EntryError> {
    let session = &found.state.session_id;
    let stale = |why| EntryError::Stale {
        session: session.clone(),
        why,
    };
    let Some(last) = &found.run else {
        return Err(stale("it never ran; execute it with a message"));
    };
    match last.status {
        RunStatus::Failed | RunStatus::Interrupted => Ok(last),
        RunStatus::Completed => Err(EntryError::AlreadyCompleted {
            session: session.clone(),
        }),
        RunStatus::Running
        | RunStatus::SuspendedClientTool
        | RunStatus::SuspendedAwaitingChildren
        | RunStatus::SuspendedStepPartial => {
            let calls = found.state.unanswered_calls();
            if calls.is_empty() {
                return Err(stale("its calls are answered; resume it instead"));
            }
            Err(EntryError::AwaitingAnswers {
                session: session.clone(),
                calls,
            })
        }
    }
}

/// Plans to rewind a session to a point, and to start a run that continues the turn of that point. The run has a
/// fresh step budget and owes no correction.
fn plan_return(
    found: &Snapshot,
    (to, left): (&ReturnPoint, &[WorkingChild]),
    trigger: RunTrigger,
    (budget, start): (&BudgetRequest, &Start),
) -> Result<Drive, EntryError> {
    let session = &found.state.session_id;
    let mut run = start.run(session.clone(), trigger);
    run.turn = to.turn;
    run.step_count = to.steps;
    run.steps_before = to.steps;
    run.budget_from = to.steps;
    run.turn_start = to.turn_start;
    let base = base(&found.state, &run.id, to.steps);
    let commit = commit_on(found, start);
    let commit = stop_working(stop_children(commit, &start.children), left);
    let mut commit = rewind(commit, found, &to.point, &to.cut, &base);
    commit = take_lease(commit, session, start);
    for field in [
        Field::Status(SessionStatus::Active),
        Field::StepCount(to.steps),
        Field::Output(None),
        Field::Error(None),
        Field::FailureReason(None),
        Field::InterruptContext(None),
        Field::OneResumeMore,
    ] {
        commit = commit.then_in(session.clone(), Change::Set(field));
    }
    commit = commit.then_in(session.clone(), Change::StartRun(Box::new(run.clone())));
    let first_step = to.steps.saturating_add(1);
    commit = start_budget(commit, found, &run, budget, Some(first_step))?;
    let checkpoint = to.point.checkpoint.as_ref();
    if let Some(checkpoint) = checkpoint.filter(|_| to.is_checkpoint) {
        commit = commit.then_in(session.clone(), renewed(checkpoint));
        if !to.is_told {
            let created = ChunkPayload::CheckpointCreated {
                checkpoint_id: checkpoint.id.clone(),
            };
            commit = say(commit, &base, start.at, created);
        }
    }
    let started = ChunkPayload::RunStarted {
        trigger: run.trigger,
        turn: run.turn,
    };
    commit = say(commit, &base, start.at, started);
    let mut after = found.clone();
    after.open_step = None;
    after.stop = None;
    after.run = Some(run);
    let state = RunState::of(&after, raised(found.fence)).ok_or_else(|| EntryError::Stale {
        session: session.clone(),
        why: "it never ran",
    })?;
    Ok(Drive {
        commit,
        state,
        answers: Vec::new(),
    })
}

/// Writes the checkpoint of the point again: the turn goes on there. Neither its end nor its pause is what a later
/// retry finds.
fn renewed(checkpoint: &Checkpoint) -> Change {
    Change::CheckpointHere(Checkpoint {
        open_step: None,
        ..checkpoint.clone()
    })
}
