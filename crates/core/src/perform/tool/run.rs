//! Runs the tool of a call, if it may be run.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;

use super::Calling;
use super::child::{Beside, ChildEnd};
use super::sink::Sink;
use crate::abort::AbortHandle;
use crate::agent::AnyAgent;
use crate::bounds::Bounds;
use crate::error::{ErrorCode, ErrorRecord};
use crate::first::{First, first};
use crate::hooks::{BeforeTool, StateChange};
use crate::machine::EffectAddress;
use crate::message::{ResultStatus, ToolCall, ToolMessage};
use crate::perform::PerformError;
use crate::perform::applied::writers;
use crate::perform::deltas::{Deltas, WINDOW};
use crate::perform::executable::ExecutableCall;
use crate::perform::guard::caught;
use crate::perform::hooks::{Hooks, fire};
use crate::perform::intents::tool_cx;
use crate::perform::scope::Scope;
use crate::session::CallPhase;
use crate::shared_state::SharedState;
use crate::state::{PatchOp, StepWrites, merge_writes, to_rfc6902};
use crate::step::{
    ToolResultInput, create_tool_result_message, failed_result, synthesize_not_executed_result,
    synthesize_unknown_result,
};
use crate::tool::{OnUnknown, Reconciled, Tool, ToolCx, ToolError, ToolEvents};
use crate::usage::CustomUsage;

/// The outcome of a call.
pub(super) struct CallOutcome {
    pub(super) result: ToolMessage,
    pub(super) fatal: Option<ErrorRecord>,
    pub(super) writes: StepWrites,
    pub(super) usage: Vec<CustomUsage>,
    pub(super) duration: Duration,
    /// Whether the tool itself was run.
    pub(super) ran: bool,
    /// Whether a person has to look first.
    pub(super) pause: bool,
    /// The end of the child that gave the result.
    pub(super) child: Option<Box<ChildEnd>>,
    /// What the commit of the result does to other sessions.
    pub(super) beside: Option<Box<Beside>>,
}

