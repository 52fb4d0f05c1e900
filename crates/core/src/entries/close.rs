//! Closes a step whose calls do not all have results.

use std::sync::Arc;

use super::answers::{Overdue, take_answers, tool_end_chunk};
use super::descendants::AwaitedChild;
use super::start::base;
use crate::machine::started_calls;
use crate::message::ResultStatus;
use crate::session::{
    EffectState, OpenCall, OpenStep, RunStatus, SessionState, StopKind, StopRequest,
};
use crate::step::{failed_result, synthesize_not_executed_result, synthesize_unknown_result};
use crate::store::{Change, Commit, Field, PendingStatus, Precondition, Snapshot};
use crate::stream::{Chunk, ChunkOrigin, ChunkPayload};

/// The reason of a stop of children for which a run waited that is left.
pub(crate) const LEFT_BEHIND: &str = "its caller went on without it";

/// The text for the model of a sub-agent whose caller did not wait for its end.
pub(crate) const CHILD_STOPPED: &str = "The sub-agent was stopped before it was done.";

/// The calls that count as begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BegunCalls {
    /// Only those recorded: nothing is in progress.
    Recorded,
    /// Also every call whose turn it was: its outcome is not known.
    Reached,
}

/// Whether the call may have taken effect.
pub(crate) fn may_have_begun(call: &OpenCall) -> bool {
    let effect = call.effect.as_ref();
    effect.is_some_and(|effect| {
        effect.attempts > 0 || matches!(effect.state, EffectState::Started | EffectState::Unknown)
    })
}

/// Settles every call without a result: as not executed or, if it may have begun, as unknown. Its
/// pending call is removed, unless it is answered before the commit is made: then the commit is
/// refused, so that the answer is not lost.
pub(crate) fn close_calls(
    mut commit: Commit,
    session: &SessionState,
    step: &mut OpenStep,
    begun: BegunCalls,
    why: &str,
    base: &Arc<ChunkOrigin>,
) -> Commit {
    let reached = match begun {
        BegunCalls::Recorded => Vec::new(),
        BegunCalls::Reached => started_calls(step),
    };
    let id = &session.session_id;
    let calls: Vec<_> = step.message.tool_calls().cloned().collect();
    for (index, (call, open)) in calls.iter().zip(&mut step.calls).enumerate() {
        if open.result.is_some() {
            continue;
        }
        let standing = session.call_standing(&call.id);
        if open.is_awaiting_answer() || standing != PendingStatus::Absent {
            let as_read = Precondition::Call(call.id.clone(), standing);
            let owner = Field::DisownedCall(call.id.clone(), id.clone());
            commit = commit
                .when_in(id.clone(), as_read)
                .then_in(id.clone(), Change::RemovePending(call.id.clone()))
                .then_in(session.root().clone(), Change::Set(owner));
        }
        let result = if open.child.is_some() {
            failed_result(&call.id, &call.name, CHILD_STOPPED, ResultStatus::Error)
        } else if may_have_begun(open) || reached.contains(&index) {
            synthesize_unknown_result(&call.id, &call.name)
        } else {
            synthesize_not_executed_result(&call.id, &call.name, why)
        };
        let at = commit.at;
        commit = commit.say(Chunk::new(Arc::clone(base), at, tool_end_chunk(&result)));
        open.settle(result);
    }
    commit
}

/// Closes the open step, whichever run left it, and keeps it in the history: a run that ends leaves
/// no step open, and a turn begins without leftovers of another. Answers that were submitted are taken:
/// the results of clients are kept, and an approved call is not executed any more.
pub(crate) fn close_step(commit: Commit, found: &Snapshot) -> Commit {
    let Some(step) = &found.open_step else {
        return commit;
    };
    let session = &found.state.session_id;
    let base = base(&found.state, &step.run_id, step.step);
    let run = found.run.as_ref();
    // Nothing of a suspended run is in progress.
    let (begun, why) = if run.is_some_and(|run| run.status.is_suspended()) {
        (BegunCalls::Recorded, "a new message was sent before it.")
    } else {
        (BegunCalls::Reached, "its run ended before it.")
    };
    let left = Overdue::IsLeft;
    let taken = take_answers(&found.state, step, &step.run_id, commit.at, left);
    let at = commit.at;
    let commit = taken.write(commit, session, &base, at);
    let mut step = taken.step;
    let commit = close_calls(commit, &found.state, &mut step, begun, why, &base);
    let commit = commit.then_in(session.clone(), Change::OpenStep(None));
    match step.into_paired() {
        Ok(paired) => {
            // The store fills in how many messages there are.
            let in_history = ChunkPayload::StepCommitted { message_count: 0 };
            let told = Chunk::new(base, commit.at, in_history);
            let commit = commit.then_in(session.clone(), Change::AppendStep(paired));
            commit.say(told)
        }
        Err(error) => {
            tracing::error!(event = "open_step.lost", %session, %error);
            commit
        }
    }
}

/// Ends a suspended run whose calls are abandoned: as interrupted, or as failed if it was asked to abort. The step
/// that is closed with it counts.
pub(super) fn end_suspended_run(commit: Commit, found: &Snapshot) -> Commit {
    let run = found.run.as_ref();
    let Some(run) = run.filter(|run| run.status.is_suspended()) else {
        return commit;
    };
    let mut ended = run.clone();
    ended.status = RunStatus::Interrupted;
    if let Some(step) = &found.open_step {
        ended.step_count = ended.step_count.max(step.step);
    }
    let stop = found.stop.as_ref().filter(|stop| stop.run_id == run.id);
    if let Some(stop) = stop.filter(|stop| stop.kind == StopKind::Abort) {
        ended.status = RunStatus::Failed;
        ended.error = Some(stop.abort_error());
    }
    let session = &found.state.session_id;
    // A stop that is accepted meanwhile decides how the run ends.
    let as_read = Precondition::Version(found.state.version);
    let ended = Change::Run(Box::new(ended));
    let commit = commit.when_in(session.clone(), as_read);
    commit.then_in(session.clone(), ended)
}

/// Asks the children to stop for which a run waited that is left.
pub(super) fn stop_children(mut commit: Commit, children: &[AwaitedChild]) -> Commit {
    for child in children {
        let Some(found) = child.suspended().or(child.running()) else {
            continue;
        };
        if let Some(run) = &found.run {
            let session = found.state.session_id.clone();
            let mut stop = StopRequest::new(run.id.clone(), StopKind::Interrupt, commit.at);
            stop.reason = Some(LEFT_BEHIND.to_owned());
            // One that goes on as another run meanwhile would not hear of it.
            let as_read = Precondition::Run(run.id.clone(), vec![run.status]);
            commit = commit
                .when_in(session.clone(), as_read)
                .then_in(session, Change::Stop(stop));
        }
        commit = stop_children(commit, &child.children);
    }
    commit
}

/// The session waits for no child any more.
pub(super) fn forget_children(mut commit: Commit, found: &Snapshot) -> Commit {
    let session = &found.state.session_id;
    for call in found.state.suspended_awaiting_children.keys() {
        let waits = Field::AwaitedChild(call.clone(), None);
        commit = commit.then_in(session.clone(), Change::Set(waits));
    }
    commit
}
