//! Assembles one reply from events.

use std::sync::Arc;

use serde_json::Value;

use super::{ModelError, ModelErrorKind, ModelEvent, TokenUsage};
use crate::bounds::{Bounds, cut_off};
use crate::id::{CallId, IdSource, SessionId};
use crate::json::Json;
use crate::message::{AssistantMessage, AssistantPart, Thinking, ToolCall};
use crate::shared_str::SharedStr;
use crate::step::{FINISH_TOOL, StopReason};
use crate::transcript::{CallIds, Transcript};

/// A whole reply of a model.
///
/// ```
/// use helix_agents::{ModelReply, StopReason, TokenUsage, prelude::*};
///
/// let reply = ModelReply::call("refund", json!({ "order_id": "42" })).with_usage(TokenUsage::new(120, 18));
/// assert_eq!(reply.stop_reason, StopReason::ToolUse);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelReply {
    /// The model's message, parts in order, call ids unique in the session.
    pub message: AssistantMessage,
    /// Why the model stopped.
    pub stop_reason: StopReason,
    /// The tokens that the call used.
    pub usage: TokenUsage,
}

impl ModelReply {
    /// A reply that is a whole message. It stops for its tool calls, or at the end of the turn if there are
    /// none ([`with_stop_reason`](Self::with_stop_reason) sets another reason).
    #[must_use]
    pub fn new(message: AssistantMessage) -> Self {
        let stop_reason = match message.tool_calls().next() {
            Some(_) => StopReason::ToolUse,
            None => StopReason::EndTurn,
        };
        Self {
            message,
            stop_reason,
            usage: TokenUsage::default(),
        }
    }

    /// A reply that is a text and ends the turn.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(AssistantMessage::text(text))
    }

    /// A reply that calls a tool.
    #[must_use]
    pub fn call(tool: impl Into<String>, arguments: Value) -> Self {
        Self::new(AssistantMessage::new(Vec::new())).and_call(tool, arguments)
    }

    /// Adds a call.
    #[must_use]
    pub fn and_call(mut self, tool: impl Into<String>, arguments: Value) -> Self {
        let call = ToolCall::new(CallId::of_reply(), tool.into(), arguments);
        Arc::make_mut(&mut self.message.parts).push(AssistantPart::ToolCall(call));
        self.stop_reason = StopReason::ToolUse;
        self
    }

    /// Sets why the model stopped.
    #[must_use]
    pub fn with_stop_reason(mut self, stop_reason: StopReason) -> Self {
        self.stop_reason = stop_reason;
        self
    }

    /// Sets the tokens that the reply used.
    #[must_use]
    pub fn with_usage(mut self, usage: TokenUsage) -> Self {
        self.usage = usage;
        self
    }
}

/// The part of an event that readers of the stream see.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyDelta {
    /// The next piece of text.
    Text(String),
    /// The next piece of reasoning.
    Thinking(String),
    /// A block of reasoning is complete.
    ThinkingEnd,
    /// A call begins.
    CallStart {
        /// The id of the call in the session.
        id: CallId,
        /// The name of the tool.
        name: SharedStr,
    },
    /// The next piece of a call's arguments.
    CallArguments {
        /// The id of the call.
        id: CallId,
        /// The JSON text to append.
        delta: String,
    },
    /// A call's arguments are complete.
    CallEnd {
        /// The id of the call.
        id: CallId,
    },
}

#[derive(Debug)]
struct Call {
    part: usize,
    id: CallId,
    arguments: String,
}

/// The number of parts up to which no room is made for more.
const FEW_PARTS: usize = 3;

/// Assembles a reply from its events.
#[derive(Debug)]
pub struct ReplyBuilder {
    ids: CallIds,
    parts: Vec<AssistantPart>,
    calls: Vec<Call>,
    /// A block of reasoning that may still grow; it becomes a part when it ends.
    thinking: Option<Thinking>,
    /// Whether the last part is a text that may still grow.
    in_text: bool,
    usage: Option<TokenUsage>,
    finished: Option<StopReason>,
    bounds: Bounds,
}

