//! Stops a run that was asked to.

use std::sync::Arc;

use super::{Ending, finish};
use crate::entries::ended;
use crate::error::{ErrorCode, ErrorRecord};
use crate::hooks::AgentFail;
use crate::id::IdSourceExt;
use crate::machine::{At, Effect, Event};
use crate::perform::hooks::{Hooks, fire};
use crate::perform::patches::corrections;
use crate::perform::settle::{reply_usage, with_answers, writers};
use crate::perform::work::{Work, base, begin, read, say, then};
use crate::perform::{PerformError, Ports};
use crate::session::{
    CallState, Checkpoint, OpenStep, RunRecord, SessionStatus, StopKind, StopRequest,
};
use crate::state::{apply_writes, merge_writes};
use crate::step::{synthesize_not_executed_result, synthesize_unknown_result};
use crate::store::{Change, Commit, Field};
use crate::stream::ChunkPayload;

/// Ends the run because it was asked to stop. What the open step has is kept.
pub(super) async fn stop(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let request = read(at, ports).await?.stop;
    let request = request.unwrap_or_else(|| {
        StopRequest::new(at.run_id.clone(), StopKind::Interrupt, ports.clock.now())
    });
    let mut work = work.clone();
    let mut checkpoint = None;
    let mut commit = begin(at, ports.clock.now());
    if let Some(open) = work.open.take() {
        // An answer that was accepted is kept; a call that was agreed to is not begun any more.
        let (mut open, with_answers) = with_answers(at, ports, &open).await?;
        commit = with_answers;
        commit = pair_stopped(commit, at, &mut open);
        let merged = merge_writes(&work.state, writers(&open));
        let before = Arc::clone(&work.state);
        if !merged.writes.is_empty() {
            apply_writes(Arc::make_mut(&mut work.state), &merged.writes)?;
            commit = then(commit, at, [Change::WriteState(merged.writes)]);
        }
        // What the calls streamed, readers have already.
        let after = open.start_sequence;
        let unsent = commit.chunks.as_slice();
        let patches = corrections(at, ports, after, &before, &work.state, unsent).await?;
        if !patches.is_empty() {
            let now = commit.at;
            commit = say(
                commit,
                &base(at),
                now,
                [ChunkPayload::StatePatch { patches }],
            );
        }
        let now = commit.at;
        commit = then(commit, at, reply_usage(&open, at, now, ports)?);
        let run = RunRecord {
            step_count: open.step,
            ..RunRecord::clone(&work.run)
        };
        work.run = Arc::new(run);
        let made = Checkpoint::new(
            ports.ids.checkpoint_id()?,
            at.session_id.clone(),
            at.run_id.clone(),
            SessionStatus::Active,
            now,
        );
        let created = ChunkPayload::CheckpointCreated {
            checkpoint_id: made.id.clone(),
        };
        checkpoint = Some(made);
        let step = open.into_paired()?;
        let message_count = work.message_count + step.message_count();
        let in_history = ChunkPayload::StepCommitted { message_count };
        commit = say(commit, &base(at), now, [in_history, created]);
        commit = then(
            commit,
            at,
            [
                Change::AppendStep(step),
                Change::OpenStep(None),
                Change::Set(Field::StepCount(at.step)),
            ],
        );
    }
    let hooks = Hooks::over(at, &work, ports, &work.state);
    let ending = match request.kind {
        StopKind::Interrupt => Ending::Interrupted {
            reason: request.reason,
        },
        StopKind::Abort => {
            let reason = request
                .reason
                .unwrap_or_else(|| "the run was aborted".to_owned());
            let error = ErrorRecord::new(ErrorCode::FrameworkCancelled, reason);
            let state = hooks.state()?;
            fire!(
                hooks,
                on_agent_fail,
                "on_agent_fail",
                AgentFail::new(&error, &state, at.step)
            );
            tracing::info!(event = "client_tool.aborted", session = %at.session_id, run = %at.run_id);
            Ending::Failed { error }
        }
    };
    finish(effect, ports, &work, &hooks, ending, commit, checkpoint).await
}

/// Gives every call without a result the truth about it.
fn pair_stopped(mut commit: Commit, at: &At, open: &mut OpenStep) -> Commit {
    let calls: Vec<_> = open.message.tool_calls().cloned().collect();
    for (call, open) in calls.iter().zip(&mut open.calls) {
        if open.result.is_some() {
            continue;
        }
        let waits = matches!(
            open.state,
            CallState::AwaitingClient | CallState::AwaitingApproval
        );
        if waits {
            let owner = Field::CallOwner(call.id.clone(), None);
            commit = then(commit, at, [Change::RemovePending(call.id.clone())])
                .then_in(at.root_session_id.clone(), Change::Set(owner));
        }
        let was_started = open
            .effect
            .as_ref()
            .is_some_and(|effect| effect.attempts > 0);
        let result = if was_started {
            synthesize_unknown_result(&call.id, &call.name)
        } else {
            synthesize_not_executed_result(&call.id, &call.name, "the run was stopped.")
        };
        let now = commit.at;
        commit = say(commit, &base(at), now, [ended(&result)]);
        open.settle(result);
    }
    commit
}
