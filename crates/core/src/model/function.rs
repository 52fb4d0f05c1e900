//! Models that are functions.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde_json::Value;

use super::{
    EventStream, Model, ModelConfig, ModelError, ModelEvent, ModelReply, ModelRequest, ToolChoice,
    ToolSchema,
};
use crate::id::SessionId;
use crate::maybe_send::MaybeSend;
use crate::message::{AssistantPart, Message};
use crate::schema::Schema;
use crate::transcript::Transcript;

/// A [`ModelRequest`] that borrows nothing, for a model that is a function.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::ModelReply;
///
/// let echo = Model::from_fn(|input| async move { Ok(ModelReply::text(input.last_user_text())) });
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ModelInput {
    /// The system prompt.
    pub system: String,
    /// The whole history. It is shared, not copied.
    pub history: Transcript,
    /// The tools the model may call.
    pub tools: Vec<ToolSchema>,
    /// Whether it may, must or must not call one.
    pub tool_choice: ToolChoice,
    /// The schema of the output that the model shall give without a tool.
    pub native_output: Option<Schema>,
    /// Settings of the model.
    pub config: ModelConfig,
    /// The session's state.
    pub state: Value,
    /// Which agent asks.
    pub agent_type: String,
    /// In which session.
    pub session_id: SessionId,
    /// Which attempt of this call it is, from 1; 1 again after a crash.
    pub attempt: u32,
}

impl ModelInput {
    fn of(request: &ModelRequest<'_>) -> Self {
        Self {
            system: request.prompt.system().to_owned(),
            history: request.prompt.history().clone(),
            tools: request.tools.to_vec(),
            tool_choice: request.tool_choice.clone(),
            native_output: request.native_output.cloned(),
            config: request.config.clone(),
            state: request.state.clone(),
            agent_type: request.agent_type.to_owned(),
            session_id: request.session_id.clone(),
            attempt: request.attempt,
        }
    }

    /// The text of the last user message; empty when there is none.
    #[must_use]
    pub fn last_user_text(&self) -> &str {
        let mut latest = self.history.iter().rev();
        let said = latest.find_map(|message| match message {
            Message::User(message) => Some(message.content.as_str()),
            _ => None,
        });
        said.unwrap_or_default()
    }
}

impl<F, Fut> Model for F
where
    F: Fn(ModelInput) -> Fut + Send + Sync,
    Fut: Future<Output = Result<ModelReply, ModelError>> + MaybeSend + 'static,
{
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        Box::pin(Whole {
            reply: Some(Box::pin(self(ModelInput::of(&request)))),
            events: VecDeque::new(),
        })
    }

    fn name(&self) -> &str {
        "custom/function"
    }
}

/// The events of a reply that comes as a whole.
struct Whole<Fut> {
    reply: Option<Pin<Box<Fut>>>,
    events: VecDeque<ModelEvent>,
}

impl<Fut> Stream for Whole<Fut>
where
    Fut: Future<Output = Result<ModelReply, ModelError>>,
{
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(reply) = &mut self.reply {
            let Poll::Ready(reply) = reply.as_mut().poll(cx) else {
                return Poll::Pending;
            };
            self.reply = None;
            match reply {
                Ok(reply) => self.events = events(reply),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        Poll::Ready(self.events.pop_front().map(Ok))
    }
}

fn events(reply: ModelReply) -> VecDeque<ModelEvent> {
    let mut events = VecDeque::new();
    let mut calls = 0;
    for part in Arc::unwrap_or_clone(reply.message.parts) {
        match part {
            AssistantPart::Text {
                text,
                provider_metadata,
            } => events.extend([
                ModelEvent::Text(text),
                ModelEvent::TextEnd { provider_metadata },
            ]),
            AssistantPart::Thinking(block) => events.extend([
                ModelEvent::Thinking(block.text),
                ModelEvent::ThinkingEnd {
                    signature: block.signature,
                    redacted: block.redacted,
                    provider_metadata: block.provider_metadata,
                },
            ]),
            AssistantPart::ToolCall(call) => {
                events.extend([
                    ModelEvent::CallStart {
                        id: Some(call.id.to_string()),
                        name: call.name.to_string(),
                    },
                    ModelEvent::CallArguments {
                        call: calls,
                        delta: call.arguments.to_string(),
                    },
                    ModelEvent::CallEnd {
                        call: calls,
                        provider_metadata: call.provider_metadata,
                    },
                ]);
                calls += 1;
            }
        }
    }
    events.push_back(ModelEvent::Finished {
        stop_reason: reply.stop_reason,
        usage: reply.usage,
    });
    events
}
