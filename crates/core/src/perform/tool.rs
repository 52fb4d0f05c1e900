//! Runs one call and makes its result durable.

mod claim;
mod run;
mod sink;

use std::sync::Arc;

use self::claim::{Claimed, claim};
use self::run::{Came, run};
use super::deltas::Deltas;
use super::intents::{asking, pending};
use super::settle::{Settling, finishing_result, settle};
use super::work::{self, Look, Work, look};
use super::writing::{Written, as_read, begin, say, then, write};
use super::{Attempt, PerformError, Ports};
use crate::entries::ended;
use crate::id::{CallId, UsageId};
use crate::machine::{Effect, Event, Happened, Standing};
use crate::message::{ResultStatus, ToolCall};
use crate::session::{CallPhase, CallState, EffectState, OpenCall, OpenStep};
use crate::state::StepWrites;
use crate::step::synthesize_not_executed_result;
use crate::store::Change;
use crate::stream::ChunkPayload;
use crate::usage::{UsageEntry, UsageKind};

/// A call, and where it stands in its step.
pub(super) struct Calling<'a> {
    pub(super) effect: &'a Effect,
    pub(super) ports: &'a Ports,
    pub(super) work: &'a Work,
    pub(super) step: &'a Arc<OpenStep>,
    pub(super) index: u32,
    pub(super) call: &'a ToolCall,
    pub(super) open: &'a OpenCall,
}

pub(super) async fn perform(
    effect: &Effect,
    index: u32,
    unknown: bool,
    attempt: Attempt,
    ports: &Ports,
) -> Result<Event, PerformError> {
    let mut work = match look(effect, ports).await? {
        Look::Work(work) => *work,
        Look::Done(event) => return Ok(event),
    };
    let at = &effect.at;
    let (call, open) = called(&work, effect, index)?;
    // Somebody began it: in a process that is gone, or in an attempt that may still be at it.
    let is_begun = Standing::of(open) != Standing::Ready;
    let mut may_have_begun = unknown || is_begun || attempt == Attempt::Repeat;
    let tool = work.agent().tool(&call.name);
    let is_repeatable = tool.is_some_and(|tool| tool.spec().is_repeatable());
    // Where nobody tells, what may be repeated need not be claimed, only kept to itself.
    let is_quiet = attempt == Attempt::Untold && is_repeatable && !may_have_begun;
    if attempt != Attempt::First && !is_quiet {
        match claim(effect, ports, &mut work, index).await? {
            Claimed::Mine { was_begun } => may_have_begun |= was_begun,
            Claimed::Done(event) => return Ok(event),
        }
    }

    let step = Arc::clone(work.open_step(at)?);
    let (call, open) = called(&work, effect, index)?;
    let mut deltas = Deltas::of_call(at, ports, &step, index, open.attempts());
    if is_quiet {
        // Another attempt may be at it. What both of them streamed could not be told apart.
        deltas = deltas.hold();
    }
    let calling = Calling {
        effect,
        ports,
        work: &work,
        step: &step,
        index,
        call,
        open,
    };
    let came = run(&calling, may_have_begun, &mut deltas).await?;
    if came.pause {
        return calling.wait_for_somebody(came.writes).await;
    }
    calling.finish(came, deltas).await
}

/// The call of an effect, and what is known of it.
fn called<'a>(
    work: &'a Work,
    effect: &Effect,
    index: u32,
) -> Result<(&'a ToolCall, &'a OpenCall), PerformError> {
    let at = &effect.at;
    let step = work.open_step(at)?;
    let found = usize::try_from(index).ok();
    let found = found.and_then(|place| step.call(place));
    found.ok_or_else(|| missing(effect))
}

fn missing(effect: &Effect) -> PerformError {
    PerformError::Missing {
        session: effect.at.session_id.clone(),
        what: "that call",
    }
}

