//! Runs one call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::clocked::{First, first};
use super::deltas::{Deltas, WINDOW};
use super::executable::ExecutableCall;
use super::guard::caught;
use super::hooks::{Hooks, fire};
use super::intents::{asking, pending, surroundings};
use super::settle::{Settling, finishing_result, settle, writers};
use super::work::{self, Look, Work, Written, begin, look, say, then, write};
use super::{PerformError, Ports};
use crate::entries::ended;
use crate::error::{ErrorCode, ErrorRecord};
use crate::hooks::{BeforeTool, StateChange};
use crate::id::{CallId, UsageId};
use crate::machine::{Effect, Event, Happened, Standing};
use crate::message::{ResultStatus, ToolCall, ToolMessage};
use crate::notify::Notify;
use crate::session::{CallPhase, CallState, EffectState, OpenCall, OpenStep};
use crate::shared_state::SharedState;
use crate::state::{PatchOp, StepWrites, apply_writes, merge_writes, to_rfc6902};
use crate::step::{
    ToolResultInput, create_tool_result_message, failed_result, synthesize_not_executed_result,
    synthesize_unknown_result,
};
use crate::store::Change;
use crate::stream::ChunkPayload;
use crate::tool::{OnUnknown, Reconciled, Tool, ToolCx, ToolError, ToolEvent, ToolEvents};
use crate::usage::{CustomUsage, UsageEntry, UsageKind};

