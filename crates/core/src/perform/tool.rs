//! Runs one call and makes its result durable.

mod child;
mod claim;
mod companion;
mod run;
mod sink;

use std::sync::Arc;

pub(super) use self::child::take_child;
use self::claim::{Claimed, claim};
use self::companion::call_companion;
use self::run::CallOutcome;
use super::after_step::finishing_result;
use super::commit::CommitOutcome;
use super::deltas::Deltas;
use super::intents::pending;
use super::patches::Streamed;
use super::reading::Reading;
use super::scope::{EffectContext, Scope};
use super::settle::{Settling, settle};
use super::{Attempt, PerformError, SessionView};
use crate::entries::tool_end_chunk;
use crate::id::UsageId;
use crate::machine::{CallStatus, EffectKind, Event, EventKind};
use crate::message::{ResultStatus, ToolCall};
use crate::session::{CallPhase, CallState, EffectState, OpenCall, OpenStep};
use crate::state::StepWrites;
use crate::step::synthesize_not_executed_result;
use crate::store::Change;
use crate::stream::ChunkPayload;
use crate::tool::Tool;
use crate::usage::{UsageEntry, UsageKind};

/// A call that is performed, and its place in its step.
#[derive(Clone, Copy)]
struct Calling<'a> {
    cx: EffectContext<'a>,
    step: &'a Arc<OpenStep>,
    index: u32,
    call: &'a ToolCall,
    open: &'a OpenCall,
}

pub(super) async fn perform(
    scope: Scope<'_>,
    index: u32,
    unknown: bool,
    attempt: Attempt,
) -> Result<Event, PerformError> {
    let mut view = match scope.reading().await? {
        Reading::View(view) => view,
        Reading::Recorded(event) => return Ok(event),
    };
    let (call, open) = called(scope, &view, index)?;
    // Somebody began it: in a process that is gone, or in an attempt that may still be at it.
    let is_begun = CallStatus::of(open) != CallStatus::Ready;
    let mut may_have_begun = unknown || is_begun || attempt == Attempt::Repeat;
    let tool = view.agent().tool(&call.name);
    let is_repeatable = tool.is_some_and(Tool::is_repeatable);
    if tool.is_some_and(|tool| tool.companion().is_some()) {
        // Boxed: every call holds this future, and few are of a companion tool.
        return Box::pin(call_companion(scope, index)).await;
    }
    let is_child = tool.is_some_and(|tool| tool.child_agent().is_some());
    // Where nobody tells, what may be repeated need not be claimed, only kept to itself.
    let is_quiet = attempt == Attempt::Untold && is_repeatable && !may_have_begun;
    // The commit that starts a child is its claim.
    if attempt != Attempt::First && !is_quiet && !is_child {
        match claim(scope, &mut view, index).await? {
            Claimed::Mine { was_begun } => may_have_begun |= was_begun,
            Claimed::Recorded(event) => return Ok(event),
        }
    }

    let calling = Calling::of(scope, &view, index)?;
    let (call, open) = (calling.call, calling.open);
    let mut deltas = Deltas::of_call(scope, calling.step, index, open.attempts());
    if is_quiet {
        // Another attempt may be at it. What both of them streamed could not be told apart.
        deltas = deltas.hold();
    }
    let tool = view.agent().tool(&call.name);
    if let Some((tool, sub_agent)) = tool.and_then(|tool| Some((tool, tool.child_agent()?))) {
        // Boxed: every call holds this future, and few start a child.
        return Box::pin(calling.start_child(tool, sub_agent, deltas)).await;
    }
    let outcome = calling.run(may_have_begun, &mut deltas).await?;
    if outcome.pause {
        match calling.wait_for_somebody(&outcome.writes).await {
            // Another session waits for a call of this id, and would lose its answer: the model is told instead.
            Err(error) if error.taken_call().is_some() => {}
            other => return other,
        }
    }
    calling.finish(outcome, deltas).await
}

/// The call of an effect, and what is known of it.
fn called<'a>(
    scope: Scope<'_>,
    view: &'a SessionView,
    index: u32,
) -> Result<(&'a ToolCall, &'a OpenCall), PerformError> {
    let call = view.open_step(scope)?.call_at(index);
    call.ok_or_else(|| scope.missing("that call"))
}

impl<'a> Calling<'a> {
    /// The call of an effect on a session as it was read, at the present instant.
    fn of(scope: Scope<'a>, view: &'a SessionView, index: u32) -> Result<Self, PerformError> {
        let (call, open) = called(scope, view, index)?;
        Ok(Self {
            cx: EffectContext::new(scope, view),
            step: view.open_step(scope)?,
            index,
            call,
            open,
        })
    }
}

