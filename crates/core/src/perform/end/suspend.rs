//! Pauses a run.

use std::sync::Arc;

use crate::entries::{take_answers, waits};
use crate::hooks::{AgentSuspended, SuspendReason};
use crate::id::{CallId, IdSourceExt};
use crate::machine::{Effect, Event, Happened, OpenRef};
use crate::message::ToolCall;
use crate::perform::applied::{Applied, write_state};
use crate::perform::hooks::fire;
use crate::perform::intents::{asking, pending, pending_of};
use crate::perform::settle::{moving, reply_usage};
use crate::perform::work::{Look, Work, judge, read};
use crate::perform::writing::{Written, as_read, base, begin, checkpoint, say, then, write};
use crate::perform::{PerformError, Ports};
use crate::session::{CallState, OpenCall, OpenStep, RunRecord, RunStatus, Suspended};
use crate::state::StepWrites;
use crate::store::{CallStanding, Change, Commit, Field, Precondition, Snapshot};
use crate::stream::{ChunkPayload, StreamStatus};

/// How often answers, stops and siblings may come between looking and writing.
const MAX_TRIES: usize = 8;

/// Ends the run paused, unless an answer came meanwhile, or somebody asked it to stop: then the same
/// run goes on.
pub(super) async fn suspend(effect: &Effect, ports: &Ports) -> Result<Event, PerformError> {
    let at = &effect.at;
    for _ in 0..MAX_TRIES {
        let found = read(at, ports).await?;
        let work = match judge(effect, found.clone(), ports)? {
            Look::Work(work) => *work,
            Look::Done(event) => return Ok(event),
        };
        let tried = match go_on(effect, ports, &work, &found).await {
            Ok(Some(event)) => return Ok(event),
            Ok(None) => pause(effect, ports, &work, &found).await,
            Err(error) => Err(error),
        };
        match tried {
            // An answer or a stop came between looking and writing, for example.
            Err(error) if error.is_moved() => {}
            other => return other,
        }
        tracing::debug!(event = "run.pause_refused", session = %at.session_id, run = %at.run_id);
    }
    Err(moving(at))
}

/// Takes answers that came before the run could pause: the same run goes on with them. Also when
/// they were taken by an earlier attempt at this effect, and when the run is asked to stop.
async fn go_on(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    found: &Snapshot,
) -> Result<Option<Event>, PerformError> {
    let at = &effect.at;
    let Some(open) = &found.open_step else {
        return Err(PerformError::Missing {
            session: at.session_id.clone(),
            what: "an open step to pause in",
        });
    };
    let now = ports.clock.now();
    let taken = take_answers(&found.state, open, &at.run_id, now);
    if work.stop || taken.is_empty() {
        // Who stops the run takes the answers with it.
        let open = OpenRef::of(open);
        let waits = open.calls.is_waiting();
        let answered = Event::of(at, Happened::Answered { open }).with_stop(work.stop);
        return Ok((work.stop || !waits).then_some(answered));
    }
    let commit = || {
        let commit = as_read(begin(effect, work, now), at, Some(open));
        taken.write(commit, &at.session_id, &base(at), now)
    };
    let committed = match write(effect, ports, commit).await? {
        Written::Now(committed) => committed,
        Written::Before(event) => return Ok(Some(event)),
    };
    let open = OpenRef::of(&taken.step);
    let event = Event::of(at, Happened::Answered { open });
    Ok(Some(event.with_stop(committed.stop.is_some())))
}

/// The calls that wait for somebody.
fn waiting(open: &OpenStep) -> impl Iterator<Item = (&ToolCall, &OpenCall)> {
    open.calls().filter(|(_, call)| waits(call))
}

/// Asks again about calls whose question is not on the list any more: somebody put an older reading
/// of the session in its place.
fn ask_again(
    mut commit: Commit,
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    found: &Snapshot,
    open: &OpenStep,
) -> Result<Commit, PerformError> {
    let at = &effect.at;
    for (call, state) in waiting(open) {
        let standing = match found.state.pending_client_tool_calls.get(&call.id) {
            Some(_) => CallStanding::Open,
            None => {
                let now = commit.at;
                let tool = work.agent().tool(&call.name);
                let mut asked = match tool {
                    Some(tool) => pending(at, call, tool.spec(), now),
                    None => pending_of(at, call, now),
                };
                if state.state == CallState::AwaitingApproval {
                    let approval_id = ports.ids.approval_id()?;
                    asked = asked.needing_approval(approval_id.clone());
                    let request = ChunkPayload::ToolApprovalRequest {
                        tool_call_id: call.id.clone(),
                        tool_name: call.name.clone(),
                        approval_id,
                        input: call.arguments.clone(),
                        digest: asked.digest.clone(),
                    };
                    commit = say(commit, &base(at), now, [request]);
                }
                commit.changes.extend(asking(at, asked));
                CallStanding::Absent
            }
        };
        let as_read = Precondition::Call(call.id.clone(), standing);
        commit = commit.when_in(at.session_id.clone(), as_read);
    }
    Ok(commit)
}

async fn pause(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    found: &Snapshot,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let open = work.open_step(at)?;
    let waiting: Vec<CallId> = waiting(open).map(|(call, _)| call.id.clone()).collect();
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
    let not_stopped = Precondition::Stop(at.run_id.clone(), false);
    let commit = as_read(begin(effect, work, now), at, Some(open))
        .when_in(at.session_id.clone(), not_stopped);
    let asked = ask_again(commit, effect, ports, work, found, open)?;

    // What finished siblings wrote is applied now, and not again when the step is settled.
    let mut applied = Applied::new(&work.state(), StepWrites::default(), open)?;
    let mut kept = OpenStep::clone(open);
    for call in &mut kept.calls {
        call.writes = StepWrites::default();
    }
    // What the reply cost is recorded now, too: a pause may be long.
    let usage = reply_usage(&kept, at, now, ports)?;
    kept.usage = None;
    let kept = Arc::new(kept);
    let hooks = applied.hooks(at, work, ports)?;
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
    let mut told = applied.told(at, ports, after, &[]).await?;
    told.extend(hooks.take_said());

    let mut run = RunRecord::clone(&work.run);
    run.status = status;
    run.ended_at = Some(now);
    run.suspended = Some(Suspended::new(open.id.clone(), waiting.clone(), Vec::new()));
    let (mut checkpoint, created) = checkpoint(at, ports, now)?;
    checkpoint.open_step = Some(open.id.clone());
    told.push(created);
    told.push(ChunkPayload::RunPaused {
        status,
        tool_call_ids: waiting.clone(),
    });
    let commit = || {
        let mut commit = then(asked.clone(), at, usage.clone());
        let kept = Change::OpenStep(Some(Arc::clone(&kept)));
        commit = write_state(then(commit, at, [kept]), at, &applied.writes);
        let paused = [
            Change::Set(Field::SuspendedStep(Some(open.id.clone()))),
            Change::Run(Box::new(run.clone())),
            Change::CheckpointHere(checkpoint.clone()),
            Change::Lease(None),
        ];
        commit = say(then(commit, at, paused), &base, now, told.iter().cloned());
        if at.session_id == at.root_session_id {
            commit = commit.stream(StreamStatus::Paused);
        }
        commit
    };
    match write(effect, ports, commit).await? {
        Written::Now(_) => {}
        Written::Before(event) => return Ok(event),
    }
    for call in &waiting {
        tracing::info!(event = "client_tool.suspended", session = %at.session_id, run = %at.run_id, %call);
    }
    Ok(Event::of(at, Happened::Ended { status }))
}
