use helix_agents_core::message::{AssistantMessage, AssistantPart, Message, ToolCall, UserMessage};
use helix_agents_core::model::ModelReply;
use helix_agents_core::step::{
    StepResult, StopReason, ToolResultInput, create_tool_result_message,
};
use helix_agents_core::{CallId, message::ToolMessage};
use serde_json::{Value, json};

pub(crate) fn call_id(text: &str) -> CallId {
    CallId::new(text).unwrap()
}

pub(crate) fn user(text: &str) -> Message {
    Message::User(UserMessage::new(text))
}

pub(crate) fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall::new(call_id(id), name, arguments)
}

/// An assistant message with a call of tool `t` for each id.
pub(crate) fn calling(ids: &[&str]) -> AssistantMessage {
    AssistantMessage::new(
        ids.iter()
            .map(|id| AssistantPart::ToolCall(call(id, "t", json!({}))))
            .collect(),
    )
}

pub(crate) fn result(id: &str) -> ToolMessage {
    create_tool_result_message(ToolResultInput {
        tool_call_id: call_id(id),
        tool_name: "t".into(),
        result: Ok(json!({ "of": id })),
    })
}

pub(crate) fn reply(message: AssistantMessage, stop_reason: StopReason) -> StepResult {
    StepResult::from_reply(ModelReply::new(message).with_stop_reason(stop_reason))
}

pub(crate) fn text_step(text: &str, stop_reason: StopReason) -> StepResult {
    reply(AssistantMessage::text(text), stop_reason)
}

pub(crate) fn calls_step(calls: Vec<ToolCall>) -> StepResult {
    let parts = calls.into_iter().map(AssistantPart::ToolCall).collect();
    reply(AssistantMessage::new(parts), StopReason::ToolUse)
}