impl Calling<'_> {
    /// The state that the call sees: the committed one, and, when it may finish the turn, what the
    /// others wrote.
    pub(super) fn state(&self) -> Result<SharedState, PerformError> {
        let state = self.cx.view.state();
        if self.open.phase == CallPhase::Finish {
            let merged = merge_writes(&state, writers(self.step));
            return Ok(SharedState::after(state, &merged.writes)?);
        }
        Ok(SharedState::of_committed(state))
    }

    /// The writes of the call as patches of the state that it saw.
    fn patches(&self, writes: &StepWrites) -> Result<Vec<PatchOp>, PerformError> {
        let base = self.state()?.get()?;
        Ok(to_rfc6902(writes, &base)?)
    }

    /// Runs a call that may be run. One that may have begun before is found out about first: it is
    /// never told as not executed, also when its tool is gone or asks for an approval now.
    pub(super) async fn run(
        &self,
        may_have_begun: bool,
        deltas: &mut Deltas<'_>,
    ) -> Result<CallOutcome, PerformError> {
        let Calling { cx, call, open, .. } = *self;
        let (scope, bounds) = (cx.scope, cx.ports().bounds());
        let state = self.state()?.bounded(bounds);
        let hooks = Hooks::on(cx, Some(state.clone()));
        if scope.effect.first {
            hooks.fire_resumed().await;
            deltas.extend(hooks.take_said());
        }
        // What the hooks wrote is kept, also when the tool is not run.
        let without_running = |outcome: CallOutcome| {
            let writes = state.writes()?;
            Ok(CallOutcome { writes, ..outcome })
        };
        let Some(tool) = cx.view.agent().tool(&call.name) else {
            if may_have_begun {
                return without_running(CallOutcome::unknown(call));
            }
            let text = format!("There is no tool named {} any more.", call.name);
            let result = failed_result(&call.id, &call.name, &text, ResultStatus::Error);
            return without_running(CallOutcome::not_run(result));
        };
        let sink = Arc::new(Sink::default());
        let abort = AbortHandle::new();
        let mut tool_cx = tool_cx(cx, call, state.clone())
            .events(Arc::clone(&sink) as Arc<dyn ToolEvents>)
            .abort(abort.signal_under(&cx.ports().abort));
        if let Some(effect) = &open.effect {
            tool_cx = tool_cx.idempotency_key(effect.idempotency_key.clone());
        }
        let tool_cx = tool_cx.build();
        let executable = ExecutableCall::new(call, open, tool);
        if may_have_begun
            && let Some(outcome) = self.find_out(tool, executable.is_some(), &tool_cx).await
        {
            return without_running(outcome);
        }
        let Some(executable) = executable else {
            tracing::error!(event = "approval.missing", session = %cx.at().session_id, call = %call.id);
            let why = "it needs an approval that it does not have.";
            let result = synthesize_not_executed_result(&call.id, &call.name, why);
            return without_running(CallOutcome::not_run(result));
        };

        if !may_have_begun && cx.time_left() == Some(Duration::ZERO) {
            let why = "the time that the budget allows is over.";
            let result = synthesize_not_executed_result(&call.id, &call.name, why);
            return without_running(CallOutcome::not_run(result));
        }

        let named = |hook: &str| format!("{hook}:{}", call.id);
        fire!(
            hooks,
            before_tool,
            &named("before_tool"),
            BeforeTool::new(tool.spec(), call)
        );
        let began = scope.now();
        let execution = execute(scope, &executable, tool_cx, &abort, &sink, deltas).await?;
        let duration = scope.now().since(began);
        deltas.extend(hooks.take_said());
        let ToolOutcome { mut result, fatal } = execution.judged(&executable, cx.at(), bounds);
        if open.phase == CallPhase::Finish {
            result = fitting_output(result, cx.view.agent());
        }
        let writes = state.writes()?;
        if !writes.is_empty() && !hooks.is_empty() {
            let patches = self.patches(&writes)?;
            let now = state.get()?;
            fire!(
                hooks,
                on_state_change,
                &named("on_state_change"),
                StateChange::new(&call.id, &patches, &now)
            );
            deltas.extend(hooks.take_said());
        }
        Ok(CallOutcome {
            result,
            fatal,
            writes: state.writes()?,
            usage: sink.take_usage(),
            duration,
            ran: true,
            pause: false,
            child: None,
            beside: None,
        })
    }

    /// Finds out about a call that may have begun before. `None`: it is run, if it may be.
    async fn find_out(&self, tool: &Tool, may_run: bool, cx: &ToolCx) -> Option<CallOutcome> {
        let call = self.call;
        if let Some(reconciler) = tool.reconciler() {
            let asked = reconciler.reconcile(Value::clone(&call.arguments), cx.clone());
            match caught(asked).await {
                Ok(Ok(Reconciled::Done(value))) => {
                    let result = self.cx.ports().bounds().take_result(value);
                    return Some(CallOutcome::not_run(result_message(call, result)));
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
        if spec.options.is_repeatable() && may_run {
            return None;
        }
        let mut outcome = CallOutcome::unknown(call);
        outcome.pause = spec.options.on_unknown == Some(OnUnknown::Pause);
        Some(outcome)
    }
}

/// A result that would end the turn has to be an output of the agent.
fn fitting_output(result: ToolMessage, agent: &AnyAgent) -> ToolMessage {
    let schema = agent.output_schema();
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

/// How the run of a tool ended.
enum Execution {
    Returned(Result<Value, ToolError>),
    Panicked(String),
    TookTooLong(Duration),
    /// The run was asked to stop, and the tool did not end in the time that it has then.
    LeftBehind,
}

/// The result of a tool that was run, and why the run ends with it.
struct ToolOutcome {
    result: ToolMessage,
    fatal: Option<ErrorRecord>,
}

/// Runs the tool and streams what it says meanwhile. When the run is asked to stop, the tool is told, and
/// has a while to end.
async fn execute(
    scope: Scope<'_>,
    executable: &ExecutableCall<'_>,
    cx: ToolCx,
    abort: &AbortHandle,
    sink: &Sink,
    deltas: &mut Deltas<'_>,
) -> Result<Execution, PerformError> {
    let clock = deltas.clock();
    let (call, tool) = (executable.call(), executable.tool());
    let timeout = tool.spec().options.timeout;
    let deadline = timeout.map(|wait| clock.now().saturating_add(wait));
    let mut running = pin!(caught(tool.call(Value::clone(&call.arguments), cx)));
    let mut left = pin!(async {
        scope.stop_requested().await;
        abort.abort();
        // A tool that ends at once is heard before the time is looked at.
        once_more().await;
        let until = clock.now().saturating_add(scope.ports.stop_grace);
        clock.sleep_until(until).await;
    });
    let execution = loop {
        let said = async {
            sink.something().await;
            let due = clock.now().saturating_add(WINDOW);
            clock.sleep_until(due).await;
        };
        let late = async {
            match deadline {
                Some(deadline) => clock.sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let over = first(left.as_mut(), late);
        match first(running.as_mut(), first(said, over)).await {
            First::One(Ok(returned)) => break Execution::Returned(returned),
            First::One(Err(panicked)) => break Execution::Panicked(panicked.to_string()),
            First::Other(First::Other(First::One(()))) => break Execution::LeftBehind,
            First::Other(First::Other(First::Other(()))) => {
                break Execution::TookTooLong(timeout.unwrap_or_default());
            }
            First::Other(First::One(())) => {
                sink.drain(deltas);
                deltas.flush_or_mute().await?;
            }
        }
    };
    sink.drain(deltas);
    Ok(execution)
}

/// Lets whatever else is polled with this be polled once more.
async fn once_more() {
    let mut is_polled = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut is_polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Execution {
    fn judged(
        self,
        executable: &ExecutableCall<'_>,
        at: &EffectAddress,
        bounds: Bounds,
    ) -> ToolOutcome {
        let (call, tool) = (executable.call(), executable.tool());
        let fail = |text: &str, status| ToolOutcome {
            result: failed_result(&call.id, &call.name, text, status),
            fatal: None,
        };
        let log = |detail: &str| {
            tracing::warn!(
                event = "tool.failed",
                session = %at.session_id,
                call = %call.id,
                tool = %call.name,
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
            Self::LeftBehind => {
                log("it did not end after the run was stopped");
                ToolOutcome {
                    result: synthesize_unknown_result(&call.id, &call.name),
                    fatal: None,
                }
            }
            Self::TookTooLong(wait) => {
                let spec = tool.spec();
                let text = format!("The tool did not finish within {} ms.", wait.as_millis());
                log(&text);
                if spec.options.is_repeatable() {
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
fn accepted(call: &ToolCall, tool: &Tool, value: Value) -> ToolOutcome {
    let errors = tool
        .spec()
        .output
        .as_ref()
        .map(|schema| schema.errors(&value))
        .unwrap_or_default();
    let result = if errors.is_empty() {
        Ok(value)
    } else {
        tracing::warn!(event = "tool.output_invalid", call = %call.id, tool = %call.name, ?errors);
        Err("The tool gave a result that does not fit its own schema.".to_owned())
    };
    ToolOutcome {
        result: result_message(call, result),
        fatal: None,
    }
}

fn result_message(call: &ToolCall, result: Result<Value, String>) -> ToolMessage {
    create_tool_result_message(ToolResultInput {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        result,
    })
}

impl CallOutcome {
    /// The outcome of a call whose tool was not run.
    pub(super) fn not_run(result: ToolMessage) -> Self {
        Self {
            result,
            fatal: None,
            writes: StepWrites::default(),
            usage: Vec::new(),
            duration: Duration::ZERO,
            ran: false,
            pause: false,
            child: None,
            beside: None,
        }
    }

    pub(super) fn with_writes(self, writes: StepWrites) -> Self {
        Self { writes, ..self }
    }

    /// The outcome of a call that nobody knows the effect of.
    fn unknown(call: &ToolCall) -> Self {
        Self::not_run(synthesize_unknown_result(&call.id, &call.name))
    }
}
