//! From stored messages to UI messages.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use helix_agents_core::CallId;
use helix_agents_core::message::{
    AssistantMessage, AssistantPart, Message, ResultStatus, ToolMessage, UserMessage,
};
use helix_agents_core::session::{ChildStatus, SubSessionRef};
use helix_agents_core::step::FINISH_TOOL;
use serde_json::{Map, Value};

use crate::data::{Named, SubagentData};
use crate::{DataPart, ToolApproval, ToolKind, ToolKinds, ToolState, UiMessage, UiPart, UiRole};

/// The metadata that a reply has which was stopped, and that front ends are shown.
const INTERRUPTED: &str = "helixInterrupted";

/// The options of [`convert_messages`].
#[derive(Clone)]
#[must_use]
#[non_exhaustive]
pub struct ConvertOptions {
    agent: String,
    tools: ToolKinds,
    first: usize,
    include_reasoning: bool,
    merge_tool_results: bool,
    filter_hidden: bool,
    children: Arc<HashMap<CallId, DataPart>>,
    generate_id: Option<Arc<GenerateId>>,
}

type GenerateId = dyn Fn(usize, &Message) -> String + Send + Sync;

impl ConvertOptions {
    /// Options for messages of this agent, which begin with the first of their session.
    pub fn new(agent: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            tools: ToolKinds::default(),
            first: 0,
            include_reasoning: true,
            merge_tool_results: true,
            filter_hidden: true,
            children: Arc::default(),
            generate_id: None,
        }
    }

    /// Sets who runs which tool.
    pub fn tools(mut self, tools: ToolKinds) -> Self {
        self.tools = tools;
        self
    }

    /// Sets the position of the first message in its session, from which ids are made.
    pub fn first(mut self, position: usize) -> Self {
        self.first = position;
        self
    }

    /// Shows which sub-agents worked for calls: their sessions can be opened. What they said is in those.
    pub fn sub_agents<'a>(mut self, links: impl IntoIterator<Item = &'a SubSessionRef>) -> Self {
        let parts = links.into_iter().map(|link| {
            let data = SubagentData {
                session_id: link.session_id.clone(),
                agent_type: link.agent_type.clone(),
                tool_call_id: Some(link.tool_call_id.to_string()),
                status: match link.status {
                    ChildStatus::Running | ChildStatus::Suspended => "running",
                    ChildStatus::Completed => "completed",
                    _ => "failed",
                },
                text: String::new(),
                tools: Vec::new(),
            };
            let chunk = data.chunk();
            let part = DataPart {
                kind: chunk.kind,
                id: Some(SubagentData::part_id(&link.session_id)),
                data: chunk.data,
            };
            (link.tool_call_id.clone(), part)
        });
        self.children = Arc::new(parts.collect());
        self
    }

    /// Sets whether reasoning is shown; it is by default.
    pub fn include_reasoning(mut self, include: bool) -> Self {
        self.include_reasoning = include;
        self
    }

    /// Sets whether the parts of calls have their results; they do by default.
    pub fn merge_tool_results(mut self, merge: bool) -> Self {
        self.merge_tool_results = merge;
        self
    }

    /// Sets whether hidden messages are left out; they are by default.
    pub fn filter_hidden(mut self, filter: bool) -> Self {
        self.filter_hidden = filter;
        self
    }

    /// Sets how messages without an id of their own are named, by their position and the first stored message that
    /// they show. Other ids than the default do not agree with those of the stream.
    pub fn generate_id(
        mut self,
        generate: impl Fn(usize, &Message) -> String + Send + Sync + 'static,
    ) -> Self {
        self.generate_id = Some(Arc::new(generate));
        self
    }
}

impl fmt::Debug for ConvertOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConvertOptions")
            .field("agent", &self.agent)
            .field("first", &self.first)
            .finish_non_exhaustive()
    }
}

/// The id of the bubble that begins at this position of its session: right after the user messages of its turn.
#[must_use]
pub fn bubble_id(position: usize) -> String {
    format!("msg-{position}")
}

/// Whether a turn begins with this message. Hidden ones that the framework wrote belong to the turn around them.
#[must_use]
pub fn begins_turn(message: &UserMessage) -> bool {
    message.id.is_some() || !message.is_hidden()
}

/// Converts stored messages to UI messages: one per user message, and one bubble per turn. Results are in the parts
/// of their calls. The call that carries a structured output is shown as that output.
pub fn convert_messages(
    messages: impl IntoIterator<Item = Message>,
    options: &ConvertOptions,
) -> Vec<UiMessage> {
    let mut converter = Converter {
        options,
        all: Vec::new(),
        bubble: None,
        begins_at: options.first,
    };
    for (index, message) in messages.into_iter().enumerate() {
        let at = options.first.saturating_add(index);
        let id = options.generate_id.as_ref().map(|make| make(at, &message));
        match message {
            Message::User(user) => converter.user(at, id, user),
            Message::Assistant(reply) => converter.reply(id, &reply),
            Message::Tool(result) => converter.result(&result),
            _ => {}
        }
    }
    converter.end_bubble();
    converter.all
}

struct Converter<'a> {
    options: &'a ConvertOptions,
    all: Vec<UiMessage>,
    bubble: Option<UiMessage>,
    /// The position after the user messages of the turn.
    begins_at: usize,
}

