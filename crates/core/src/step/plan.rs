//! Plans what follows from a step's result: messages to store, calls to run, whether the turn is over.

use serde_json::Value;

use super::builders::{failed_result, synthesize_finish_result, synthesize_not_executed_result};
use super::stop::{failure_code, is_fatal_with_calls};
use super::{
    AssistantMessagePlan, Conclusion, Correction, ErrorStep, FINISH_TOOL, StepResult, StopCause,
    StopReason, StructuredOutputStep, SubAgentCall, TextStep, ToolCallsStep, conclude,
    create_assistant_message,
};
use crate::bounds::Bounds;
use crate::canonical::canonical_json;
use crate::error::ErrorRecord;
use crate::message::{AssistantMessage, ResultStatus, ToolCall, ToolMessage};
use crate::schema::Schema;

/// The inputs of the plan besides the reply.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct PlanOptions<'a> {
    /// The schema that an output must fit. Without one, any `__finish__` is an output.
    pub output_schema: Option<&'a Schema>,
    /// The limits on the size of an output.
    pub bounds: Bounds,
}

impl<'a> PlanOptions<'a> {
    /// Creates the options of an agent with or without an output schema.
    #[must_use]
    pub fn new(output_schema: Option<&'a Schema>) -> Self {
        Self {
            output_schema,
            bounds: Bounds::default(),
        }
    }

    /// Sets the limits on the size of an output.
    #[must_use]
    pub(crate) fn bounded(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }
}

/// The status of the session after a step.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StatusUpdate {
    /// The turn is completed.
    Completed {
        /// The output, for agents that have one.
        output: Option<Value>,
    },
    /// The turn failed.
    Failed {
        /// The error that ended the turn.
        error: ErrorRecord,
    },
}

/// The consequences of a step.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct StepProcessingPlan {
    /// The model's message to store. `None` only if there was no reply.
    pub assistant_message: Option<AssistantMessage>,
    /// The tools to run. Never `__finish__`.
    pub pending_tool_calls: Vec<ToolCall>,
    /// The sub-agents to run.
    pub pending_sub_agent_calls: Vec<SubAgentCall>,
    /// The results of calls that are settled without being run, in the model's order.
    pub settled_results: Vec<ToolMessage>,
    /// The session's new status; `None` if it does not change.
    pub status_update: Option<StatusUpdate>,
    /// Whether the turn is over.
    pub is_terminal: bool,
    /// The output, if the step produced a valid one.
    pub output: Option<Value>,
    /// Why the model stopped.
    pub stop_reason: Option<StopReason>,
    /// Why the model must be asked for its output again.
    pub correction: Option<Correction>,
    /// Whether the agent must produce an output.
    pub owes_output: bool,
}

/// Plans what follows from a step.
#[must_use]
pub fn plan_step_processing(result: &StepResult, options: PlanOptions<'_>) -> StepProcessingPlan {
    let plan = match result {
        StepResult::Text(step) => plan_text(result, step, options),
        StepResult::ToolCalls(step) => plan_calls(step, options),
        StepResult::StructuredOutput(step) => plan_structured(step, options),
        StepResult::Error(step) => plan_error(step),
    };
    StepProcessingPlan {
        stop_reason: result.stop_reason(),
        owes_output: options.output_schema.is_some(),
        ..plan
    }
}

fn plan_text(result: &StepResult, step: &TextStep, options: PlanOptions<'_>) -> StepProcessingPlan {
    let plan = StepProcessingPlan {
        assistant_message: Some(step.message.clone()),
        ..StepProcessingPlan::default()
    };
    if !step.should_stop() {
        return plan;
    }
    match conclude(result, StopCause::Text, options.output_schema.is_some()) {
        Conclusion::Completed => completed(plan, None),
        Conclusion::ForcedCompletion => StepProcessingPlan {
            correction: Some(if step.stop_reason == StopReason::MaxTokens {
                Correction::Truncated
            } else {
                Correction::TextInsteadOfOutput
            }),
            ..plan
        },
        Conclusion::Failed { code } => {
            let detail = format!("the model stopped with reason {:?}", step.stop_reason);
            failed(plan, ErrorRecord::new(code, detail))
        }
    }
}

