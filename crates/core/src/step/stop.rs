//! When a turn stops, and as what.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Correction, StatusUpdate, StepProcessingPlan, StepResult, StopReason};
use crate::error::{ErrorCode, ErrorRecord};

/// The step limit of an agent that sets none.
pub const DEFAULT_MAX_STEPS: u32 = 50;

/// A user's own reason to stop.
pub type StopWhen = Arc<dyn Fn(&StepResult) -> bool + Send + Sync>;

/// What stops an agent besides the model.
#[derive(Clone)]
#[non_exhaustive]
pub struct StopConfig {
    /// How many steps a turn may have; `None` is no limit.
    pub max_steps: Option<u32>,
    /// A user's own reason.
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
    /// Limits the steps of a turn; `None` is no limit.
    #[must_use]
    pub fn max_steps(mut self, steps: impl Into<Option<u32>>) -> Self {
        self.max_steps = steps.into();
        self
    }

    /// Adds a reason to stop.
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

/// Which rule stopped a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopCause {
    /// The output is there.
    StructuredOutput,
    /// The model call failed for good.
    Error,
    /// The model ended its turn.
    Text,
    /// The user's own rule.
    StopWhen,
    /// The step limit.
    MaxSteps,
}

/// The first rule that stops the turn after this step, in the order of [`StopCause`].
///
/// `step_count` includes this step. The user's own rule is asked before the limit, so that a turn
/// that ends by it on its last allowed step is not called cut off. It looks at the reply alone: a
/// loop asks [`next_action`], which also knows whether an output is valid.
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

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalStatus {
    /// As it should.
    Completed,
    /// With an error.
    Failed,
}

/// Maps a step's result to how the turn ended.
#[must_use]
pub fn determine_final_status(result: &StepResult) -> FinalStatus {
    let failed = match result {
        StepResult::Error(_) => true,
        StepResult::ToolCalls(step) => is_fatal_with_calls(step.stop_reason),
        StepResult::Text(step) => step.stop_reason.is_error(),
        // An output that is there is an output, however the model came to stop.
        StepResult::StructuredOutput(_) => false,
    };
    if failed {
        FinalStatus::Failed
    } else {
        FinalStatus::Completed
    }
}

/// Whether an agent with an output schema gets another chance after this stop reason.
#[must_use]
pub fn is_recoverable_error_stop_reason(reason: StopReason) -> bool {
    reason == StopReason::MaxTokens
}

/// A reply that was cut off by its provider may hold half a call; none of them is executed.
/// Running out of room is different: each call's arguments are checked on their own.
pub(super) fn is_fatal_with_calls(reason: StopReason) -> bool {
    matches!(
        reason,
        StopReason::ContentFilter | StopReason::Refusal | StopReason::Error
    )
}

/// The code of a turn that failed with this stop reason.
pub(super) fn failure_code(reason: StopReason) -> ErrorCode {
    match reason {
        StopReason::MaxTokens => ErrorCode::MaxTokens,
        StopReason::ContentFilter => ErrorCode::ProviderContentFilter,
        StopReason::Refusal => ErrorCode::ProviderRefusal,
        _ => ErrorCode::ProviderError,
    }
}

/// What a stop leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Conclusion {
    /// The turn is completed.
    Completed,
    /// The turn failed.
    Failed {
        /// Why.
        code: ErrorCode,
    },
    /// The agent owes an output: the model is made to give it.
    ForcedCompletion,
}

/// What stopping for this cause leads to, for an agent with or without an output schema.
///
/// An output that does not fit its schema is no cause to stop; [`super::plan_step_processing`] asks
/// for another.
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
    }
}

/// What a loop does after a step, once the step's calls are settled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NextAction {
    /// The next step.
    #[default]
    Continue,
    /// The turn is completed.
    Complete,
    /// The model is asked for the output that it owes. Each time counts against the agent's
    /// completion retries, not against its steps.
    Correct(Correction),
    /// The turn failed.
    Fail(ErrorRecord),
}

impl NextAction {
    /// Whether another step follows.
    #[must_use]
    pub fn is_continue(&self) -> bool {
        *self == Self::Continue
    }
}

/// What a loop does after a step: the plan's own word first, then the rules that stop a turn.
///
/// A final output on the last allowed step completes the turn, and one that is not valid never does.
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