impl Converter<'_> {
    fn user(&mut self, at: usize, id: Option<String>, user: UserMessage) {
        let is_shown = !user.is_hidden() || !self.options.filter_hidden;
        if begins_turn(&user) {
            self.end_bubble();
            self.begins_at = at.saturating_add(1);
        }
        if !is_shown {
            return;
        }
        self.end_bubble();
        let own = user.id.as_ref().map(ToString::to_string);
        let id = id.or(own).unwrap_or_else(|| bubble_id(at));
        let mut parts = Vec::new();
        if !user.content.is_empty() {
            parts.push(UiPart::text(user.content));
        }
        parts.extend(user.files.into_iter().map(|file| UiPart::File {
            media_type: file.media_type,
            url: file.data,
            filename: file.filename,
        }));
        let mut message = UiMessage::new(id, UiRole::User, parts);
        if !user.metadata.is_empty() {
            message.metadata = Some(Value::Object(user.metadata));
        }
        self.all.push(message);
    }

    fn reply(&mut self, id: Option<String>, reply: &AssistantMessage) {
        let id = id.unwrap_or_else(|| bubble_id(self.begins_at));
        let bubble = self
            .bubble
            .get_or_insert_with(|| UiMessage::new(id, UiRole::Assistant, Vec::new()));
        // As in the stream, a step begins with what it shows.
        let shows = |part: &AssistantPart| match part {
            AssistantPart::Text { text, .. } => !text.is_empty(),
            AssistantPart::Thinking(thinking) => {
                self.options.include_reasoning && !thinking.text.is_empty()
            }
            AssistantPart::ToolCall(call) => call.name != FINISH_TOOL,
            _ => false,
        };
        if reply.parts.iter().any(shows) {
            bubble.parts.push(UiPart::StepStart {});
        }
        let done = || Some("done".to_owned());
        for part in reply.parts.iter() {
            match part {
                AssistantPart::Text { text, .. } if !text.is_empty() => {
                    bubble.parts.push(UiPart::Text {
                        text: text.clone(),
                        state: done(),
                    });
                }
                AssistantPart::Thinking(thinking)
                    if self.options.include_reasoning && !thinking.text.is_empty() =>
                {
                    bubble.parts.push(UiPart::Reasoning {
                        text: thinking.text.clone(),
                        state: done(),
                    });
                }
                AssistantPart::ToolCall(call) => {
                    let kind = self.options.tools.of(&self.options.agent, &call.name);
                    bubble.parts.push(UiPart::DynamicTool {
                        tool_name: call.name.to_string(),
                        tool_call_id: call.id.to_string(),
                        state: ToolState::InputAvailable,
                        input: call.arguments.clone().into_value(),
                        output: None,
                        error_text: None,
                        provider_executed: (kind == ToolKind::Server).then_some(true),
                        approval: None,
                    });
                    let child = self.options.children.get(&call.id);
                    bubble.parts.extend(child.cloned().map(UiPart::Data));
                }
                _ => {}
            }
        }
        if let Some(stopped) = reply.metadata.get(INTERRUPTED) {
            let metadata = Map::from_iter([(INTERRUPTED.to_owned(), stopped.clone())]);
            bubble.metadata = Some(Value::Object(metadata));
        }
    }

    fn result(&mut self, result: &ToolMessage) {
        if !self.options.merge_tool_results && result.tool_name != FINISH_TOOL {
            return;
        }
        let parts = self.bubble.iter_mut().flat_map(|bubble| &mut bubble.parts);
        let part = parts.rev().find(|part| {
            matches!(part, UiPart::DynamicTool { tool_call_id, .. }
                if *tool_call_id == result.tool_call_id.as_str())
        });
        let Some(UiPart::DynamicTool {
            tool_call_id,
            state,
            output,
            error_text,
            approval,
            ..
        }) = part
        else {
            return;
        };
        match result.status {
            ResultStatus::Success => {
                *state = ToolState::OutputAvailable;
                *output = Some(result.value());
            }
            ResultStatus::Denied => {
                *state = ToolState::OutputDenied;
                *approval = Some(ToolApproval {
                    id: tool_call_id.clone(),
                    approved: Some(false),
                    reason: Some(result.error_text()),
                });
            }
            _ => {
                *state = ToolState::OutputError;
                *error_text = Some(result.error_text());
            }
        }
    }

    fn end_bubble(&mut self) {
        let Some(mut bubble) = self.bubble.take() else {
            return;
        };
        let parts = std::mem::take(&mut bubble.parts);
        bubble.parts = parts.into_iter().filter_map(finished).collect();
        self.all.push(bubble);
    }
}

/// The call that carries a structured output is shown as that output; one that was refused is not shown.
fn finished(part: UiPart) -> Option<UiPart> {
    match part {
        UiPart::DynamicTool {
            tool_name,
            state,
            input,
            ..
        } if tool_name == FINISH_TOOL => {
            let is_output = state == ToolState::OutputAvailable;
            is_output.then(|| {
                UiPart::Data(DataPart {
                    kind: "data-output".to_owned(),
                    id: Some("output".to_owned()),
                    data: input,
                })
            })
        }
        other => Some(other),
    }
}
