//! From events to one reply.

use serde_json::Value;

use super::{ModelError, ModelErrorKind, ModelEvent, TokenUsage};
use crate::canonical::is_deeper_than;
use crate::id::{CallId, IdSource};
use crate::message::{AssistantMessage, AssistantPart, Thinking, ToolCall};
use crate::state::MAX_DEPTH;
use crate::step::StopReason;
use crate::transcript::{CallIds, Transcript};

/// A whole reply.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelReply {
    /// What the model said, parts in order, call ids unique in the session.
    pub message: AssistantMessage,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// What it cost.
    pub usage: TokenUsage,
}

impl ModelReply {
    /// A reply put together by hand.
    #[must_use]
    pub fn new(message: AssistantMessage, stop_reason: StopReason, usage: TokenUsage) -> Self {
        Self {
            message,
            stop_reason,
            usage,
        }
    }
}

/// What a reader of the stream is shown for an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyDelta {
    /// More text.
    Text(String),
    /// More reasoning.
    Thinking(String),
    /// A block of reasoning is complete.
    ThinkingEnd,
    /// A call begins.
    CallStart {
        /// Its id in the session.
        id: CallId,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments.
    CallArguments {
        /// The call.
        id: CallId,
        /// The next piece of JSON text.
        delta: String,
    },
    /// A call's arguments are complete.
    CallEnd {
        /// The call.
        id: CallId,
    },
}

#[derive(Debug)]
struct Call {
    part: usize,
    id: CallId,
    arguments: String,
}

/// Puts a reply together from its events.
#[derive(Debug)]
pub struct ReplyBuilder {
    ids: CallIds,
    parts: Vec<AssistantPart>,
    calls: Vec<Call>,
    /// A block of reasoning that may still grow; it becomes a part when it ends.
    thinking: Option<Thinking>,
    finished: Option<(StopReason, TokenUsage)>,
}

impl ReplyBuilder {
    /// A builder for a reply to this history.
    #[must_use]
    pub fn new(history: &Transcript) -> Self {
        Self {
            ids: history.call_ids(),
            parts: Vec::new(),
            calls: Vec::new(),
            thinking: None,
            finished: None,
        }
    }

    /// Takes one event, and gives what a reader of the stream is shown for it.
    ///
    /// # Errors
    /// [`ModelError`] when the event speaks of a call that has not begun, or comes after the end.
    pub fn push(
        &mut self,
        event: ModelEvent,
        source: &dyn IdSource,
    ) -> Result<Option<ReplyDelta>, ModelError> {
        if self.finished.is_some() {
            return Err(ModelError::new(
                ModelErrorKind::Transport,
                "the model went on after it had finished",
            ));
        }
        let delta = match event {
            // Some providers send empty pieces beside others; they are not parts.
            ModelEvent::Text(text) | ModelEvent::Thinking(text) if text.is_empty() => {
                return Ok(None);
            }
            ModelEvent::Text(text) => {
                self.close_thinking();
                match self.parts.last_mut() {
                    Some(AssistantPart::Text { text: so_far }) => so_far.push_str(&text),
                    _ => self.parts.push(AssistantPart::Text { text: text.clone() }),
                }
                ReplyDelta::Text(text)
            }
            ModelEvent::Thinking(text) => {
                self.thinking.get_or_insert_default().text.push_str(&text);
                ReplyDelta::Thinking(text)
            }
            ModelEvent::ThinkingEnd {
                signature,
                redacted,
                provider_metadata,
            } => {
                let block = self.thinking.take().unwrap_or_default();
                self.parts.push(AssistantPart::Thinking(Thinking {
                    signature,
                    redacted,
                    provider_metadata,
                    ..block
                }));
                ReplyDelta::ThinkingEnd
            }
            ModelEvent::CallStart { id, name } => {
                self.close_thinking();
                // An id outside our limits is no better than none.
                let wanted = id.and_then(|id| CallId::new(id).ok());
                let id = self.ids.assign(wanted.as_ref(), source)?;
                self.calls.push(Call {
                    part: self.parts.len(),
                    id: id.clone(),
                    arguments: String::new(),
                });
                let call = ToolCall::new(id.clone(), name.clone(), Value::Null);
                self.parts.push(AssistantPart::ToolCall(call));
                ReplyDelta::CallStart { id, name }
            }
            ModelEvent::CallArguments { call, delta } => {
                let call = self.call(call)?;
                call.arguments.push_str(&delta);
                let id = call.id.clone();
                ReplyDelta::CallArguments { id, delta }
            }
            ModelEvent::CallEnd {
                call,
                provider_metadata,
            } => {
                let (part, id) = {
                    let call = self.call(call)?;
                    (call.part, call.id.clone())
                };
                if let Some(AssistantPart::ToolCall(call)) = self.parts.get_mut(part) {
                    call.provider_metadata = provider_metadata;
                }
                ReplyDelta::CallEnd { id }
            }
            ModelEvent::Finished { stop_reason, usage } => {
                self.finished = Some((stop_reason, usage));
                return Ok(None);
            }
        };
        Ok(Some(delta))
    }

    fn close_thinking(&mut self) {
        if let Some(block) = self.thinking.take() {
            self.parts.push(AssistantPart::Thinking(block));
        }
    }

    fn call(&mut self, index: usize) -> Result<&mut Call, ModelError> {
        self.calls.get_mut(index).ok_or_else(|| {
            ModelError::new(
                ModelErrorKind::Transport,
                format!("the model spoke of call number {index} before it began"),
            )
        })
    }

    /// What was said so far, for a reply that is cut off on purpose. Calls are left out: their
    /// arguments may be incomplete.
    #[must_use]
    pub fn partial_text(&self) -> Option<String> {
        AssistantMessage::new(self.parts.clone()).content()
    }

    /// The whole reply.
    ///
    /// Arguments that are not JSON, or nested too deep to be stored, stay a text, which no tool's schema accepts: the model is told,
    /// the tool never sees them. No arguments at all are an empty object.
    ///
    /// # Errors
    /// A transport error when the stream ended before the model had finished.
    pub fn finish(mut self) -> Result<ModelReply, ModelError> {
        let Some((stop_reason, usage)) = self.finished else {
            return Err(ModelError::new(
                ModelErrorKind::Transport,
                "the stream ended before the model had finished",
            ));
        };
        self.close_thinking();
        for call in self.calls {
            if let Some(AssistantPart::ToolCall(part)) = self.parts.get_mut(call.part) {
                part.arguments = if call.arguments.trim().is_empty() {
                    Value::Object(serde_json::Map::new())
                } else {
                    match serde_json::from_str(&call.arguments) {
                        Ok(value) if !is_deeper_than(&value, MAX_DEPTH) => value,
                        _ => Value::String(call.arguments),
                    }
                };
            }
        }
        Ok(ModelReply::new(
            AssistantMessage::new(self.parts),
            stop_reason,
            usage,
        ))
    }
}
