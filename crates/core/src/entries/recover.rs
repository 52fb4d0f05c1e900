//! The entry that takes a run over from a process that is gone.

use super::budget::recover_budget;
use super::descendants::AwaitedChild;
use super::start::{adopt, base, commit_on, raised, say, take_lease};
use super::{Drive, EntryError, Start};
use crate::error::{ErrorCode, ErrorRecord};
use crate::id::{RunId, SessionId};
use crate::machine::{Calls, RunState, started_calls};
use crate::session::{EffectState, RunStatus};
use crate::store::{Change, Precondition, Snapshot};
use crate::stream::ChunkPayload;

/// How often a run may be taken over without a commit in between. The last of these take-overs ends
/// it: the cause that ended its processes would otherwise end each new one.
pub(crate) const MAX_TAKEOVERS: u32 = 5;

/// Plans the take-over of a run.
///
/// The run keeps its id, and no other run record is written. Calls that may have been started and
/// have no result are marked as unknown, so that they are not simply run again.
///
/// The store judges whether another lease is valid, because it may know that its process is gone.
///
/// A take-over is counted ([`Snapshot::takeovers`]) until the run makes a commit of its own. One of a run that only
/// waits for children is not, while one of them runs: a child that makes no progress is given up itself.
///
/// # Errors
/// [`EntryError::NotRunning`] if no run is running; [`EntryError::OtherHost`] for a run that
/// another kind of host performs.
pub(crate) fn plan_recover(found: &Snapshot, start: &Start) -> Result<Drive, EntryError> {
    let session = &found.state.session_id;
    let Some(run) = found
        .run
        .as_ref()
        .filter(|run| run.status == RunStatus::Running)
    else {
        return Err(EntryError::NotRunning {
            session: session.clone(),
        });
    };
    if run.host != start.performer.host {
        return Err(EntryError::OtherHost {
            session: session.clone(),
            run: run.id.clone(),
            has: run.host.to_string(),
            asked: start.performer.host.to_string(),
        });
    }
    // A process that only seems gone may have committed since this was read: the unknown marks
    // below must not overwrite known outcomes.
    let as_read = Precondition::Version(found.state.version);
    let mut commit = commit_on(found, start).when_in(session.clone(), as_read);
    if start.performer.lease.is_some() {
        commit = commit.when_in(session.clone(), Precondition::LeaseFree);
    }
    commit = commit.then_in(session.clone(), Change::TakeOver);
    commit = take_lease(commit, session, start);
    let waits_for = working_child(found, start);
    if let Some((child, run)) = waits_for {
        let runs = Precondition::Run(run.clone(), vec![RunStatus::Running]);
        commit = commit.when_in(child.clone(), runs);
    }
    let mut after = found.clone();
    if let Some(step) = &mut after.open_step {
        for index in started_calls(step) {
            let id = step.call(index).map(|(call, _)| call.id.clone());
            let (Some(id), Some(call)) = (id, step.calls.get_mut(index)) else {
                continue;
            };
            if let Some(effect) = &mut call.effect {
                effect.state = EffectState::Unknown;
                effect.attempts += 1;
            }
            let place = u32::try_from(index).unwrap_or(u32::MAX);
            let change = Change::OpenCall(place, id, Box::new(call.clone()));
            commit = commit.then_in(session.clone(), change);
        }
    }
    commit = adopt(commit, session, run.step_count, after.open_step.as_ref());
    commit = recover_budget(commit, found, run);
    let base = base(&found.state, &run.id, run.step_count);
    commit = say(commit, &base, start.at, ChunkPayload::ExecutorSuperseded {});
    let mut state =
        RunState::of(&after, raised(found.fence)).ok_or_else(|| EntryError::NotRunning {
            session: session.clone(),
        })?;
    state.resync = after.open_step.is_none();
    state.broken = match waits_for {
        Some(_) => None,
        None => crash_loop(found),
    };
    let (run, takeovers) = (&run.id, found.takeovers);
    tracing::info!(event = "run.recovered", %session, %run, takeovers);
    Ok(Drive {
        commit,
        state,
        answers: Vec::new(),
    })
}

/// A child that works for the run, with its own run, if the run has nothing to do but to wait.
fn working_child<'a>(found: &Snapshot, start: &'a Start) -> Option<(&'a SessionId, &'a RunId)> {
    let step = found.open_step.as_ref()?;
    let mut children = start.children.iter();
    let child = children.find_map(AwaitedChild::running)?;
    let run = child.run.as_ref()?;
    Calls::of(&step.calls)
        .only_wait()
        .then_some((&child.state.session_id, &run.id))
}

/// Returns the error that ends a run with this take-over: too many before it made no progress. A
/// take-over after an orderly hand-over does not count.
fn crash_loop(found: &Snapshot) -> Option<ErrorRecord> {
    let in_order = found.lease.as_ref().is_some_and(|lease| lease.given_up);
    let takeovers = found.takeovers.saturating_add(u32::from(!in_order));
    (takeovers >= MAX_TAKEOVERS).then(|| {
        let detail = format!(
            "the run was taken over {takeovers} times without progress; look in the log for what \
             ended the processes that performed it"
        );
        ErrorRecord::new(ErrorCode::CrashLoop, detail)
    })
}
