//! Streamed replies of `genai`.

use std::collections::VecDeque;

use ::genai::chat::{
    ChatStreamEvent, ContentPart, StopReason as Reason, StreamEnd, ToolCall, Usage,
};
use helix_agents_core::model::{ModelError, ModelErrorKind, ModelEvent, TokenUsage};
use helix_agents_core::step::StopReason;
use serde_json::{Map, Value, json};

use super::PROVIDER;
use super::messages::{MODEL, PARTS};

/// A reply as far as it is here.
#[derive(Debug)]
pub(super) struct GenaiReply<'a> {
    model: &'a str,
    calls: Vec<Call>,
    is_thinking: bool,
}

#[derive(Debug)]
struct Call {
    id: String,
    /// The arguments that were told.
    arguments: String,
    /// Whether the call came as a whole.
    is_whole: bool,
}

impl<'a> GenaiReply<'a> {
    pub(super) fn new(model: &'a str) -> Self {
        Self {
            model,
            calls: Vec::new(),
            is_thinking: false,
        }
    }

    /// Reads one event, and adds what it says to `out`.
    pub(super) fn read(
        &mut self,
        event: ChatStreamEvent,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ModelError> {
        match event {
            ChatStreamEvent::Chunk(chunk) if !chunk.content.is_empty() => {
                self.end_thinking(out);
                out.push_back(ModelEvent::Text(chunk.content));
            }
            ChatStreamEvent::ReasoningChunk(chunk) if !chunk.content.is_empty() => {
                self.is_thinking = true;
                out.push_back(ModelEvent::Thinking(chunk.content));
            }
            ChatStreamEvent::ToolCallChunk(chunk) => {
                self.end_thinking(out);
                self.call(chunk.tool_call, out)?;
            }
            ChatStreamEvent::End(end) => self.end(end, out)?,
            // Signatures are told again at the end, each with what it signs.
            _ => {}
        }
        Ok(())
    }

    /// Returns what is kept with reasoning, for requests to the same model.
    fn kept(&self, parts: Option<Value>) -> Value {
        let mut ours = Map::new();
        ours.insert(MODEL.to_owned(), self.model.into());
        ours.extend(parts.map(|parts| (PARTS.to_owned(), parts)));
        json!({ (PROVIDER): ours })
    }

    fn end_thinking(&mut self, out: &mut VecDeque<ModelEvent>) {
        if std::mem::take(&mut self.is_thinking) {
            out.push_back(thinking_end(self.kept(None)));
        }
    }

    /// Reads a call: a whole one, whose arguments are a value, or one whose arguments are a text that grows.
    fn call(&mut self, call: ToolCall, out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let (arguments, is_whole) = match call.fn_arguments {
            Value::String(text) => (text, false),
            Value::Null => (String::new(), false),
            whole => (whole.to_string(), true),
        };
        let is_it = |known: &Call| known.id == call.call_id && !known.is_whole && !is_whole;
        let number = match self.calls.iter().rposition(is_it) {
            Some(number) => number,
            None => {
                self.calls.push(Call {
                    id: call.call_id.clone(),
                    arguments: String::new(),
                    is_whole,
                });
                out.push_back(ModelEvent::CallStart {
                    id: Some(call.call_id).filter(|id| !id.is_empty()),
                    name: call.fn_name,
                });
                self.calls.len() - 1
            }
        };
        let Some(known) = self.calls.get_mut(number) else {
            return Err(confused());
        };
        let more = arguments.strip_prefix(known.arguments.as_str());
        let delta = more.ok_or_else(confused)?.to_owned();
        known.arguments = arguments;
        if !delta.is_empty() {
            out.push_back(ModelEvent::CallArguments {
                call: number,
                delta,
            });
        }
        Ok(())
    }

    fn end(&mut self, end: StreamEnd, out: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        self.end_thinking(out);
        let usage = end.captured_usage.map(tokens).unwrap_or_default();
        out.push_back(ModelEvent::Usage(usage));
        let content = end.captured_content.map(|content| content.into_parts());
        let mut kept = Vec::new();
        let mut ids = Vec::new();
        for part in content.unwrap_or_default() {
            match part {
                ContentPart::ToolCall(call) => ids.push(call.call_id),
                ContentPart::ThoughtSignature(_)
                | ContentPart::ReasoningContent(_)
                | ContentPart::Custom(_) => kept.push(part),
                _ => {}
            }
        }
        // A call that is taken for two would be made twice.
        let is_known = |id: &String| self.calls.iter().any(|call| call.id == *id);
        if self.calls.len() > ids.len() || !ids.iter().all(is_known) {
            return Err(confused());
        }
        // Some adapters end a stream that broke as if it were whole, but without a reason.
        let Some(reason) = end.captured_stop_reason else {
            let detail = "the stream ended without a reason, so the reply may not be whole";
            return Err(ModelError::new(ModelErrorKind::Transport, detail));
        };
        if !kept.is_empty() {
            let parts = serde_json::to_value(kept).map_err(|_| confused())?;
            out.push_back(thinking_end(self.kept(Some(parts))));
        }
        out.extend((0..self.calls.len()).map(|call| ModelEvent::CallEnd {
            call,
            provider_metadata: None,
        }));
        let stop_reason = match stop_reason(&reason) {
            StopReason::EndTurn if !self.calls.is_empty() => StopReason::ToolUse,
            reason => reason,
        };
        out.push_back(ModelEvent::Finished { stop_reason, usage });
        Ok(())
    }
}

fn confused() -> ModelError {
    let detail = "genai told the calls of a reply in pieces that do not fit together";
    ModelError::new(ModelErrorKind::Transport, detail)
}

fn thinking_end(kept: Value) -> ModelEvent {
    ModelEvent::ThinkingEnd {
        signature: None,
        redacted: None,
        provider_metadata: Some(kept),
    }
}

fn stop_reason(reason: &Reason) -> StopReason {
    match reason {
        Reason::Completed(_) => StopReason::EndTurn,
        Reason::MaxTokens(_) => StopReason::MaxTokens,
        Reason::ToolCall(_) => StopReason::ToolUse,
        Reason::ContentFilter(raw) if raw == "refusal" => StopReason::Refusal,
        Reason::ContentFilter(_) => StopReason::ContentFilter,
        Reason::StopSequence(_) => StopReason::StopSequence,
        Reason::Other(raw) if matches!(raw.to_ascii_lowercase().as_str(), "error" | "failed") => {
            StopReason::Error
        }
        Reason::Other(_) => StopReason::Unknown,
    }
}

fn tokens(usage: Usage) -> TokenUsage {
    let count = |count: Option<i32>| count.and_then(|count| u64::try_from(count).ok());
    let mut tokens = TokenUsage::new(
        count(usage.prompt_tokens).unwrap_or_default(),
        count(usage.completion_tokens).unwrap_or_default(),
    );
    if let Some(details) = usage.prompt_tokens_details {
        tokens.cached = count(details.cached_tokens);
        tokens.cache_write = count(details.cache_creation_tokens);
    }
    let details = usage.completion_tokens_details;
    tokens.reasoning = details.and_then(|all| count(all.reasoning_tokens));
    tokens
}

#[cfg(test)]
mod tests;
