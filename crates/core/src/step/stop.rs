//! The rules that stop a turn, and its outcome.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Correction, StatusUpdate, StepProcessingPlan, StepResult, StopReason};
use crate::error::{ErrorCode, ErrorRecord};

/// The step limit of an agent that sets none.
pub const DEFAULT_MAX_STEPS: u32 = 50;

/// A user's own stop rule.
pub type StopWhen = Arc<dyn Fn(&StepResult) -> bool + Send + Sync>;

/// The stop rules of an agent.
#[derive(Clone)]
#[non_exhaustive]
pub struct StopConfig {
    /// The maximum number of steps in a turn; `None` for no limit.
    pub max_steps: Option<u32>,
    /// The user's own stop rule.
    pub stop_when: Option<StopWhen>,
}

impl Default for StopConfig {
    fn default() -> Self {
        Self {
            max_steps: Some(DEFAULT_MAX_STEPS),
            stop_when: None,
        }
    }
}

impl StopConfig {
    /// Limits the number of steps in a turn; `None` for no limit.
    #[must_use]
    pub fn max_steps(mut self, steps: impl Into<Option<u32>>) -> Self {
        self.max_steps = steps.into();
        self
    }

    /// Sets the user's own stop rule.
    #[must_use]
    pub fn stop_when(mut self, rule: impl Fn(&StepResult) -> bool + Send + Sync + 'static) -> Self {
        self.stop_when = Some(Arc::new(rule));
        self
    }
}

impl fmt::Debug for StopConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopConfig")
            .field("max_steps", &self.max_steps)
            .field("stop_when", &self.stop_when.is_some())
            .finish()
    }
}

/// The rule that stopped a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopCause {
    /// The output was produced.
    StructuredOutput,
    /// The model call failed permanently.
    Error,
    /// The model ended its turn.
    Text,
    /// The user's own rule applied.
    StopWhen,
    /// The step limit was reached.
    MaxSteps,
    /// A budget left no room for the next model call. The run is interrupted, and can be continued.
    Budget,
}

/// Returns the first rule that stops the turn after this step, in the order of [`StopCause`].
///
/// `step_count` includes this step. The user's own rule is checked before the limit, so that a turn
/// which it ends on the last allowed step does not count as cut off. This looks at the reply alone:
/// a loop calls [`next_action`], which also knows whether an output is valid.
#[must_use]
pub fn stop_cause(result: &StepResult, step_count: u32, config: &StopConfig) -> Option<StopCause> {
    match result {
        StepResult::StructuredOutput(_) => return Some(StopCause::StructuredOutput),
        StepResult::Error(step) if step.should_stop => return Some(StopCause::Error),
        StepResult::Text(step) if step.should_stop() => return Some(StopCause::Text),
        StepResult::ToolCalls(step) if is_fatal_with_calls(step.stop_reason) => {
            return Some(StopCause::Error);
        }
        _ => {}
    }
    if config.stop_when.as_ref().is_some_and(|rule| rule(result)) {
        return Some(StopCause::StopWhen);
    }
    let at_limit = config.max_steps.is_some_and(|limit| step_count >= limit);
    at_limit.then_some(StopCause::MaxSteps)
}

/// Whether the turn stops after this step.
#[must_use]
pub fn should_stop_execution(result: &StepResult, step_count: u32, config: &StopConfig) -> bool {
    stop_cause(result, step_count, config).is_some()
}

/// The outcome of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalStatus {
    /// The turn completed normally.
    Completed,
    /// The turn ended with an error.
    Failed,
}

/// Returns the outcome of a turn that ends with this step.
#[must_use]
pub fn determine_final_status(result: &StepResult) -> FinalStatus {
    let failed = match result {
        StepResult::Error(_) => true,
        StepResult::ToolCalls(step) => is_fatal_with_calls(step.stop_reason),
        StepResult::Text(step) => step.stop_reason.is_error(),
        // An output that exists is valid, whatever the stop reason was.
        StepResult::StructuredOutput(_) => false,
    };
    if failed {
        FinalStatus::Failed
    } else {
        FinalStatus::Completed
    }
}

/// Whether an agent with an output schema gets another attempt after this stop reason.
#[must_use]
pub fn is_recoverable_error_stop_reason(reason: StopReason) -> bool {
    reason == StopReason::MaxTokens
}

