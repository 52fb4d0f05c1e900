//! Runs one call and makes its result durable.

mod run;
mod sink;

use std::sync::Arc;

use self::run::{Came, run};
use super::deltas::Deltas;
use super::intents::{asking, pending};
use super::settle::{Settling, finishing_result, settle};
use super::work::{self, Look, Work, Written, begin, look, say, then, write};
use super::{PerformError, Ports};
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

pub(super) async fn perform(
    effect: &Effect,
    index: u32,
    unknown: bool,
    ports: &Ports,
) -> Result<Event, PerformError> {
    let work = match look(effect, ports).await? {
        Look::Work(work) => *work,
        Look::Done(event) => return Ok(event),
    };
    let at = &effect.at;
    let step = Arc::clone(work.open_step(at)?);
    let found = usize::try_from(index)
        .ok()
        .and_then(|place| step.call(place));
    let Some((call, open)) = found else {
        return Err(PerformError::Missing {
            session: at.session_id.clone(),
            what: "that call",
        });
    };
    let mut deltas = Deltas::new(at, ports);
    let came = run(
        effect,
        ports,
        &work,
        &step,
        call,
        open,
        unknown,
        &mut deltas,
    )
    .await?;
    if came.pause {
        return wait_for_somebody(effect, index, ports, &work, call, open, came.writes).await;
    }
    finish(effect, index, ports, &work, &step, call, open, came, deltas).await
}

/// Makes the result durable, and settles the step when it was the last.
#[expect(
    clippy::too_many_arguments,
    reason = "a call, its surroundings and what it came to"
)]
async fn finish(
    effect: &Effect,
    index: u32,
    ports: &Ports,
    work: &Work,
    step: &OpenStep,
    call: &ToolCall,
    open: &OpenCall,
    came: Came,
    mut deltas: Deltas<'_>,
) -> Result<Event, PerformError> {
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
    let said = ended(&came.result);
    let success = came.result.status.is_success();
    let size = came.result.content.len();
    terminal.settle(came.result);
    let mut kinds: Vec<_> = came.usage.into_iter().map(UsageKind::Custom).collect();
    if came.ran {
        kinds.push(UsageKind::Tool {
            name: call.name.clone(),
            success,
            duration_ms,
        });
    }
    let base = Arc::clone(deltas.base());
    let mut commit = begin(at, now);
    commit.chunks.extend(deltas.take());
    for (place, kind) in kinds.into_iter().enumerate() {
        let id = UsageId::of_call(&call.id, &format!("{place}"));
        let entry = UsageEntry::new(id, at.run_id.clone(), at.step, now, kind);
        commit = then(commit, at, [Change::Usage(entry)]);
    }
    commit = say(commit, &base, now, [said]);

    // Siblings in other processes may have finished: what is known here is enough to settle, and
    // never wrong to leave to the loop.
    let mut step = siblings(ports, step);
    set(&mut step, &call.id, terminal.clone());
    let skipped = skip_later_finishers(&mut step);
    if step.is_settled() {
        let settling = Settling {
            after: Some(step.start_sequence),
            open: step,
            writes: StepWrites::default(),
            output: None,
            commit: say(commit.clone(), &base, now, skipped),
            base,
            greet: false,
            ending: None,
        };
        match settle(effect, ports, work, settling).await {
            // The history moved beside the run: the result is made durable by itself.
            Err(error) if error.is_moved() => {}
            other => return other,
        }
    }
    let fatal = terminal.fatal.is_some();
    let change = Change::OpenCall(call.id.clone(), Box::new(terminal.clone()));
    commit = then(commit, at, [change]);
    let committed = match write(effect, ports, commit).await? {
        Written::Now(committed) => committed,
        Written::Before(event) => return Ok(event),
    };
    work::update(ports, &committed, |work| work.set_call(&call.id, terminal));
    let called = Happened::called(index, Standing::Terminal, size, fatal);
    Ok(Event::of(at, called).with_stop(committed.stop.is_some()))
}

/// The open step as it is known now, with what siblings came to since this call began.
fn siblings(ports: &Ports, began_with: &OpenStep) -> OpenStep {
    let latest = work::remembered(ports).and_then(|latest| latest.open);
    let latest = latest.filter(|open| open.id == began_with.id);
    latest.map_or_else(|| began_with.clone(), |open| OpenStep::clone(&open))
}

fn set(step: &mut OpenStep, call: &CallId, open: OpenCall) {
    let place = step.message.tool_calls().position(|made| made.id == *call);
    if let Some(slot) = place.and_then(|place| step.calls.get_mut(place)) {
        *slot = open;
    }
}

/// Once a result ends the turn, later calls of its phase are not run.
fn skip_later_finishers(step: &mut OpenStep) -> Vec<ChunkPayload> {
    let mut said = Vec::new();
    if finishing_result(step).is_none() {
        return said;
    }
    let calls: Vec<_> = step.message.tool_calls().cloned().collect();
    for (call, open) in calls.iter().zip(&mut step.calls) {
        if open.phase == CallPhase::Finish && open.result.is_none() {
            let why = "another call of the same reply ended the turn.";
            let result = synthesize_not_executed_result(&call.id, &call.name, why);
            said.push(ended(&result));
            open.settle(result);
        }
    }
    said
}

/// Leaves a call of unknown outcome to a person who looks.
async fn wait_for_somebody(
    effect: &Effect,
    index: u32,
    ports: &Ports,
    work: &Work,
    call: &ToolCall,
    open: &OpenCall,
    writes: StepWrites,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let now = ports.clock.now();
    let mut waiting = open.clone();
    waiting.state = CallState::AwaitingClient;
    waiting.writes = writes;
    let mut commit = begin(at, now);
    if let Some(tool) = work.agent().tool(&call.name) {
        let pending = pending(at, call, tool.spec(), now);
        commit.changes.extend(asking(at, pending));
    }
    let change = Change::OpenCall(call.id.clone(), Box::new(waiting.clone()));
    commit = then(commit, at, [change]);
    let committed = match write(effect, ports, commit).await? {
        Written::Now(committed) => committed,
        Written::Before(event) => return Ok(event),
    };
    work::update(ports, &committed, |work| work.set_call(&call.id, waiting));
    let called = Happened::called(index, Standing::AwaitingClient, 0, false);
    Ok(Event::of(at, called).with_stop(committed.stop.is_some()))
}
