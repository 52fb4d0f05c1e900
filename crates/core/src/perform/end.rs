//! Ends a run.

use std::sync::Arc;

use serde_json::Value;

use super::hooks::{Hooks, fire};
use super::patches::corrections;
use super::settle::writers;
use super::work::{Look, Work, Written, base, begin, forget, look_again, read, say, then, write};
use super::{PerformError, Ports};
use crate::entries::take_answers;
use crate::error::{ErrorCode, ErrorRecord};
use crate::hooks::{AgentFail, AgentSuspended, SuspendReason};
use crate::id::{CallId, IdSourceExt};
use crate::machine::{At, Effect, EndAs, Event, Happened, OpenRef};
use crate::session::{
    CallState, Checkpoint, InterruptContext, OpenStep, RunRecord, RunStatus, SessionStatus,
    StopKind, StopRequest, Suspended,
};
use crate::state::{apply_writes, merge_writes, to_rfc6902};
use crate::step::{StopCause, synthesize_not_executed_result, synthesize_unknown_result};
use crate::store::{CallStanding, Change, Commit, Field, Precondition, StoreError};
use crate::stream::{ChunkBase, ChunkPayload, StreamStatus};
use crate::time::Timestamp;

/// How a run ends.
pub(super) enum Ending {
    Completed {
        cause: StopCause,
        output: Option<Value>,
    },
    Failed {
        error: ErrorRecord,
    },
    Interrupted {
        reason: Option<String>,
    },
}

impl Ending {
    pub(super) fn status(&self) -> RunStatus {
        match self {
            Self::Completed { .. } => RunStatus::Completed,
            Self::Failed { .. } => RunStatus::Failed,
            Self::Interrupted { .. } => RunStatus::Interrupted,
        }
    }
}

/// Adds the end of a run to a commit.
pub(super) fn write_end(
    commit: Commit,
    at: &At,
    run: &mut RunRecord,
    ending: &Ending,
    base: &Arc<ChunkBase>,
    now: Timestamp,
) -> Commit {
    run.status = ending.status();
    run.ended_at = Some(now);
    let mut commit = commit;
    let (status, stream, fields, said) = match ending {
        Ending::Completed { cause, output } => {
            run.completion_reason = Some(*cause);
            run.output.clone_from(output);
            let fields = vec![Field::Output(output.clone()), Field::Error(None)];
            let output = output.clone();
            let said = output.map(|output| ChunkPayload::Output { output });
            (SessionStatus::Completed, StreamStatus::Ended, fields, said)
        }
        Ending::Failed { error } => {
            if error.code == ErrorCode::MaxSteps {
                run.completion_reason = Some(StopCause::MaxSteps);
            }
            run.error = Some(error.clone());
            let fields = vec![
                Field::Output(None),
                Field::Error(Some(error.clone())),
                Field::InterruptContext(None),
            ];
            let said = ChunkPayload::Error {
                error: error.message.clone(),
                detail: Some(error.detail.clone()),
                code: error.code,
                recoverable: false,
            };
            (
                SessionStatus::Failed,
                StreamStatus::Failed,
                fields,
                Some(said),
            )
        }
        Ending::Interrupted { reason } => {
            let context = InterruptContext::new(at.run_id.clone(), reason.clone(), now);
            let fields = vec![Field::InterruptContext(Some(context))];
            let said = ChunkPayload::RunInterrupted {
                reason: reason.clone(),
            };
            (
                SessionStatus::Interrupted,
                StreamStatus::Ended,
                fields,
                Some(said),
            )
        }
    };
    commit = then(commit, at, [Change::Set(Field::Status(status))]);
    commit = then(commit, at, fields.into_iter().map(Change::Set));
    commit = then(
        commit,
        at,
        [Change::Run(Box::new(run.clone())), Change::Lease(None)],
    );
    commit = say(commit, base, now, said);
    let is_root = at.session_id == at.root_session_id;
    if is_root {
        commit.stream(stream)
    } else {
        commit
    }
}

pub(super) async fn perform(
    effect: &Effect,
    as_: &EndAs,
    ports: &Ports,
) -> Result<Event, PerformError> {
    // Others may have written meanwhile: what is remembered does not count here.
    let work = match look_again(effect, ports).await? {
        Look::Work(work) => *work,
        Look::Done(event) => return Ok(event),
    };
    let event = match as_ {
        EndAs::Suspended {} => suspend(effect, ports, work).await?,
        EndAs::Failed { error } => fail(effect, ports, &work, error).await?,
        EndAs::Stopped {} => stop(effect, ports, &work).await?,
    };
    forget(ports);
    Ok(event)
}

