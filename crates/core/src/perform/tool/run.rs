//! Runs the tool of a call, if it may be run.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Calling;
use super::sink::Sink;
use crate::bounds::Bounds;
use crate::error::{ErrorCode, ErrorRecord};
use crate::hooks::{BeforeTool, StateChange};
use crate::machine::At;
use crate::message::{ResultStatus, ToolCall, ToolMessage};
use crate::perform::applied::writers;
use crate::perform::clocked::{First, first};
use crate::perform::deltas::{Deltas, WINDOW};
use crate::perform::executable::ExecutableCall;
use crate::perform::guard::caught;
use crate::perform::hooks::{Hooks, fire};
use crate::perform::intents::surroundings;
use crate::perform::work::Work;
use crate::perform::{PerformError, Ports};
use crate::session::{CallPhase, OpenCall, OpenStep};
use crate::shared_state::SharedState;
use crate::state::{PatchOp, StepWrites, merge_writes, to_rfc6902};
use crate::step::{
    ToolResultInput, create_tool_result_message, failed_result, synthesize_not_executed_result,
    synthesize_unknown_result,
};
use crate::tool::{OnUnknown, Reconciled, Tool, ToolCx, ToolError, ToolEvents};
use crate::usage::CustomUsage;

/// What a call came to.
pub(super) struct Came {
    pub(super) result: ToolMessage,
    pub(super) fatal: Option<ErrorRecord>,
    pub(super) writes: StepWrites,
    pub(super) usage: Vec<CustomUsage>,
    pub(super) duration: Duration,
    /// Whether the tool itself was run.
    pub(super) ran: bool,
    /// Whether a person has to look first.
    pub(super) pause: bool,
}

/// What a call sees: the committed state, and, when it may finish the turn, what the others wrote.
fn view(work: &Work, step: &OpenStep, open: &OpenCall) -> Result<SharedState, PerformError> {
    let state = work.state();
    if open.phase == CallPhase::Finish {
        let merged = merge_writes(&state, writers(step));
        return Ok(SharedState::after(state, &merged.writes)?);
    }
    Ok(SharedState::of_committed(state))
}

/// Runs a call that may be run, and says what it came to. One that may have begun before is found out
/// about first: it is never told as not executed, also when its tool is gone or asks for an approval
/// now.
pub(super) async fn run(
    calling: &Calling<'_>,
    may_have_begun: bool,
    deltas: &mut Deltas<'_>,
) -> Result<Came, PerformError> {
    let Calling {
        effect,
        ports,
        work,
        step,
        call,
        open,
        ..
    } = *calling;
    let at = &effect.at;
    let state = view(work, step, open)?.bounded(ports.bounds());
    let hooks = Hooks::on(at, work, ports, Some(state.clone()));
    if effect.first {
        crate::perform::model::greet_again(&hooks, work).await?;
        for payload in hooks.take_said() {
            deltas.push(payload);
        }
    }
    // What the hooks wrote is kept, also when the tool is not run.
    let without_running = |came: Came| {
        let writes = state.writes()?;
        Ok(Came { writes, ..came })
    };
    let Some(tool) = work.agent().tool(&call.name) else {
        if may_have_begun {
            return without_running(Came::unknown(call));
        }
        let text = format!("There is no tool named {} any more.", call.name);
        return without_running(Came::failed(call, &text, ResultStatus::Error));
    };
    let sink = Arc::new(Sink::default());
    let mut cx = surroundings(at, work, ports, call, state.clone())
        .events(Arc::clone(&sink) as Arc<dyn ToolEvents>);
    if let Some(effect) = &open.effect {
        cx = cx.idempotency_key(&effect.idempotency_key);
    }
    let cx = cx.build();
    let executable = ExecutableCall::new(call, open, tool);
    let may_run = executable.is_some();
    if may_have_begun && let Some(came) = find_out(tool, call, may_run, &cx, ports.bounds()).await {
        return without_running(came);
    }
    let Some(executable) = executable else {
        tracing::error!(event = "approval.missing", session = %at.session_id, call = %call.id);
        let why = "it needs an approval that it does not have.";
        let result = synthesize_not_executed_result(&call.id, &call.name, why);
        return without_running(Came::with(result));
    };

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
    let Outcome { mut result, fatal } = outcome.judged(&executable, at, ports.bounds());
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
        usage: sink.take_usage(),
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

/// Finds out about a call that may have begun before. `None`: it is run, if it may be.
async fn find_out(
    tool: &Tool,
    call: &ToolCall,
    may_run: bool,
    cx: &ToolCx,
    bounds: Bounds,
) -> Option<Came> {
    if let Some(reconciler) = tool.reconciler() {
        let asked = reconciler.reconcile(call.arguments.clone(), cx.clone());
        match caught(asked).await {
            Ok(Ok(Reconciled::Done(value))) => {
                return Some(Came::with(create_tool_result_message(ToolResultInput {
                    tool_call_id: call.id.clone(),
                    tool_name: call.name.clone(),
                    result: bounds.take_result(value),
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
    if spec.is_repeatable() && may_run {
        return None;
    }
    let mut came = Came::unknown(call);
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
                deltas.flush_or_mute().await?;
            }
        }
    };
    sink.drain(deltas);
    Ok(ran)
}

impl Ran {
    fn judged(self, executable: &ExecutableCall<'_>, at: &At, bounds: Bounds) -> Outcome {
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
            Self::Returned(Ok(value)) => match bounds.take_result(value) {
                Ok(value) => accepted(call, tool, value),
                Err(text) => {
                    log(&text);
                    fail(&text, ResultStatus::Error)
                }
            },
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
                if spec.is_repeatable() {
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

    /// Nobody knows what became of it.
    fn unknown(call: &ToolCall) -> Self {
        Self::with(synthesize_unknown_result(&call.id, &call.name))
    }

    fn failed(call: &ToolCall, text: &str, status: ResultStatus) -> Self {
        Self::with(failed_result(&call.id, &call.name, text, status))
    }
}