impl Calling<'_> {
    /// Makes the result durable, and settles the step when it was the last.
    async fn finish(&self, came: Came, mut deltas: Deltas<'_>) -> Result<Event, PerformError> {
        let Self {
            effect,
            ports,
            work,
            step,
            index,
            call,
            open,
        } = *self;
        let at = &effect.at;
        let now = ports.clock.now();
        let duration_ms = u64::try_from(came.duration.as_millis()).unwrap_or(u64::MAX);
        let mut terminal = OpenCall {
            writes: came.writes,
            fatal: came.fatal,
            duration_ms,
            ..open.clone()
        };
        if let Some(effect) = &mut terminal.effect {
            effect.state = match came.result.status {
                ResultStatus::Unknown => EffectState::Unknown,
                _ => EffectState::Done,
            };
        }
        let success = came.result.status.is_success();
        terminal.settle(came.result);
        let ran = came.ran.then(|| UsageKind::Tool {
            name: call.name.clone(),
            success,
            duration_ms,
        });
        let kinds = came.usage.into_iter().map(UsageKind::Custom).chain(ran);
        let usage = kinds.enumerate().map(|(place, kind)| {
            let id = UsageId::of_call(&call.id, &place.to_string());
            UsageEntry::new(id, at.run_id.clone(), at.step, now, kind)
        });
        let usage: Vec<_> = usage.collect();
        let base = deltas.base().clone();
        let unsent = deltas.take().await?;

        // Siblings in other processes may have finished: what is known here is enough to settle, and
        // never wrong to leave to the loop.
        let latest = siblings(ports, step);
        let with_result = || {
            let mut step = OpenStep::clone(&latest);
            set(&mut step, &call.id, terminal.clone());
            let (skipped, said) = skip_later_finishers(&mut step);
            (step, skipped, said)
        };
        let (mut step, skipped, said) = with_result();
        // What the commit begins with.
        let begun = || {
            let mut commit = begin(effect, work, now);
            commit.chunks.extend_from_slice(&unsent);
            commit = then(commit, at, usage.iter().cloned().map(Change::Usage));
            let result = terminal.result.iter().map(ended);
            say(commit, &base, now, result.chain(said.iter().cloned()))
        };
        if step.is_settled() {
            let settling = Settling {
                after: Some(step.start_sequence),
                open: step,
                writes: StepWrites::default(),
                output: None,
                begun: || as_read(begun(), at, Some(&latest)),
                unsent: &unsent,
                base: &base,
                greet: false,
                ending: None,
                heeds_stop: true,
                plain: false,
            };
            match settle(effect, ports, work, settling).await {
                // A sibling came to something meanwhile: the result is made durable by itself.
                Err(error) if error.is_moved() => (step, ..) = with_result(),
                other => return other,
            }
        }
        let commit = || {
            let change = Change::OpenCall(index, call.id.clone(), Box::new(terminal.clone()));
            let commit = then(begun(), at, [change]);
            then(commit, at, skipped.iter().cloned())
        };
        let committed = match write(effect, ports, commit).await? {
            Written::Now(committed) => committed,
            Written::Before(event) => return Ok(event),
        };
        work::update(ports, &committed, |work| work.set_calls(&step));
        self.event(&step, committed.stop.is_some())
    }

    /// Leaves a call of unknown outcome to a person who looks.
    async fn wait_for_somebody(&self, writes: StepWrites) -> Result<Event, PerformError> {
        let Self {
            effect,
            ports,
            work,
            step,
            index,
            call,
            open,
        } = *self;
        let at = &effect.at;
        let now = ports.clock.now();
        let mut waiting = open.clone();
        waiting.state = CallState::AwaitingClient;
        waiting.writes = writes;
        if let Some(effect) = &mut waiting.effect {
            effect.state = EffectState::Unknown;
        }
        let commit = || {
            let mut commit = begin(effect, work, now);
            if let Some(tool) = work.agent().tool(&call.name) {
                let pending = pending(at, call, tool.spec(), now);
                commit.changes.extend(asking(at, pending));
            }
            let change = Change::OpenCall(index, call.id.clone(), Box::new(waiting.clone()));
            then(commit, at, [change])
        };
        let committed = match write(effect, ports, commit).await? {
            Written::Now(committed) => committed,
            Written::Before(event) => return Ok(event),
        };
        let mut step = OpenStep::clone(step);
        set(&mut step, &call.id, waiting.clone());
        work::update(ports, &committed, |work| work.set_call(&call.id, waiting));
        self.event(&step, committed.stop.is_some())
    }

    fn event(&self, step: &OpenStep, stop: bool) -> Result<Event, PerformError> {
        let at = &self.effect.at;
        let called = Happened::called(step, self.index);
        let called = called.ok_or_else(|| missing(self.effect))?;
        Ok(Event::of(at, called).with_stop(stop))
    }
}

/// The open step as it is known now, with what siblings came to since this call began.
fn siblings(ports: &Ports, began_with: &Arc<OpenStep>) -> Arc<OpenStep> {
    let latest = work::remembered_step(ports);
    let latest = latest.filter(|open| open.id == began_with.id);
    latest.unwrap_or_else(|| Arc::clone(began_with))
}

pub(super) fn set(step: &mut OpenStep, call: &CallId, open: OpenCall) {
    let place = step.message.tool_calls().position(|made| made.id == *call);
    if let Some(slot) = place.and_then(|place| step.calls.get_mut(place)) {
        *slot = open;
    }
}

/// Once a result ends the turn, later calls of its phase are not run. Gives the changes that make
/// this durable, and what readers are told.
fn skip_later_finishers(step: &mut OpenStep) -> (Vec<Change>, Vec<ChunkPayload>) {
    let (mut changes, mut said) = (Vec::new(), Vec::new());
    if finishing_result(step).is_none() {
        return (changes, said);
    }
    let calls: Vec<_> = step.message.tool_calls().cloned().collect();
    for (index, (call, open)) in (0u32..).zip(calls.iter().zip(&mut step.calls)) {
        if open.phase == CallPhase::Finish && open.result.is_none() {
            let why = "another call of the same reply ended the turn.";
            let result = synthesize_not_executed_result(&call.id, &call.name, why);
            said.push(ended(&result));
            open.settle(result);
            let open = Box::new(open.clone());
            changes.push(Change::OpenCall(index, call.id.clone(), open));
        }
    }
    (changes, said)
}