fn plan_calls(step: &ToolCallsStep, options: PlanOptions<'_>) -> StepProcessingPlan {
    let plan = StepProcessingPlan {
        assistant_message: Some(step.message.clone()),
        ..StepProcessingPlan::default()
    };
    if is_fatal_with_calls(step.stop_reason) {
        let why = "the reply was cut off by the model's provider.";
        let detail = format!("the model stopped with reason {:?}", step.stop_reason);
        let plan = StepProcessingPlan {
            settled_results: settle(&step.message, |call| not_executed(call, why)),
            ..plan
        };
        return failed(
            plan,
            ErrorRecord::new(failure_code(step.stop_reason), detail),
        );
    }
    let mut finishes = step
        .tool_calls
        .iter()
        .filter(|call| call.name == FINISH_TOOL)
        .map(|call| (call, validate(&call.arguments, options)))
        .peekable();
    if finishes.peek().is_none() {
        return StepProcessingPlan {
            pending_tool_calls: step.tool_calls.clone(),
            pending_sub_agent_calls: step.sub_agent_calls.clone(),
            ..plan
        };
    }
    let finishes: Vec<_> = finishes.collect();
    if let Some((winner, _)) = finishes.iter().find(|(_, errors)| errors.is_empty()) {
        let why = "the turn ended with the final output in the same reply.";
        let settled_results = settle(&step.message, |call| {
            if call.id == winner.id {
                synthesize_finish_result(&call.id)
            } else {
                not_executed(call, why)
            }
        });
        let output = Value::clone(&winner.arguments);
        return completed(
            StepProcessingPlan {
                settled_results,
                ..plan
            },
            Some(output),
        );
    }
    let why = "the final output in the same reply was not valid.";
    let settled_results = settle(&step.message, |call| {
        match finishes.iter().find(|(finish, _)| finish.id == call.id) {
            Some((_, errors)) => failed_result(
                &call.id,
                &call.name,
                &errors.join("; "),
                ResultStatus::Error,
            ),
            None => not_executed(call, why),
        }
    });
    let errors = finishes.into_iter().flat_map(|(_, errors)| errors);
    StepProcessingPlan {
        settled_results,
        correction: Some(Correction::Invalid {
            errors: errors.collect(),
        }),
        ..plan
    }
}

/// Builds one result for every call of a message, in the model's order.
fn settle(
    message: &AssistantMessage,
    result: impl FnMut(&ToolCall) -> ToolMessage,
) -> Vec<ToolMessage> {
    message.tool_calls().map(result).collect()
}

fn not_executed(call: &ToolCall, why: &str) -> ToolMessage {
    synthesize_not_executed_result(&call.id, &call.name, why)
}

fn plan_structured(step: &StructuredOutputStep, options: PlanOptions<'_>) -> StepProcessingPlan {
    let plan = StepProcessingPlan {
        // Without a message here, two user messages would follow each other.
        assistant_message: Some(create_assistant_message(AssistantMessagePlan {
            content: Some(canonical_json(&step.output)),
            thinking: step.thinking.clone(),
            ..AssistantMessagePlan::default()
        })),
        ..StepProcessingPlan::default()
    };
    let errors = validate(&step.output, options);
    if errors.is_empty() {
        return completed(plan, Some(step.output.clone()));
    }
    StepProcessingPlan {
        correction: Some(Correction::Invalid { errors }),
        ..plan
    }
}

fn plan_error(step: &ErrorStep) -> StepProcessingPlan {
    let plan = StepProcessingPlan::default();
    if step.should_stop {
        failed(plan, step.error.clone())
    } else {
        plan
    }
}

fn completed(plan: StepProcessingPlan, output: Option<Value>) -> StepProcessingPlan {
    StepProcessingPlan {
        status_update: Some(StatusUpdate::Completed {
            output: output.clone(),
        }),
        is_terminal: true,
        output,
        ..plan
    }
}

fn failed(plan: StepProcessingPlan, error: ErrorRecord) -> StepProcessingPlan {
    StepProcessingPlan {
        status_update: Some(StatusUpdate::Failed { error }),
        is_terminal: true,
        ..plan
    }
}

/// Returns the errors of an output; one that is too large is as invalid as one that does not fit.
fn validate(output: &Value, options: PlanOptions<'_>) -> Vec<String> {
    if let Err(exceeded) = options.bounds.check("the output", output) {
        return vec![exceeded.to_string()];
    }
    options
        .output_schema
        .map(|schema| schema.errors(output))
        .unwrap_or_default()
}