impl ReplyBuilder {
    /// Creates a builder for a reply to this history.
    #[must_use]
    pub fn new(history: &Transcript) -> Self {
        Self {
            ids: history.call_ids(),
            parts: Vec::new(),
            calls: Vec::new(),
            thinking: None,
            in_text: false,
            usage: None,
            finished: None,
            bounds: Bounds::default(),
        }
    }

    /// Does not use these ids for the calls of a session: other sessions of its tree wait for calls of them.
    #[must_use]
    pub(crate) fn avoiding(
        mut self,
        taken: impl IntoIterator<Item = CallId>,
        session: &SessionId,
    ) -> Self {
        self.ids.avoid(taken, session);
        self
    }

    /// Sets the limits on what the model returns.
    #[must_use]
    pub(crate) fn bounded(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Adds one event, and returns what readers of the stream see of it.
    ///
    /// # Errors
    /// [`ModelError`] if the event refers to a call that has not begun, comes after the end, or has
    /// metadata that exceeds its limits.
    pub fn push(
        &mut self,
        event: ModelEvent,
        source: &dyn IdSource,
    ) -> Result<Option<ReplyDelta>, ModelError> {
        if self.finished.is_some() {
            return Err(ModelError::new(
                ModelErrorKind::Transport,
                "the model sent an event after it had finished",
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
                    Some(AssistantPart::Text { text: so_far, .. }) if self.in_text => {
                        so_far.push_str(&text);
                    }
                    _ => self.add_part(AssistantPart::text(text.clone())),
                }
                self.in_text = true;
                ReplyDelta::Text(text)
            }
            ModelEvent::TextEnd { provider_metadata } => {
                self.end_text(provider_metadata)?;
                return Ok(None);
            }
            ModelEvent::Thinking(text) => {
                self.in_text = false;
                self.thinking.get_or_insert_default().text.push_str(&text);
                ReplyDelta::Thinking(text)
            }
            ModelEvent::ThinkingEnd {
                signature,
                redacted,
                provider_metadata,
            } => {
                self.check_metadata(provider_metadata.as_ref())?;
                let block = self.thinking.take();
                let is_shown = block.is_some();
                let block = block.unwrap_or_default();
                self.add_part(AssistantPart::Thinking(Thinking {
                    signature,
                    redacted,
                    provider_metadata,
                    ..block
                }));
                if !is_shown {
                    return Ok(None);
                }
                ReplyDelta::ThinkingEnd
            }
            ModelEvent::CallStart { id, name } => {
                self.close_thinking();
                // An id that is not valid here counts as missing.
                let wanted = id.and_then(|id| CallId::new(id).ok());
                let id = self.ids.assign(wanted.as_ref(), source)?;
                self.calls.push(Call {
                    part: self.parts.len(),
                    id: id.clone(),
                    arguments: String::new(),
                });
                let name = SharedStr::from(name);
                let call = ToolCall::new(id.clone(), name.clone(), Json::default());
                self.add_part(AssistantPart::ToolCall(call));
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
                self.check_metadata(provider_metadata.as_ref())?;
                let (part, id) = {
                    let call = self.call(call)?;
                    (call.part, call.id.clone())
                };
                if let Some(AssistantPart::ToolCall(call)) = self.parts.get_mut(part) {
                    call.provider_metadata = provider_metadata;
                }
                ReplyDelta::CallEnd { id }
            }
            ModelEvent::Usage(usage) => {
                self.usage = Some(usage);
                return Ok(None);
            }
            ModelEvent::Finished { stop_reason, usage } => {
                self.usage = Some(usage);
                self.finished = Some(stop_reason);
                return Ok(None);
            }
        };
        Ok(Some(delta))
    }

    /// Checks provider metadata. It must be sent back unchanged, so it cannot be shortened.
    fn check_metadata(&self, metadata: Option<&Value>) -> Result<(), ModelError> {
        let Some(metadata) = metadata else {
            return Ok(());
        };
        let checked = self.bounds.check("the provider's metadata", metadata);
        checked.map_err(|error| ModelError::new(ModelErrorKind::Invalid, error.to_string()))
    }

    /// Adds a part. Most replies have one or two, and they are kept for as long as the session.
    fn add_part(&mut self, part: AssistantPart) {
        self.in_text = false;
        if self.parts.len() < FEW_PARTS {
            self.parts.reserve_exact(1);
        }
        self.parts.push(part);
    }

    /// Ends the text that may still grow. Data that came without a text becomes a part of its own.
    fn end_text(&mut self, provider_metadata: Option<Value>) -> Result<(), ModelError> {
        self.check_metadata(provider_metadata.as_ref())?;
        let was_in_text = std::mem::take(&mut self.in_text);
        match self.parts.last_mut() {
            Some(AssistantPart::Text {
                provider_metadata: kept,
                ..
            }) if was_in_text => *kept = provider_metadata,
            _ if provider_metadata.is_some() => {
                self.close_thinking();
                self.add_part(AssistantPart::Text {
                    text: String::new(),
                    provider_metadata,
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the tokens that the call is known to have used so far.
    #[must_use]
    pub fn usage(&self) -> Option<TokenUsage> {
        self.usage
    }

    fn close_thinking(&mut self) {
        if let Some(block) = self.thinking.take() {
            self.add_part(AssistantPart::Thinking(block));
        }
    }

    fn call(&mut self, index: usize) -> Result<&mut Call, ModelError> {
        self.calls.get_mut(index).ok_or_else(|| {
            ModelError::new(
                ModelErrorKind::Transport,
                format!("the model referred to call {index} before it began"),
            )
        })
    }

    /// Returns the reply so far, for a reply that is cut off on purpose: its texts and the calls that have
    /// begun, without its reasoning. The arguments of the last call may be incomplete. `None` if the model
    /// has neither said a text nor begun a call.
    pub(crate) fn into_partial(mut self) -> Option<AssistantMessage> {
        self.fill_arguments();
        self.parts.retain(|part| match part {
            AssistantPart::Text { text, .. } => !text.is_empty(),
            AssistantPart::ToolCall(call) => call.name != FINISH_TOOL,
            AssistantPart::Thinking(_) => false,
        });
        (!self.parts.is_empty()).then(|| AssistantMessage::new(self.parts))
    }

    fn fill_arguments(&mut self) {
        for call in std::mem::take(&mut self.calls) {
            if let Some(AssistantPart::ToolCall(part)) = self.parts.get_mut(call.part) {
                part.arguments = arguments(call.arguments, self.bounds).into();
            }
        }
    }

    /// Returns the whole reply.
    ///
    /// Arguments that are not JSON, or nested too deeply to be stored, are kept as a text, which no
    /// tool's schema accepts: the model gets an error, and the tool never sees them. Of arguments that
    /// are too large, the beginning and the reason are kept. Missing arguments become an empty object.
    ///
    /// # Errors
    /// A transport error if the stream ended before the model had finished.
    pub fn finish(mut self) -> Result<ModelReply, ModelError> {
        let Some(stop_reason) = self.finished else {
            return Err(ModelError::new(
                ModelErrorKind::Transport,
                "the stream ended before the model had finished",
            ));
        };
        self.close_thinking();
        self.fill_arguments();
        Ok(ModelReply {
            message: AssistantMessage::new(self.parts),
            stop_reason,
            usage: self.usage.unwrap_or_default(),
        })
    }
}

/// Returns the arguments of a call in the form in which they are stored.
fn arguments(text: String, bounds: Bounds) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    let what = "the argument text";
    if let Ok(value) = serde_json::from_str(&text)
        && bounds.check(what, &value).is_ok()
    {
        return value;
    }
    match bounds.check_size(what, &text) {
        Ok(()) => Value::String(text),
        Err(error) => Value::String(cut_off(&text, &error.to_string())),
    }
}