/// What a call came to.
struct Came {
    result: ToolMessage,
    fatal: Option<ErrorRecord>,
    writes: StepWrites,
    usage: Vec<CustomUsage>,
    duration: Duration,
    /// Whether the tool itself was run.
    ran: bool,
    /// Whether a person has to look first.
    pause: bool,
}

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
        return wait_for_somebody(effect, index, ports, &work, call, open).await;
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
    skip_later_finishers(&mut step);
    if step.is_settled() {
        let settling = Settling {
            after: Some(step.start_sequence),
            open: step,
            writes: StepWrites::default(),
            output: None,
            commit: commit.clone(),
            base,
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
fn skip_later_finishers(step: &mut OpenStep) {
    if finishing_result(step).is_none() {
        return;
    }
    let calls: Vec<_> = step.message.tool_calls().cloned().collect();
    for (call, open) in calls.iter().zip(&mut step.calls) {
        if open.phase == CallPhase::Finish && open.result.is_none() {
            let why = "another call of the same reply ended the turn.";
            open.settle(synthesize_not_executed_result(&call.id, &call.name, why));
        }
    }
}

/// Leaves a call of unknown outcome to a person who looks.
async fn wait_for_somebody(
    effect: &Effect,
    index: u32,
    ports: &Ports,
    work: &Work,
    call: &ToolCall,
    open: &OpenCall,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let now = ports.clock.now();
    let mut waiting = open.clone();
    waiting.state = CallState::AwaitingClient;
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

/// What a call sees: the committed state, and, when it may finish the turn, what the others wrote.
fn view(work: &Work, step: &OpenStep, open: &OpenCall) -> Result<SharedState, PerformError> {
    let mut state = Arc::clone(&work.state);
    if open.phase == CallPhase::Finish {
        let merged = merge_writes(&state, writers(step));
        if !merged.writes.is_empty() {
            apply_writes(Arc::make_mut(&mut state), &merged.writes)?;
        }
    }
    Ok(SharedState::of_committed(state))
}

/// Runs a call that may be run, and says what it came to.
#[expect(
    clippy::too_many_arguments,
    reason = "a call, its surroundings and its stream"
)]
async fn run(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    step: &OpenStep,
    call: &ToolCall,
    open: &OpenCall,
    unknown: bool,
    deltas: &mut Deltas<'_>,
) -> Result<Came, PerformError> {
    let at = &effect.at;
    let Some(tool) = work.agent().tool(&call.name) else {
        let text = format!("There is no tool named {} any more.", call.name);
        return Ok(Came::failed(call, &text, ResultStatus::Error));
    };
    let Some(executable) = ExecutableCall::new(call, open, tool) else {
        tracing::error!(event = "approval.missing", session = %at.session_id, call = %call.id);
        let why = "it needs an approval that it does not have.";
        let result = synthesize_not_executed_result(&call.id, &call.name, why);
        return Ok(Came::with(result));
    };
    let state = view(work, step, open)?;
    let sink = Arc::new(Sink::default());
    let cx = surroundings(at, work, ports, call, state.clone())
        .events(Arc::clone(&sink) as Arc<dyn ToolEvents>)
        .build();
    if unknown && let Some(came) = reconcile(&executable, &cx).await {
        return Ok(came);
    }

    let hooks = Hooks::on(at, work, ports, Some(state.clone()));
    if effect.first {
        super::model::greet_again(&hooks, work).await?;
    }
    let named = |hook: &str| format!("{hook}:{}", call.id);
    fire!(
        hooks,
        before_tool,
        &named("before_tool"),
        BeforeTool::new(tool.spec(), call)
    );
    let began = ports.clock.now();
    let outcome = execute(&executable, cx, &sink, deltas, ports).await?;
    let duration = ports.clock.now().since(began);
    for payload in hooks.take_said() {
        deltas.push(payload);
    }
    let Outcome { mut result, fatal } = outcome.judged(&executable, at);
    if open.phase == CallPhase::Finish {
        result = fitting_output(result, work);
    }
    let writes = state.writes()?;
    if !writes.is_empty() && !hooks.is_empty() {
        let patches = patches(&writes, work, step, open)?;
        let now = state.get()?;
        fire!(
            hooks,
            on_state_change,
            &named("on_state_change"),
            StateChange::new(&call.id, &patches, &now)
        );
        for payload in hooks.take_said() {
            deltas.push(payload);
        }
    }
    Ok(Came {
        result,
        fatal,
        writes: state.writes()?,
        usage: sink.take().usage,
        duration,
        ran: true,
        pause: false,
    })
}

fn patches(
    writes: &StepWrites,
    work: &Work,
    step: &OpenStep,
    open: &OpenCall,
) -> Result<Vec<PatchOp>, PerformError> {
    let base = view(work, step, open)?.get()?;
    Ok(to_rfc6902(writes, &base)?)
}

/// A result that would end the turn has to be an output of the agent.
fn fitting_output(result: ToolMessage, work: &Work) -> ToolMessage {
    let schema = work.agent().output_schema();
    let Some(schema) = schema.filter(|_| result.status.is_success()) else {
        return result;
    };
    let errors = schema.errors(&result.value());
    if errors.is_empty() {
        return result;
    }
    let text = format!(
        "The result does not fit the output schema: {}.",
        errors.join("; ")
    );
    let ToolMessage {
        tool_call_id,
        tool_name,
        ..
    } = &result;
    failed_result(tool_call_id, tool_name, &text, ResultStatus::Error)
}

/// Finds out about a call that was started before. `None`: it may be run.
async fn reconcile(executable: &ExecutableCall<'_>, cx: &ToolCx) -> Option<Came> {
    let (call, tool) = (executable.call(), executable.tool());
    if let Some(reconciler) = tool.reconciler() {
        let asked = reconciler.reconcile(call.arguments.clone(), cx.clone());
        match caught(asked).await {
            Ok(Ok(Reconciled::Done(value))) => {
                return Some(Came::with(create_tool_result_message(ToolResultInput {
                    tool_call_id: call.id.clone(),
                    tool_name: call.name.clone(),
                    result: Ok(value),
                })));
            }
            Ok(Ok(Reconciled::NotDone)) => return None,
            Ok(Ok(Reconciled::Unknown)) => {}
            Ok(Err(error)) => {
                tracing::warn!(event = "reconcile.failed", call = %call.id, %error);
            }
            Err(panicked) => {
                tracing::warn!(event = "reconcile.failed", call = %call.id, %panicked);
            }
        }
    }
    let spec = tool.spec();
    if spec.idempotent || spec.read_only {
        return None;
    }
    let mut came = Came::with(synthesize_unknown_result(&call.id, &call.name));
    came.pause = spec.on_unknown == OnUnknown::Pause;
    Some(came)
}

/// What running a tool gave.
enum Ran {
    Returned(Result<Value, ToolError>),
    Panicked(String),
    TookTooLong(Duration),
}

struct Outcome {
    result: ToolMessage,
    fatal: Option<ErrorRecord>,
}

/// Runs the tool and streams what it says meanwhile.
async fn execute(
    executable: &ExecutableCall<'_>,
    cx: ToolCx,
    sink: &Sink,
    deltas: &mut Deltas<'_>,
    ports: &Ports,
) -> Result<Ran, PerformError> {
    let (call, tool) = (executable.call(), executable.tool());
    let timeout = tool.spec().timeout;
    let deadline = timeout.map(|wait| ports.clock.now().saturating_add(wait));
    let mut running = std::pin::pin!(caught(tool.call(call.arguments.clone(), cx)));
    let ran = loop {
        let said = async {
            sink.something().await;
            let due = ports.clock.now().saturating_add(WINDOW);
            ports.clock.sleep_until(due).await;
        };
        let late = async {
            match deadline {
                Some(deadline) => ports.clock.sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        match first(running.as_mut(), first(said, late)).await {
            First::One(Ok(returned)) => break Ran::Returned(returned),
            First::One(Err(panicked)) => break Ran::Panicked(panicked.to_string()),
            First::Other(First::Other(())) => {
                break Ran::TookTooLong(timeout.unwrap_or_default());
            }
            First::Other(First::One(())) => {
                sink.drain(deltas);
                deltas.flush().await?;
            }
        }
    };
    sink.drain(deltas);
    Ok(ran)
}

impl Ran {
    fn judged(self, executable: &ExecutableCall<'_>, at: &crate::machine::At) -> Outcome {
        let (call, tool) = (executable.call(), executable.tool());
        let fail = |text: &str, status| Outcome {
            result: failed_result(&call.id, &call.name, text, status),
            fatal: None,
        };
        let log = |detail: &str| {
            tracing::warn!(
                event = "tool.failed",
                session = %at.session_id,
                call = %call.id,
                tool = call.name,
                detail,
            );
        };
        match self {
            Self::Returned(Ok(value)) => accepted(call, tool, value),
            Self::Returned(Err(error)) => {
                log(&error.to_string());
                let mut outcome = fail(error.model_text(), ResultStatus::Error);
                if error.is_fatal() {
                    let record = ErrorRecord::new(ErrorCode::ToolFatal, error.to_string());
                    outcome.fatal = Some(record);
                }
                outcome
            }
            Self::Panicked(text) => {
                log(&text);
                fail("The tool failed.", ResultStatus::Error)
            }
            Self::TookTooLong(wait) => {
                let spec = tool.spec();
                let text = format!("The tool did not finish within {} ms.", wait.as_millis());
                log(&text);
                if spec.idempotent || spec.read_only {
                    return fail(&text, ResultStatus::Error);
                }
                let unknown = synthesize_unknown_result(&call.id, &call.name);
                let text = format!("{text} {}", unknown.error_text());
                fail(&text, ResultStatus::Unknown)
            }
        }
    }
}

/// The result of a tool that gave one.
fn accepted(call: &ToolCall, tool: &Tool, value: Value) -> Outcome {
    let errors = tool
        .spec()
        .output
        .as_ref()
        .map(|schema| schema.errors(&value))
        .unwrap_or_default();
    let result = if errors.is_empty() {
        Ok(value)
    } else {
        tracing::warn!(event = "tool.output_invalid", call = %call.id, tool = call.name, ?errors);
        Err("The tool gave a result that does not fit its own schema.".to_owned())
    };
    Outcome {
        result: create_tool_result_message(ToolResultInput {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            result,
        }),
        fatal: None,
    }
}

impl Came {
    /// A result without having run.
    fn with(result: ToolMessage) -> Self {
        Self {
            result,
            fatal: None,
            writes: StepWrites::default(),
            usage: Vec::new(),
            duration: Duration::ZERO,
            ran: false,
            pause: false,
        }
    }

    fn failed(call: &ToolCall, text: &str, status: ResultStatus) -> Self {
        Self::with(failed_result(&call.id, &call.name, text, status))
    }
}

/// Takes what a tool says, from any thread.
#[derive(Default)]
struct Sink {
    inner: Mutex<Said>,
    bell: Notify,
}

#[derive(Default)]
struct Said {
    payloads: Vec<ChunkPayload>,
    usage: Vec<CustomUsage>,
}

impl ToolEvents for Sink {
    fn emit(&self, _: &CallId, event: ToolEvent) {
        {
            let mut said = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            match event {
                ToolEvent::StatePatch(patches) => {
                    said.payloads.push(ChunkPayload::StatePatch { patches });
                }
                ToolEvent::Custom {
                    name: event_name,
                    data,
                } => said
                    .payloads
                    .push(ChunkPayload::Custom { event_name, data }),
                ToolEvent::Usage(usage) => said.usage.push(usage),
            }
        }
        self.bell.ring();
    }
}

impl Sink {
    fn take(&self) -> Said {
        std::mem::take(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Resolves when something was said.
    async fn something(&self) {
        loop {
            let heard = self.bell.heard();
            let is_empty = {
                let said = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
                said.payloads.is_empty()
            };
            if !is_empty {
                return;
            }
            heard.await;
        }
    }

    fn drain(&self, deltas: &mut Deltas<'_>) {
        let payloads = {
            let mut said = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut said.payloads)
        };
        for payload in payloads {
            deltas.push(payload);
        }
    }
}
