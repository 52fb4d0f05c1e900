//! Builds the messages of a step.

use serde_json::{Value, json};

use super::{FINISH_TOOL, SUBAGENT_TOOL_PREFIX, SubAgentCall};
use crate::bounds::shortened;
use crate::canonical::canonical_json;
use crate::id::CallId;
use crate::message::{
    AssistantMessage, AssistantPart, ResultStatus, Thinking, ToolCall, ToolMessage,
};
use crate::shared_str::SharedStr;

/// The error text for the model about a call that was started and has no recorded end.
pub(crate) const UNKNOWN_TEXT: &str = "The outcome is unknown. The call may or may not have taken effect. Do not repeat it before checking.";

/// The parts of an assistant message, sorted by kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AssistantMessagePlan {
    /// The text of the message.
    pub content: Option<String>,
    /// The calls of tools.
    pub tool_calls: Vec<ToolCall>,
    /// The calls of sub-agents; they are stored under `subagent__<type>`.
    pub sub_agent_calls: Vec<SubAgentCall>,
    /// The reasoning before the text.
    pub thinking: Vec<Thinking>,
}

/// Builds an assistant message: thinking, text, tools, sub-agents, in this order.
///
/// A reply from a model keeps its own order; this is for loops that assemble one.
#[must_use]
pub fn create_assistant_message(plan: AssistantMessagePlan) -> AssistantMessage {
    let thinking = plan.thinking.into_iter().map(AssistantPart::Thinking);
    let text = plan.content.map(AssistantPart::text);
    let tools = plan.tool_calls.into_iter().map(AssistantPart::ToolCall);
    let sub_agents = plan.sub_agent_calls.into_iter().map(|call| {
        let name = format!("{SUBAGENT_TOOL_PREFIX}{}", call.agent_type);
        AssistantPart::ToolCall(ToolCall::new(call.id, name, call.input))
    });
    AssistantMessage::new(
        thinking
            .chain(text)
            .chain(tools)
            .chain(sub_agents)
            .collect(),
    )
}

/// The outcome of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResultInput {
    /// The id of the call.
    pub tool_call_id: CallId,
    /// The name of the tool.
    pub tool_name: SharedStr,
    /// The result, or the error text for the model.
    pub result: Result<Value, String>,
}

/// The outcome of a sub-agent call.
#[derive(Debug, Clone, PartialEq)]
pub struct SubAgentResultInput {
    /// The id of the call.
    pub tool_call_id: CallId,
    /// The type of the sub-agent.
    pub agent_type: String,
    /// The output, or the error text for the model.
    pub result: Result<Value, String>,
}

/// Builds a tool's result: a string verbatim, anything else as canonical JSON, a
/// failure as `{"error": text}`.
#[must_use]
pub fn create_tool_result_message(input: ToolResultInput) -> ToolMessage {
    let (content, status, verbatim) = match input.result {
        Ok(Value::String(text)) => (text, ResultStatus::Success, true),
        Ok(value) => (canonical_json(&value), ResultStatus::Success, false),
        Err(text) => (error_content(&text), ResultStatus::Error, false),
    };
    ToolMessage {
        tool_call_id: input.tool_call_id,
        tool_name: input.tool_name,
        content: content.into(),
        status,
        verbatim,
    }
}

/// Builds a sub-agent's result, like a tool's under the name `subagent__<type>`.
#[must_use]
pub fn create_sub_agent_result_message(input: SubAgentResultInput) -> ToolMessage {
    create_tool_result_message(ToolResultInput {
        tool_call_id: input.tool_call_id,
        tool_name: format!("{SUBAGENT_TOOL_PREFIX}{}", input.agent_type).into(),
        result: input.result,
    })
}

/// Builds the result that pairs a `__finish__` call in the history.
#[must_use]
pub fn synthesize_finish_result(call: &CallId) -> ToolMessage {
    ToolMessage {
        tool_call_id: call.clone(),
        tool_name: FINISH_TOOL.into(),
        content: json!({ "acknowledged": true }).to_string().into(),
        status: ResultStatus::Success,
        verbatim: false,
    }
}

/// Builds the result of a call that was never started.
#[must_use]
pub fn synthesize_not_executed_result(call: &CallId, tool: &str, why: &str) -> ToolMessage {
    failed_result(
        call,
        tool,
        &format!("Not executed: {why}"),
        ResultStatus::NotExecuted,
    )
}

/// Builds the result of a call that was started and has no recorded end.
#[must_use]
pub fn synthesize_unknown_result(call: &CallId, tool: &str) -> ToolMessage {
    failed_result(call, tool, UNKNOWN_TEXT, ResultStatus::Unknown)
}

pub(crate) fn failed_result(
    call: &CallId,
    tool: &str,
    text: &str,
    status: ResultStatus,
) -> ToolMessage {
    ToolMessage {
        tool_call_id: call.clone(),
        tool_name: tool.into(),
        content: error_content(text).into(),
        status,
        verbatim: false,
    }
}

fn error_content(text: &str) -> String {
    json!({ "error": shortened(text.to_owned()) }).to_string()
}