/// Ends the run failed. No step is open then.
async fn fail(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    error: &ErrorRecord,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let hooks = Hooks::over(at, work, ports, &work.state);
    let state = hooks.state()?;
    fire!(
        hooks,
        on_agent_fail,
        "on_agent_fail",
        AgentFail::new(error, &state, at.step)
    );
    let ending = Ending::Failed {
        error: error.clone(),
    };
    finish(
        effect,
        ports,
        work,
        &hooks,
        ending,
        begin(at, ports.clock.now()),
    )
    .await
}

/// Writes the end with what the hooks wrote.
async fn finish(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    hooks: &Hooks<'_>,
    ending: Ending,
    mut commit: Commit,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let now = commit.at;
    let base = base(at);
    let writes = hooks.writes()?;
    if !writes.is_empty() {
        let patches = to_rfc6902(&writes, &work.state)?;
        commit = say(commit, &base, now, [ChunkPayload::StatePatch { patches }]);
        commit = then(commit, at, [Change::WriteState(writes)]);
    }
    commit = say(commit, &base, now, hooks.take_said());
    let mut run = RunRecord::clone(&work.run);
    let status = ending.status();
    commit = write_end(commit, at, &mut run, &ending, &base, now);
    match write(effect, ports, commit).await? {
        Written::Now(_) => Ok(Event::of(at, Happened::Ended { status })),
        Written::Before(event) => Ok(event),
    }
}

