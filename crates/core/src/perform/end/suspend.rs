//! Pauses a run.

use std::sync::Arc;

use crate::entries::{Overdue, take_answers, tool_end_chunk};
use crate::hooks::{AgentSuspended, SuspendReason};
use crate::id::{CallId, IdSourceExt, RunId};
use crate::machine::{Event, EventKind, OpenStepRef};
use crate::message::ToolCall;
use crate::perform::PerformError;
use crate::perform::applied::Applied;
use crate::perform::commit::{CommitOutcome, EffectCommit};
use crate::perform::hooks::fire;
use crate::perform::intents::{approval_request, pending, pending_without_tool};
use crate::perform::patches::Streamed;
use crate::perform::patience::patiently;
use crate::perform::reading::Reading;
use crate::perform::scope::{EffectContext, Scope};
use crate::perform::settle::reply_usage;
use crate::session::{
    CallState, ChildCall, ChildStatus, ChildWait, OpenCall, OpenStep, RunRecord, RunStatus,
    Suspended,
};
use crate::state::StepWrites;
use crate::step::{synthesize_not_executed_result, synthesize_unknown_result};
use crate::store::{Change, Field, PendingStatus, Precondition, SessionKey, Snapshot};
use crate::stream::{ChunkPayload, StreamStatus};

/// How often answers, stops and siblings may come between looking and writing.
const MAX_TRIES: usize = 8;

/// Ends the run paused, unless an answer came meanwhile, or somebody asked it to stop: then the same
/// run goes on.
pub(super) async fn suspend(scope: Scope<'_>) -> Result<Event, PerformError> {
    let at = scope.at();
    for _ in 0..MAX_TRIES {
        let found = scope.snapshot().await?;
        let view = match scope.judge(found.clone())? {
            Reading::View(view) => view,
            Reading::Recorded(event) => return Ok(event),
        };
        let cx = EffectContext::new(scope, &view);
        let tried = match go_on(cx, &found).await {
            Ok(Some(event)) => return Ok(event),
            Ok(None) => {
                let children = suspended_children(cx, &found).await?;
                if children.iter().all(SuspendedChild::is_suspended) {
                    pause(cx, &found, &children).await
                } else {
                    wait_for_children(cx, &found, &children).await
                }
            }
            Err(error) => Err(error),
        };
        let tried = match tried.as_ref().err().and_then(PerformError::taken_call) {
            // Rare and large.
            Some(taken) => Box::pin(leave_unasked(cx, &found, taken)).await,
            None => tried,
        };
        match tried {
            // An answer or a stop came between looking and writing, for example.
            Err(error) if error.is_moved() => {}
            other => return other,
        }
        tracing::debug!(event = "run.pause_refused", session = %at.session_id, run = %at.run_id);
    }
    Err(scope.moving())
}

/// Takes answers that came before the run could pause, and the timeouts of calls whose deadline has passed:
/// the same run goes on with them. Also when
/// they were taken by an earlier attempt at this effect, and when the run is asked to stop.
async fn go_on(cx: EffectContext<'_>, found: &Snapshot) -> Result<Option<Event>, PerformError> {
    let EffectContext { scope, view, now } = cx;
    let at = scope.at();
    let Some(open) = &found.open_step else {
        return Err(scope.missing("an open step to pause in"));
    };
    let taken = take_answers(&found.state, open, &at.run_id, now, Overdue::TimesOut);
    if view.stop || taken.is_empty() {
        // Who stops the run takes the answers with it.
        let open = OpenStepRef::of(open);
        let waits = open.calls.is_waiting();
        let answered = scope
            .event(EventKind::Answered { open })
            .with_stop(view.stop);
        return Ok((view.stop || !waits).then_some(answered));
    }
    let commit = || {
        let commit = cx.begin().unless_moved(Some(open));
        commit.with(|commit| taken.write(commit, &at.session_id, scope.base, now))
    };
    let committed = match scope.write(commit).await? {
        CommitOutcome::Made(committed) => committed,
        CommitOutcome::Before(event) => return Ok(Some(event)),
    };
    taken.log_timeouts();
    let open = OpenStepRef::of(&taken.step);
    let event = scope.event(EventKind::Answered { open });
    Ok(Some(event.with_stop(committed.stop.is_some())))
}

/// A call whose child was found suspended, and the run of the child now.
struct SuspendedChild<'a> {
    index: u32,
    call: &'a ToolCall,
    open: &'a OpenCall,
    child: &'a ChildCall,
    agent: String,
    run: Option<(RunId, RunStatus)>,
}

impl SuspendedChild<'_> {
    fn is_suspended(&self) -> bool {
        let run = self.run.as_ref();
        run.is_some_and(|(_, status)| status.is_suspended())
    }
}