impl Calling<'_> {
    /// Makes the result durable, and settles the step when it was the last.
    async fn finish(
        self,
        outcome: CallOutcome,
        mut deltas: Deltas<'_>,
    ) -> Result<Event, PerformError> {
        let Self {
            step, index, call, ..
        } = self;
        let cx = self.cx.renewed();
        let EffectContext { scope, now, .. } = cx;
        let (at, memory) = (scope.at(), &scope.ports.memory);
        let duration_ms = u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX);
        let mut terminal = OpenCall {
            writes: outcome.writes,
            fatal: outcome.fatal,
            duration_ms,
            ..self.open.clone()
        };
        if let Some(effect) = &mut terminal.effect {
            effect.state = match outcome.result.status {
                ResultStatus::Unknown => EffectState::Unknown,
                _ => EffectState::Done,
            };
        }
        let success = outcome.result.status.is_success();
        terminal.settle(outcome.result);
        let ran = outcome.ran.then(|| UsageKind::Tool {
            name: call.name.clone(),
            success,
            duration_ms,
        });
        let (child, beside) = (outcome.child, outcome.beside);
        let used = child.as_ref().and_then(|child| child.usage.clone());
        let kinds = outcome.usage.into_iter().map(UsageKind::Custom);
        let kinds = kinds.chain(ran).chain(used);
        let usage = kinds.enumerate().map(|(place, kind)| {
            let id = UsageId::of_call(&call.id, place);
            UsageEntry {
                id,
                run_id: at.run_id.clone(),
                step: at.step,
                timestamp: now,
                kind,
            }
        });
        let usage: Vec<_> = usage.collect();
        let unsent = deltas.take().await?;

        // Siblings in other processes may have finished: what is known here is enough to settle, and
        // never wrong to leave to the loop.
        let latest = latest_step(scope, step);
        let with_result = || {
            let mut step = OpenStep::clone(&latest);
            step.set_call(&call.id, terminal.clone());
            let (skipped, told) = skip_later_finishers(&mut step);
            (step, skipped, told)
        };
        let (mut step, skipped, told) = with_result();
        // What the commit begins with.
        let begun = || {
            let result = terminal.result.iter().map(tool_end_chunk);
            let ended = child.iter().filter_map(|child| child.told.clone());
            let link = child.iter().filter_map(|child| child.child.clone());
            let link = link.map(|link| Change::Child(Box::new(link)));
            let begun = match &beside {
                Some(beside) => beside.add(cx.begin()),
                None => cx.begin(),
            };
            begun
                .chunks(&unsent)
                .changes(usage.iter().cloned().map(Change::Usage).chain(link))
                .tell(ended.chain(result).chain(told.iter().cloned()))
        };
        if step.is_settled() {
            let settling = Settling {
                streamed: Streamed::since(step.start_sequence, &unsent),
                // A tool has notified the hooks before it began.
                resumed: scope.effect.first
                    && matches!(scope.effect.kind, EffectKind::Child { .. }),
                ..Settling::new(step, || begun().unless_moved(Some(&latest)))
            };
            match settle(cx, settling).await {
                // A sibling came to something meanwhile: the result is made durable by itself.
                Err(error) if error.is_moved() => (step, ..) = with_result(),
                other => return other,
            }
        }
        let commit = || {
            let commit = begun().set_call(index, &call.id, &terminal);
            commit.changes(skipped.iter().cloned())
        };
        let committed = match scope.write(commit).await? {
            CommitOutcome::Made(committed) => committed,
            CommitOutcome::Before(event) => return Ok(event),
        };
        memory.update(&committed, |view| view.set_calls(&step));
        self.event(&step, committed.stop.is_some())
    }

    /// Leaves a call of unknown outcome to a person who looks.
    async fn wait_for_somebody(self, writes: &StepWrites) -> Result<Event, PerformError> {
        let Self {
            step, index, call, ..
        } = self;
        let cx = self.cx.renewed();
        let EffectContext { scope, view, .. } = cx;
        let mut waiting = self.open.clone();
        waiting.state = CallState::AwaitingClient;
        waiting.writes = writes.clone();
        if let Some(effect) = &mut waiting.effect {
            effect.state = EffectState::Unknown;
        }
        let commit = || {
            let mut commit = cx.begin();
            if let Some(tool) = view.agent().tool(&call.name) {
                commit = commit.ask(pending(cx, call, tool.spec()));
            }
            commit.set_call(index, &call.id, &waiting)
        };
        let committed = match scope.write(commit).await? {
            CommitOutcome::Made(committed) => committed,
            CommitOutcome::Before(event) => return Ok(event),
        };
        let mut step = OpenStep::clone(step);
        step.set_call(&call.id, waiting.clone());
        let memory = &scope.ports.memory;
        memory.update(&committed, |view| view.set_call(&call.id, waiting));
        self.event(&step, committed.stop.is_some())
    }

    fn event(self, step: &OpenStep, stop: bool) -> Result<Event, PerformError> {
        let scope = self.cx.scope;
        let called = EventKind::called(step, self.index);
        let called = called.ok_or_else(|| scope.missing("that call"))?;
        Ok(scope.event(called).with_stop(stop))
    }
}

/// The open step as it is known now, with the results of siblings since this call began.
fn latest_step(scope: Scope<'_>, began_with: &Arc<OpenStep>) -> Arc<OpenStep> {
    let latest = scope.ports.memory.open_step();
    let latest = latest.filter(|open| open.id == began_with.id);
    latest.unwrap_or_else(|| Arc::clone(began_with))
}

/// Once a result ends the turn, later calls of its phase are not run. Gives the changes that make
/// this durable, and what readers are told.
fn skip_later_finishers(step: &mut OpenStep) -> (Vec<Change>, Vec<ChunkPayload>) {
    let (mut changes, mut told) = (Vec::new(), Vec::new());
    if finishing_result(step).is_none() {
        return (changes, told);
    }
    let calls: Vec<_> = step.message.tool_calls().cloned().collect();
    for (index, (call, open)) in (0u32..).zip(calls.iter().zip(&mut step.calls)) {
        if open.phase == CallPhase::Finish && open.result.is_none() {
            let why = "another call of the same reply ended the turn.";
            let result = synthesize_not_executed_result(&call.id, &call.name, why);
            told.push(tool_end_chunk(&result));
            open.settle(result);
            let open = Box::new(open.clone());
            changes.push(Change::OpenCall(index, call.id.clone(), open));
        }
    }
    (changes, told)
}