/// Ends the run because it was asked to stop. What the open step has is kept.
async fn stop(effect: &Effect, ports: &Ports, work: &Work) -> Result<Event, PerformError> {
    let at = &effect.at;
    let request = read(at, ports).await?.stop;
    let request = request.unwrap_or_else(|| {
        StopRequest::new(at.run_id.clone(), StopKind::Interrupt, ports.clock.now())
    });
    let mut work = work.clone();
    let mut commit = begin(at, ports.clock.now());
    if let Some(open) = work.open.take() {
        let mut open = OpenStep::clone(&open);
        commit = pair_stopped(commit, at, &mut open);
        let merged = merge_writes(&work.state, writers(&open));
        if !merged.writes.is_empty() {
            let patches = to_rfc6902(&merged.writes, &work.state)?;
            apply_writes(Arc::make_mut(&mut work.state), &merged.writes)?;
            commit = say(
                commit,
                &base(at),
                commit_time(ports),
                [ChunkPayload::StatePatch { patches }],
            );
            commit = then(commit, at, [Change::WriteState(merged.writes)]);
        }
        let run = RunRecord {
            step_count: open.step,
            ..RunRecord::clone(&work.run)
        };
        work.run = Arc::new(run);
        commit = then(
            commit,
            at,
            [
                Change::AppendStep(open.into_paired()?),
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
    finish(effect, ports, &work, &hooks, ending, commit).await
}

fn commit_time(ports: &Ports) -> Timestamp {
    ports.clock.now()
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
        open.settle(if was_started {
            synthesize_unknown_result(&call.id, &call.name)
        } else {
            synthesize_not_executed_result(&call.id, &call.name, "the run was stopped.")
        });
    }
    commit
}

/// Ends the run paused, unless an answer came meanwhile.
async fn suspend(effect: &Effect, ports: &Ports, mut work: Work) -> Result<Event, PerformError> {
    let at = &effect.at;
    loop {
        if let Some(event) = take_if_answered(effect, ports).await? {
            return Ok(event);
        }
        let result = pause(effect, ports, &work).await;
        match result {
            // An answer came between looking and writing.
            Err(PerformError::Store(StoreError::Refused {
                expected: Precondition::Call(..),
                ..
            })) => {}
            Err(error) if error.is_moved() => {}
            other => return other,
        }
        work = match look_again(effect, ports).await? {
            Look::Work(work) => *work,
            Look::Done(event) => return Ok(event),
        };
        tracing::debug!(event = "run.pause_refused", session = %at.session_id, run = %at.run_id);
    }
}

/// Takes answers that came before the run could pause: the same run goes on with them.
async fn take_if_answered(effect: &Effect, ports: &Ports) -> Result<Option<Event>, PerformError> {
    let at = &effect.at;
    let snapshot = read(at, ports).await?;
    let Some(open) = &snapshot.open_step else {
        return Err(PerformError::Missing {
            session: at.session_id.clone(),
            what: "an open step to pause in",
        });
    };
    let now = ports.clock.now();
    let taken = take_answers(&snapshot.state, open, &at.run_id, now);
    if taken.is_empty() {
        return Ok(None);
    }
    let commit = taken.write(begin(at, now), &at.session_id, &base(at), now);
    let committed = match write(effect, ports, commit).await? {
        Written::Now(committed) => committed,
        Written::Before(event) => return Ok(Some(event)),
    };
    let open = OpenRef::of(&taken.step);
    let event = Event::of(at, Happened::Answered { open });
    Ok(Some(event.with_stop(committed.stop.is_some())))
}

async fn pause(effect: &Effect, ports: &Ports, work: &Work) -> Result<Event, PerformError> {
    let at = &effect.at;
    let open = work.open_step(at)?;
    let waiting: Vec<CallId> = open
        .calls()
        .filter(|(_, call)| {
            matches!(
                call.state,
                CallState::AwaitingClient | CallState::AwaitingApproval
            )
        })
        .map(|(call, _)| call.id.clone())
        .collect();
    let is_partial = open.calls.iter().any(|call| call.result.is_some());
    let status = if is_partial {
        RunStatus::SuspendedStepPartial
    } else if waiting.is_empty() {
        RunStatus::SuspendedAwaitingChildren
    } else {
        RunStatus::SuspendedClientTool
    };
    let now = ports.clock.now();
    let base = base(at);
    let mut commit = begin(at, now);
    for call in &waiting {
        let still_open = Precondition::Call(call.clone(), CallStanding::Open);
        commit = commit.when_in(at.session_id.clone(), still_open);
    }

    // What finished siblings wrote is applied now, and not again when the step is settled.
    let merged = merge_writes(&work.state, writers(open));
    let mut state = Arc::clone(&work.state);
    if !merged.writes.is_empty() {
        apply_writes(Arc::make_mut(&mut state), &merged.writes)?;
    }
    for (call, open) in open.calls() {
        if !open.writes.is_empty() {
            let mut applied = open.clone();
            applied.writes = Default::default();
            let change = Change::OpenCall(call.id.clone(), Box::new(applied));
            commit = then(commit, at, [change]);
        }
    }
    let hooks = Hooks::over(at, work, ports, &state);
    let reason = if waiting.is_empty() {
        SuspendReason::AwaitingChildren
    } else {
        SuspendReason::ClientTool
    };
    fire!(
        hooks,
        on_agent_suspended,
        "on_agent_suspended",
        AgentSuspended::new(reason, &waiting)
    );
    let by_hooks = hooks.writes()?;
    let state = if by_hooks.is_empty() {
        state
    } else {
        hooks.state()?
    };
    let mut writes = merged.writes;
    writes.extend(by_hooks);
    let after = open.start_sequence;
    let patches = corrections(at, ports, after, &work.state, &state, &[]).await?;
    if !patches.is_empty() {
        commit = say(commit, &base, now, [ChunkPayload::StatePatch { patches }]);
    }
    if !merged.conflicts.is_empty() {
        let conflicts = merged.conflicts;
        commit = say(
            commit,
            &base,
            now,
            [ChunkPayload::StateConflict { conflicts }],
        );
    }
    if !writes.is_empty() {
        commit = then(commit, at, [Change::WriteState(writes)]);
    }
    commit = say(commit, &base, now, hooks.take_said());

    let mut run = RunRecord::clone(&work.run);
    run.status = status;
    run.ended_at = Some(now);
    run.suspended = Some(Suspended::new(open.id.clone(), waiting.clone(), Vec::new()));
    let mut checkpoint = Checkpoint::new(
        ports.ids.checkpoint_id()?,
        at.session_id.clone(),
        at.run_id.clone(),
        SessionStatus::Active,
        now,
    );
    checkpoint.open_step = Some(open.id.clone());
    let created = ChunkPayload::CheckpointCreated {
        checkpoint_id: checkpoint.id.clone(),
    };
    let paused = ChunkPayload::RunPaused {
        status,
        tool_call_ids: waiting.clone(),
    };
    commit = then(
        commit,
        at,
        [
            Change::Set(Field::SuspendedStep(Some(open.id.clone()))),
            Change::Run(Box::new(run)),
            Change::CheckpointHere(checkpoint),
            Change::Lease(None),
        ],
    );
    commit = say(commit, &base, now, [created, paused]);
    if at.session_id == at.root_session_id {
        commit = commit.stream(StreamStatus::Paused);
    }
    match write(effect, ports, commit).await? {
        Written::Now(_) => {}
        Written::Before(event) => return Ok(event),
    }
    for call in &waiting {
        tracing::info!(event = "client_tool.suspended", session = %at.session_id, run = %at.run_id, %call);
    }
    Ok(Event::of(at, Happened::Ended { status }))
}