/// Whether calls in a reply with this stop reason are dropped. A reply that the provider
/// cut off may contain half a call. Running out of tokens is different: each call's
/// arguments are checked individually.
pub(super) fn is_fatal_with_calls(reason: StopReason) -> bool {
    matches!(
        reason,
        StopReason::ContentFilter | StopReason::Refusal | StopReason::Error
    )
}

/// Returns the code of a turn that failed with this stop reason.
pub(super) fn failure_code(reason: StopReason) -> ErrorCode {
    match reason {
        StopReason::MaxTokens => ErrorCode::MaxTokens,
        StopReason::ContentFilter => ErrorCode::ProviderContentFilter,
        StopReason::Refusal => ErrorCode::ProviderRefusal,
        _ => ErrorCode::ProviderError,
    }
}

/// The consequence of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Conclusion {
    /// The turn is completed.
    Completed,
    /// The turn failed.
    Failed {
        /// The error code of the turn.
        code: ErrorCode,
    },
    /// The agent must produce an output: the model is forced to give it.
    ForcedCompletion,
}

/// Returns the consequence of stopping for this cause, for an agent with or without an output schema.
///
/// An output that does not fit its schema does not stop the turn;
/// [`super::plan_step_processing`] asks for another.
#[must_use]
pub fn conclude(result: &StepResult, cause: StopCause, has_output_schema: bool) -> Conclusion {
    let reason = result.stop_reason();
    match cause {
        StopCause::StopWhen | StopCause::MaxSteps if has_output_schema => {
            Conclusion::ForcedCompletion
        }
        StopCause::StructuredOutput | StopCause::StopWhen => Conclusion::Completed,
        StopCause::Error => Conclusion::Failed {
            code: match result {
                StepResult::Error(step) => step.error.code,
                _ => failure_code(reason.unwrap_or(StopReason::Error)),
            },
        },
        StopCause::Text => match reason {
            Some(reason) if reason.is_error() => {
                if has_output_schema && is_recoverable_error_stop_reason(reason) {
                    Conclusion::ForcedCompletion
                } else {
                    Conclusion::Failed {
                        code: failure_code(reason),
                    }
                }
            }
            _ if has_output_schema => Conclusion::ForcedCompletion,
            _ => Conclusion::Completed,
        },
        StopCause::MaxSteps => Conclusion::Failed {
            code: ErrorCode::MaxSteps,
        },
        // No reply has this cause: it is judged before the next call.
        StopCause::Budget => Conclusion::Failed {
            code: ErrorCode::BudgetExhausted,
        },
    }
}

/// The next action of a loop after a step, once the step's calls are settled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NextAction {
    /// Continues with the next step.
    #[default]
    Continue,
    /// Completes the turn.
    Complete,
    /// Asks the model for the missing output. Each time counts against the agent's completion
    /// retries, not against its steps.
    Correct(Correction),
    /// Fails the turn.
    Fail(ErrorRecord),
}

impl NextAction {
    /// Whether another step follows.
    #[must_use]
    pub fn is_continue(&self) -> bool {
        *self == Self::Continue
    }
}

/// Returns the next action after a step: what the plan requires first, then the stop rules.
///
/// A final output on the last allowed step completes the turn, and an invalid one never does.
/// `step_count` includes this step.
#[must_use]
pub fn next_action(
    plan: &StepProcessingPlan,
    result: &StepResult,
    step_count: u32,
    config: &StopConfig,
) -> NextAction {
    if let Some(correction) = &plan.correction {
        return NextAction::Correct(correction.clone());
    }
    if plan.is_terminal {
        return match &plan.status_update {
            Some(StatusUpdate::Failed { error }) => NextAction::Fail(error.clone()),
            _ => NextAction::Complete,
        };
    }
    let Some(cause) = stop_cause(result, step_count, config) else {
        return NextAction::Continue;
    };
    match conclude(result, cause, plan.owes_output) {
        Conclusion::Completed => NextAction::Complete,
        Conclusion::ForcedCompletion => NextAction::Correct(Correction::OutOfSteps),
        Conclusion::Failed { code } => {
            let detail = format!("the turn was stopped after {step_count} steps by {cause:?}");
            NextAction::Fail(ErrorRecord::new(code, detail))
        }
    }
}
