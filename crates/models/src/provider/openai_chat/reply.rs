//! Streamed replies of Chat Completions.

use std::collections::VecDeque;

use helix_agents_core::model::{ModelEvent, TokenUsage};
use helix_agents_core::step::StopReason;
use serde_json::{Map, Value, json};

use super::chunk::{Arguments, CallDelta, Chunk, Content, Delta, FunctionDelta, Piece};
use super::details;
use super::messages::IN_CONTENT;
use crate::provider::Provider;
use crate::provider::failure::ProviderFailure;
use crate::provider::sse::SseEvent;
use crate::provider::wire::{ReadError, ReplyReader};

/// A reply as far as it is here.
#[derive(Debug)]
pub(super) struct ChatReply {
    model: String,
    calls: Vec<Call>,
    /// The field in which reasoning comes, while a block of it is open.
    reasoning: Option<&'static str>,
    details: Vec<Value>,
    refused: bool,
    stopped: Option<StopReason>,
    usage: TokenUsage,
    finished: bool,
}

#[derive(Debug)]
struct Call {
    index: Option<u32>,
    id: String,
}

impl ChatReply {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            calls: Vec::new(),
            reasoning: None,
            details: Vec::new(),
            refused: false,
            stopped: None,
            usage: TokenUsage::default(),
            finished: false,
        }
    }

    fn delta(&mut self, delta: Delta, out: &mut VecDeque<ModelEvent>) {
        let reasoning = [
            ("reasoning_content", delta.reasoning_content),
            ("reasoning", delta.reasoning),
        ];
        let filled =
            |(_, text): &(_, Option<String>)| text.as_ref().is_some_and(|it| !it.is_empty());
        if let Some((field, Some(text))) = reasoning.into_iter().find(filled) {
            self.reasoning = Some(field);
            out.push_back(ModelEvent::Thinking(text));
        }
        for piece in delta.reasoning_details.into_iter().flatten() {
            details::add(&mut self.details, piece);
        }
        for piece in delta.content.into_iter().flat_map(Content::pieces) {
            match piece {
                Piece::Thinking(text) => {
                    self.reasoning = Some(IN_CONTENT);
                    out.push_back(ModelEvent::Thinking(text));
                }
                Piece::Text(text) => {
                    self.end_reasoning(out);
                    out.push_back(ModelEvent::Text(text));
                }
            }
        }
        if let Some(text) = delta.refusal.filter(|text| !text.is_empty()) {
            self.end_reasoning(out);
            self.refused = true;
            out.push_back(ModelEvent::Text(text));
        }
        for call in delta.tool_calls {
            self.end_reasoning(out);
            self.call(call, out);
        }
    }

    /// Ends a block of reasoning, with what a later request gives back.
    fn end_reasoning(&mut self, out: &mut VecDeque<ModelEvent>) {
        let field = self.reasoning.take();
        if field.is_none() && self.details.is_empty() {
            return;
        }
        let mut ours = Map::new();
        ours.insert("model".to_owned(), self.model.as_str().into());
        if self.details.is_empty() {
            ours.extend(field.map(|field| ("field".to_owned(), field.into())));
        } else {
            let details = std::mem::take(&mut self.details);
            ours.insert("details".to_owned(), details.into());
        }
        out.push_back(ModelEvent::ThinkingEnd {
            signature: None,
            redacted: None,
            provider_metadata: Some(json!({ (Provider::OpenAi.name()): ours })),
        });
    }

    fn call(&mut self, delta: CallDelta, out: &mut VecDeque<ModelEvent>) {
        let id = delta.id.filter(|id| !id.is_empty());
        let FunctionDelta { name, arguments } = delta.function;
        let name = name.filter(|name| !name.is_empty());
        let call = match self.known(delta.index, id.as_deref(), name.is_some()) {
            Some(call) => call,
            None => {
                let number = self.calls.len();
                self.calls.push(Call {
                    index: delta.index,
                    id: id.clone().unwrap_or_default(),
                });
                out.push_back(ModelEvent::CallStart {
                    id,
                    name: name.unwrap_or_default(),
                });
                number
            }
        };
        let delta = match arguments {
            Some(Arguments::Text(text)) => text,
            Some(Arguments::Value(Value::Null)) | None => return,
            Some(Arguments::Value(value)) => value.to_string(),
        };
        if !delta.is_empty() {
            out.push_back(ModelEvent::CallArguments { call, delta });
        }
    }

    /// Returns the call that a piece continues. Some servers repeat the id, some give it once; some send no
    /// index, and some the same one for every call.
    fn known(&self, index: Option<u32>, id: Option<&str>, is_named: bool) -> Option<usize> {
        // An id that comes again with another index is another call.
        let is_it = |call: &Call, id: &str| {
            call.id == id && (index.is_none() || call.index.is_none() || call.index == index)
        };
        let same_id = id.and_then(|id| self.calls.iter().rposition(|call| is_it(call, id)));
        if same_id.is_some() {
            return same_id;
        }
        let is_new = id.is_some() && is_named;
        if is_new {
            return None;
        }
        match index {
            Some(index) => self
                .calls
                .iter()
                .rposition(|call| call.index == Some(index)),
            None if is_named => None,
            None => self.calls.len().checked_sub(1),
        }
    }

    fn finish(&mut self, out: &mut VecDeque<ModelEvent>) {
        let Some(reason) = self.stopped.filter(|_| !self.finished) else {
            return;
        };
        self.finished = true;
        self.end_reasoning(out);
        out.extend((0..self.calls.len()).map(|call| ModelEvent::CallEnd {
            call,
            provider_metadata: None,
        }));
        let stop_reason = match reason {
            // Some servers end a reply with calls as if it were a text.
            StopReason::EndTurn if !self.calls.is_empty() => StopReason::ToolUse,
            StopReason::EndTurn if self.refused => StopReason::Refusal,
            reason => reason,
        };
        out.push_back(ModelEvent::Finished {
            stop_reason,
            usage: self.usage,
        });
    }
}

impl ReplyReader for ChatReply {
    fn read(
        &mut self,
        event: SseEvent<'_>,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ReadError> {
        if self.finished {
            return Ok(());
        }
        if event.data.trim() == "[DONE]" {
            self.finish(out);
            return Ok(());
        }
        let chunk: Chunk =
            serde_json::from_str(event.data).map_err(|error| ReadError::malformed(&error))?;
        if let Some(error) = chunk.error {
            return Err(ReadError::Provider(ProviderFailure::of_error(&error)));
        }
        for choice in chunk.choices {
            self.delta(choice.delta, out);
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.stopped = Some(stop_reason(&reason));
            }
        }
        let usage = chunk.usage.map(TokenUsage::from);
        // Some servers repeat it in every event.
        if let Some(usage) = usage.filter(|usage| *usage != self.usage) {
            self.usage = usage;
            out.push_back(ModelEvent::Usage(usage));
        }
        Ok(())
    }

    fn end(&mut self, out: &mut VecDeque<ModelEvent>) -> Result<(), ReadError> {
        // Some servers leave out the last line.
        self.finish(out);
        Ok(())
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "stop" => StopReason::EndTurn,
        "length" => StopReason::MaxTokens,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "content_filter" => StopReason::ContentFilter,
        "error" => StopReason::Error,
        _ => StopReason::Unknown,
    }
}

#[cfg(test)]
mod tests;
