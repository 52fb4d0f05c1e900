//! Step processing: pure functions from a model's reply to the next action.
//!
//! Nothing here performs anything. The framework's own loop consists of these functions, and a
//! custom loop can, too: build a prompt with [`build_messages_for_llm`], call a model, turn the
//! reply into a [`StepResult`], pass it to [`plan_step_processing`], settle its calls, and ask
//! [`next_action`] how to continue: another step, a [`Correction`] for the model, or the end.

mod builders;
mod forced;
mod late_answer;
mod plan;
mod prompt;
mod result;
mod stop;

pub(crate) use builders::failed_result;
pub use builders::{
    AssistantMessagePlan, ToolResultInput, create_tool_result_message,
    synthesize_not_executed_result,
};
// Parts of `plan_step_processing` and `next_action`, which a custom loop calls instead.
#[doc(hidden)]
pub use builders::{
    SubAgentResultInput, create_assistant_message, create_sub_agent_result_message,
    synthesize_finish_result, synthesize_unknown_result,
};
pub use forced::{Correction, correction_message};
pub(crate) use late_answer::{late_answer_message, told};
pub use plan::{PlanOptions, StatusUpdate, StepProcessingPlan, plan_step_processing};
pub use prompt::{PromptMessage, PromptMessages, SystemPrompt, build_messages_for_llm};
pub use result::{
    ErrorStep, StepResult, StopReason, StructuredOutputStep, SubAgentCall, TextStep, ToolCallsStep,
};
#[doc(hidden)]
pub use stop::{
    Conclusion, FinalStatus, conclude, determine_final_status, is_recoverable_error_stop_reason,
    should_stop_execution, stop_cause,
};
pub use stop::{DEFAULT_MAX_STEPS, NextAction, StopCause, StopConfig, StopWhen, next_action};

/// The tool that ends a turn with a structured output. Never executed.
pub const FINISH_TOOL: &str = "__finish__";

/// The prefix of the tool name of a sub-agent.
pub const SUBAGENT_TOOL_PREFIX: &str = "subagent__";

/// Returns the agent type of a sub-agent's tool name.
#[must_use]
pub(crate) fn sub_agent_type(tool_name: &str) -> Option<&str> {
    tool_name.strip_prefix(SUBAGENT_TOOL_PREFIX)
}