async fn suspended_children<'a>(
    cx: EffectContext<'_>,
    found: &'a Snapshot,
) -> Result<Vec<SuspendedChild<'a>>, PerformError> {
    let (root, ports) = (&cx.at().root_session_id, cx.ports());
    let mut all = Vec::new();
    let calls = found.open_step.iter().flat_map(OpenStep::calls);
    for (index, (call, open)) in (0u32..).zip(calls) {
        let child = open.child.as_deref().filter(|_| open.result.is_none());
        let Some(child) = child.filter(|child| child.suspended) else {
            continue;
        };
        let key = SessionKey::new(root, &child.session_id);
        let read = patiently(ports, || ports.store.load(key)).await?;
        let agent = read.as_ref().map(|read| read.state.agent_type.to_string());
        let run = read.and_then(|read| read.run);
        all.push(SuspendedChild {
            index,
            call,
            open,
            child,
            agent: agent.unwrap_or_default(),
            run: run.map(|run| (run.id, run.status)),
        });
    }
    Ok(all)
}

/// Waits again for children that somebody continued: they run, or have ended.
async fn wait_for_children(
    cx: EffectContext<'_>,
    found: &Snapshot,
    children: &[SuspendedChild<'_>],
) -> Result<Event, PerformError> {
    let scope = cx.scope;
    let Some(open) = &found.open_step else {
        return Err(scope.missing("an open step to pause in"));
    };
    let mut after = open.clone();
    let mut changes = Vec::new();
    for one in children.iter().filter(|one| !one.is_suspended()) {
        let mut call = one.open.clone();
        call.child = Some(Box::new(ChildCall {
            suspended: false,
            ..one.child.clone()
        }));
        after.set_call(&one.call.id, call.clone());
        changes.push(Change::OpenCall(
            one.index,
            one.call.id.clone(),
            Box::new(call),
        ));
    }
    let commit = || {
        let commit = cx.begin().unless_moved(Some(open));
        commit.changes(changes.iter().cloned())
    };
    let committed = match scope.write(commit).await? {
        CommitOutcome::Made(committed) => committed,
        CommitOutcome::Before(event) => return Ok(event),
    };
    scope.ports.memory.forget();
    let open = OpenStepRef::of(&after);
    let event = scope.event(EventKind::Answered { open });
    Ok(event.with_stop(committed.stop.is_some()))
}

/// The calls that wait for somebody.
fn waiting(open: &OpenStep) -> impl Iterator<Item = (&ToolCall, &OpenCall)> {
    open.calls().filter(|(_, call)| call.is_awaiting_answer())
}

/// Asks again about calls whose question is not on the list any more: somebody put an older reading
/// of the session in its place.
fn ask_again<'a>(
    cx: EffectContext<'_>,
    mut commit: EffectCommit<'a>,
    found: &Snapshot,
    open: &OpenStep,
) -> Result<EffectCommit<'a>, PerformError> {
    for (call, state) in waiting(open) {
        let standing = found.state.call_standing(&call.id);
        if standing == PendingStatus::Absent {
            let mut asked = match cx.view.agent().tool(&call.name) {
                Some(tool) => pending(cx, call, tool.spec()),
                None => pending_without_tool(cx, call),
            };
            if state.state == CallState::AwaitingApproval {
                let approval_id = cx.ports().ids.approval_id()?;
                asked = asked.needing_approval(approval_id.clone());
                commit = commit.tell([approval_request(call, approval_id, &asked)]);
            }
            commit = commit.ask(asked);
        }
        commit = commit.when(Precondition::Call(call.id.clone(), standing));
    }
    Ok(commit)
}

/// Gives a call its result about which nobody can be asked again: another session of the tree waits for a call of the
/// same id by now, and answers name a call by its id alone.
async fn leave_unasked(
    cx: EffectContext<'_>,
    found: &Snapshot,
    id: &CallId,
) -> Result<Event, PerformError> {
    let scope = cx.scope;
    let Some(open) = &found.open_step else {
        return Err(scope.missing("an open step to pause in"));
    };
    let mut calls = (0u32..).zip(open.calls());
    let Some((index, (call, state))) = calls.find(|(_, (call, _))| call.id == *id) else {
        return Err(scope.missing("that call"));
    };
    let result = match state.state {
        CallState::AwaitingApproval => {
            let why = "nobody could be asked for the approval that it needs.";
            synthesize_not_executed_result(id, &call.name, why)
        }
        _ => synthesize_unknown_result(id, &call.name),
    };
    let told = tool_end_chunk(&result);
    let mut settled = state.clone();
    settled.settle(result);
    let mut after = open.clone();
    after.set_call(id, settled.clone());
    let commit = || {
        let commit = cx.begin().unless_moved(Some(open));
        commit.set_call(index, id, &settled).tell([told.clone()])
    };
    let committed = match scope.write(commit).await? {
        CommitOutcome::Made(committed) => committed,
        CommitOutcome::Before(event) => return Ok(event),
    };
    scope.ports.memory.forget();
    let open = OpenStepRef::of(&after);
    let event = scope.event(EventKind::Answered { open });
    Ok(event.with_stop(committed.stop.is_some()))
}

