//! Messages as JSON: one object per message, with the calls beside the text.

use crate::view::schemas::{FileSchema, ResultStatusSchema};
use helix_agents_core::message::{
    AssistantMessage, FilePart, Metadata, ResultStatus, ToolMessage, UserMessage,
};
use helix_agents_core::session::OpenStep;
use helix_agents_core::{CallId, Message, MessageId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A message as clients read it: `{role, content?, toolCalls?, toolCallId?, toolName?, thinking?,
/// files?, metadata?}` and a few more.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageView {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    id: Option<MessageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    tool_call_id: Option<CallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tool_name: Option<String>,
    /// The status of a call result that is not a success.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ResultStatusSchema)]
    status: Option<ResultStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    thinking: Option<ThinkingView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<FileSchema>)]
    files: Vec<FilePart>,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    #[schema(value_type = Object)]
    metadata: Metadata,
    /// Whether the message belongs to the open step.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    open: bool,
}

/// A tool call of a message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallView {
    #[schema(value_type = String)]
    id: CallId,
    name: String,
    arguments: Value,
}

/// The thinking of the model.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ThinkingView {
    content: String,
}

impl From<Message> for MessageView {
    fn from(message: Message) -> Self {
        match message {
            Message::User(user) => Self::user(user),
            Message::Assistant(assistant) => Self::assistant(&assistant),
            Message::Tool(tool) => Self::tool(tool),
            // A role that this view does not know yet.
            _ => Self {
                role: "unknown",
                ..Self::default()
            },
        }
    }
}

impl MessageView {
    fn user(user: UserMessage) -> Self {
        Self {
            role: "user",
            id: user.id,
            content: Some(user.content),
            files: user.files,
            metadata: user.metadata,
            ..Self::default()
        }
    }

    fn assistant(assistant: &AssistantMessage) -> Self {
        let calls = assistant.tool_calls().map(|call| CallView {
            id: call.id.clone(),
            name: call.name.to_string(),
            arguments: call.arguments.clone().into_value(),
        });
        let thought: Vec<_> = assistant
            .thinking()
            .map(|thinking| thinking.text.as_str())
            .filter(|text| !text.is_empty())
            .collect();
        Self {
            role: "assistant",
            content: assistant.content(),
            tool_calls: calls.collect(),
            thinking: (!thought.is_empty()).then(|| ThinkingView {
                content: thought.join("\n"),
            }),
            metadata: assistant.metadata.clone(),
            ..Self::default()
        }
    }

    fn tool(tool: ToolMessage) -> Self {
        Self {
            role: "tool",
            tool_call_id: Some(tool.tool_call_id),
            tool_name: Some(tool.tool_name.to_string()),
            content: Some(tool.content.to_string()),
            status: (!tool.status.is_success()).then_some(tool.status),
            ..Self::default()
        }
    }

    /// Returns the messages of an open step, each marked `open`.
    #[must_use]
    pub fn of_open_step(step: &OpenStep) -> Vec<Self> {
        let all = step.messages().into_iter().map(Self::from);
        all.map(|view| Self { open: true, ..view }).collect()
    }
}
