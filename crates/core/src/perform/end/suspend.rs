//! Pauses a run.

use std::sync::Arc;

use crate::entries::take_answers;
use crate::hooks::{AgentSuspended, SuspendReason};
use crate::id::CallId;
use crate::machine::{Effect, Event, Happened, OpenRef};
use crate::perform::applied::Applied;
use crate::perform::hooks::{Hooks, fire};
use crate::perform::settle::reply_usage;
use crate::perform::work::{
    Look, Work, Written, base, begin, checkpoint, look_again, read, say, then, write,
};
use crate::perform::{PerformError, Ports};
use crate::session::{CallState, OpenStep, RunRecord, RunStatus, Suspended};
use crate::state::StepWrites;
use crate::store::{CallStanding, Change, Field, Precondition};
use crate::stream::{ChunkPayload, StreamStatus};

/// Ends the run paused, unless an answer came meanwhile.
pub(super) async fn suspend(
    effect: &Effect,
    ports: &Ports,
    mut work: Work,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    loop {
        if let Some(event) = go_on(effect, ports).await? {
            return Ok(event);
        }
        match pause(effect, ports, &work).await {
            // An answer came between looking and writing, for example.
            Err(error) if error.is_moved() => {}
            other => return other,
        }
        tracing::debug!(event = "run.pause_refused", session = %at.session_id, run = %at.run_id);
        work = match look_again(effect, ports).await? {
            Look::Work(work) => *work,
            Look::Done(event) => return Ok(event),
        };
    }
}

/// Takes answers that came before the run could pause: the same run goes on with them. Also when
/// they were taken by an earlier attempt at this effect.
async fn go_on(effect: &Effect, ports: &Ports) -> Result<Option<Event>, PerformError> {
    let at = &effect.at;
    let snapshot = read(at, ports).await?;
    let Some(open) = &snapshot.open_step else {
        return Err(PerformError::Missing {
            session: at.session_id.clone(),
            what: "an open step to pause in",
        });
    };
    let stop = snapshot.stop.as_ref();
    let stop = stop.is_some_and(|stop| stop.run_id == at.run_id);
    let now = ports.clock.now();
    let taken = take_answers(&snapshot.state, open, &at.run_id, now);
    if taken.is_empty() {
        let open = OpenRef::of(open);
        let waits = open.calls.is_waiting();
        let answered = Event::of(at, Happened::Answered { open }).with_stop(stop);
        return Ok((!waits).then_some(answered));
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
    let mut applied = Applied::new(&work.state, StepWrites::default(), open)?;
    let mut kept = OpenStep::clone(open);
    for call in &mut kept.calls {
        call.writes = StepWrites::default();
    }
    // What the reply cost is recorded now, too: a pause may be long.
    commit = then(commit, at, reply_usage(&kept, at, now, ports)?);
    kept.usage = None;
    commit = then(commit, at, [Change::OpenStep(Some(Arc::new(kept)))]);
    let hooks = Hooks::over(at, work, ports, &applied.state);
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
    applied.add(&hooks)?;
    let after = Some(open.start_sequence);
    commit = applied.write(commit, at, ports, after).await?;
    commit = say(commit, &base, now, hooks.take_said());

    let mut run = RunRecord::clone(&work.run);
    run.status = status;
    run.ended_at = Some(now);
    run.suspended = Some(Suspended::new(open.id.clone(), waiting.clone(), Vec::new()));
    let (mut checkpoint, created) = checkpoint(at, ports, now)?;
    checkpoint.open_step = Some(open.id.clone());
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