/// Ends the run paused.
async fn pause(
    cx: EffectContext<'_>,
    found: &Snapshot,
    children: &[SuspendedChild<'_>],
) -> Result<Event, PerformError> {
    let EffectContext { scope, view, now } = cx;
    let at = scope.at();
    let open = view.open_step(scope)?;
    let is_approval = |call: &OpenCall| call.state == CallState::AwaitingApproval;
    let all_need_approval = waiting(open).all(|(_, call)| is_approval(call));
    let waiting: Vec<CallId> = waiting(open).map(|(call, _)| call.id.clone()).collect();
    let is_partial = open.calls.iter().any(|call| call.result.is_some());
    let status = if is_partial {
        RunStatus::SuspendedStepPartial
    } else if waiting.is_empty() {
        RunStatus::SuspendedAwaitingChildren
    } else {
        RunStatus::SuspendedClientTool
    };
    let mut commit = cx.begin().unless_moved(Some(open)).unless_stopped();
    for one in children {
        // A child that is continued meanwhile has to be waited for.
        let Some((run, status)) = &one.run else {
            continue;
        };
        let session = one.child.session_id.clone();
        let as_read = Precondition::Run(run.clone(), vec![*status]);
        let wait = ChildWait::new(session.clone(), one.agent.clone(), now);
        commit = commit
            .with(|commit| commit.when_in(session, as_read))
            .set([Field::AwaitedChild(one.call.id.clone(), Some(wait))]);
    }
    if let Some(family) = &view.context.family {
        // Whether it runs decides if the tree comes to rest.
        let parent = family.parent.clone();
        commit = commit.with(|commit| commit.when_in(parent, Precondition::Exists));
    }
    let asked = ask_again(cx, commit, found, open)?;

    // What finished siblings wrote is applied now, and not again when the step is settled.
    let mut applied = Applied::new(&view.state(), StepWrites::default(), open)?;
    let mut kept = OpenStep::clone(open);
    for call in &mut kept.calls {
        call.writes = StepWrites::default();
    }
    // What the reply cost is recorded now, too: a pause may be long.
    let usage = reply_usage(cx, &kept)?;
    kept.usage = None;
    let kept = Arc::new(kept);
    let hooks = applied.hooks(cx)?;
    let reason = if waiting.is_empty() {
        SuspendReason::AwaitingChildren
    } else if all_need_approval {
        SuspendReason::Approval
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
    let streamed = Streamed::since(open.start_sequence, &[]);
    let mut told = applied.told(scope, streamed).await?;
    told.extend(hooks.take_said());

    let mut run = RunRecord::clone(&view.run);
    run.status = status;
    run.ended_at = Some(now);
    let awaited = children.iter().map(|one| one.child.session_id.clone());
    let mut suspended = Suspended::new(open.id.clone(), waiting.clone(), awaited.collect());
    suspended.before = open.before();
    run.suspended = Some(suspended);
    let (mut checkpoint, created) = cx.checkpoint()?;
    checkpoint.open_step = Some(open.id.clone());
    told.push(created);
    told.push(ChunkPayload::RunPaused {
        status,
        tool_call_ids: waiting.clone(),
    });
    let family = view.context.family.as_ref();
    let noted = family.and_then(|family| {
        let noted = family.noted(&run.id, ChildStatus::Suspended)?;
        Some((family.parent.clone(), noted))
    });
    let commit = || {
        let paused = [
            Change::Set(Field::SuspendedStep(Some(open.id.clone()))),
            Change::Run(Box::new(run.clone())),
            Change::CheckpointHere(checkpoint.clone()),
            Change::Lease(None),
        ];
        let commit = asked.clone().changes(usage.clone());
        let commit = match noted.clone() {
            Some((parent, noted)) => commit.with(|commit| commit.then_in(parent, noted)),
            None => commit,
        };
        commit
            .change(Change::OpenStep(Some(Arc::clone(&kept))))
            .write_state(&applied.writes)
            .changes(paused)
            .end_budget()
            .tell(told.iter().cloned())
            .stream(StreamStatus::Paused)
    };
    match scope.write(commit).await? {
        CommitOutcome::Made(_) => {}
        CommitOutcome::Before(event) => return Ok(event),
    }
    for call in &waiting {
        tracing::info!(event = "client_tool.suspended", session = %at.session_id, run = %at.run_id, %call);
    }
    Ok(scope.event(EventKind::Ended { status }))
}
