//! Streamed replies of Responses.

use std::collections::VecDeque;

use helix_agents_core::model::{ModelEvent, TokenUsage};
use helix_agents_core::step::StopReason;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::event::{BegunItem, Head, ItemEvent, Piece, Response, ResponseEvent, SummaryPart};
use crate::provider::Provider;
use crate::provider::failure::ProviderFailure;
use crate::provider::sse::SseEvent;
use crate::provider::wire::{ReadError, ReplyReader};

/// Stands between two parts of a summary.
const BETWEEN_PARTS: &str = "\n\n";

/// A reply as far as it is here.
#[derive(Debug)]
pub(super) struct ResponsesReply {
    model: String,
    /// Whether the provider keeps the items of this reply.
    is_stored: bool,
    calls: Vec<Call>,
    /// Whether a piece of the text of the open item has come.
    has_text: bool,
    /// Whether a piece of the reasoning of the open item has come.
    has_thinking: bool,
    refused: bool,
    finished: bool,
}

#[derive(Debug)]
struct Call {
    output_index: u64,
    has_arguments: bool,
    ended: bool,
}

impl ResponsesReply {
    pub(super) fn new(model: &str, is_stored: bool) -> Self {
        Self {
            model: model.to_owned(),
            is_stored,
            calls: Vec::new(),
            has_text: false,
            has_thinking: false,
            refused: false,
            finished: false,
        }
    }

    fn text(&mut self, text: String, out: &mut VecDeque<ModelEvent>) {
        self.has_text = true;
        out.push_back(ModelEvent::Text(text));
    }

    fn thinking(&mut self, text: String, out: &mut VecDeque<ModelEvent>) {
        self.has_thinking = true;
        out.push_back(ModelEvent::Thinking(text));
    }

    fn call(&self, output_index: u64) -> Option<usize> {
        let is_it = |call: &Call| call.output_index == output_index && !call.ended;
        self.calls.iter().rposition(is_it)
    }

    fn begin_call(
        &mut self,
        output_index: u64,
        id: Option<String>,
        name: Option<String>,
        out: &mut VecDeque<ModelEvent>,
    ) -> usize {
        self.calls.push(Call {
            output_index,
            has_arguments: false,
            ended: false,
        });
        out.push_back(ModelEvent::CallStart {
            id: id.filter(|id| !id.is_empty()),
            name: name.unwrap_or_default(),
        });
        self.calls.len() - 1
    }

    fn arguments(&mut self, piece: Piece, out: &mut VecDeque<ModelEvent>) {
        // Pieces of a tool of the provider's own are of no interest here.
        let Some(call) = self.call(piece.output_index) else {
            return;
        };
        if let Some(begun) = self.calls.get_mut(call) {
            begun.has_arguments = true;
        }
        out.push_back(ModelEvent::CallArguments {
            call,
            delta: piece.delta,
        });
    }

    fn end_call(&mut self, call: usize, out: &mut VecDeque<ModelEvent>) {
        if let Some(call) = self.calls.get_mut(call) {
            call.ended = true;
        }
        out.push_back(ModelEvent::CallEnd {
            call,
            provider_metadata: None,
        });
    }

    /// Ends an item, which is here as a whole. Some servers send it in no other way.
    fn end_item(&mut self, index: u64, item: Value, out: &mut VecDeque<ModelEvent>) {
        let text = |field: &str| item.get(field).and_then(Value::as_str).map(str::to_owned);
        match item.get("type").and_then(Value::as_str) {
            Some("message") => self.end_message(&item, out),
            Some("function_call") => {
                let known = self.call(index);
                let call = known
                    .unwrap_or_else(|| self.begin_call(index, text("call_id"), text("name"), out));
                let has_arguments = self.calls.get(call).is_some_and(|call| call.has_arguments);
                if let Some(delta) = text("arguments").filter(|_| !has_arguments) {
                    out.push_back(ModelEvent::CallArguments { call, delta });
                }
                self.end_call(call, out);
            }
            Some("reasoning") => self.end_reasoning(item, out),
            // Tools of the provider's own, and conversations that it has made shorter.
            Some(_) => self.keep(item, out),
            None => {}
        }
        (self.has_text, self.has_thinking) = (false, false);
    }

    fn end_message(&mut self, item: &Value, out: &mut VecDeque<ModelEvent>) {
        let parts = item.get("content").and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            let text = |field: &str| part.get(field).and_then(Value::as_str);
            self.refused |= text("type") == Some("refusal");
            let whole = text("text").or(text("refusal")).unwrap_or_default();
            if !self.has_text && !whole.is_empty() {
                out.push_back(ModelEvent::Text(whole.to_owned()));
            }
        }
        let phase = item.get("phase").filter(|phase| phase.is_string());
        let ours = phase.map(|phase| self.tagged("phase", phase.clone()));
        out.push_back(ModelEvent::TextEnd {
            provider_metadata: ours,
        });
    }

    fn end_reasoning(&mut self, mut item: Value, out: &mut VecDeque<ModelEvent>) {
        let parts = |field: &str| {
            let parts = item.get(field).and_then(Value::as_array);
            let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
            parts
                .into_iter()
                .flatten()
                .filter_map(text)
                .collect::<Vec<_>>()
        };
        let (summary, content) = (parts("summary"), parts("content"));
        if !self.has_thinking {
            let shown = if summary.is_empty() {
                &content
            } else {
                &summary
            };
            let whole = shown.join(BETWEEN_PARTS);
            if !whole.is_empty() {
                self.thinking(whole, out);
            }
        }
        let is_encrypted = item.get("encrypted_content").is_some_and(Value::is_string);
        // Without its content the provider cannot know the item again.
        if !is_encrypted && content.is_empty() && !self.is_stored {
            if self.has_thinking {
                out.push_back(thinking_end(None));
            }
            return;
        }
        // The text of the block is the summary, which need not be kept twice.
        if summary.len() < 2
            && content.is_empty()
            && let Some(fields) = item.as_object_mut()
        {
            fields.remove("summary");
        }
        self.keep(item, out);
    }

    /// Keeps an item, which later requests give back at its place as it is.
    fn keep(&self, item: Value, out: &mut VecDeque<ModelEvent>) {
        out.push_back(thinking_end(Some(self.tagged("item", item))));
    }

    /// Returns the data of a part, with the model that alone can read it.
    fn tagged(&self, field: &str, value: Value) -> Value {
        let mut ours = Map::new();
        ours.insert("model".to_owned(), self.model.as_str().into());
        ours.insert(field.to_owned(), value);
        json!({ (Provider::OpenAiResponses.name()): ours })
    }

    fn finish(&mut self, response: Response, is_whole: bool, out: &mut VecDeque<ModelEvent>) {
        self.finished = true;
        for call in 0..self.calls.len() {
            if self.calls.get(call).is_some_and(|call| !call.ended) {
                self.end_call(call, out);
            }
        }
        let reason = response.incomplete_details.and_then(|all| all.reason);
        let stop_reason = match reason.as_deref() {
            Some("max_output_tokens") => StopReason::MaxTokens,
            Some("content_filter") => StopReason::ContentFilter,
            Some(_) => StopReason::Unknown,
            None if !is_whole => StopReason::Unknown,
            None if !self.calls.is_empty() => StopReason::ToolUse,
            None if self.refused => StopReason::Refusal,
            None => StopReason::EndTurn,
        };
        let usage = response.usage.map(TokenUsage::from).unwrap_or_default();
        out.push_back(ModelEvent::Finished { stop_reason, usage });
    }

    fn event(
        &mut self,
        kind: &str,
        data: &str,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ReadError> {
        match kind {
            "response.output_text.delta" => self.text(parsed::<Piece>(data)?.delta, out),
            "response.function_call_arguments.delta" => self.arguments(parsed(data)?, out),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.thinking(parsed::<Piece>(data)?.delta, out);
            }
            "response.reasoning_summary_part.added" => {
                let part: SummaryPart = parsed(data)?;
                if part.summary_index > 0 {
                    self.thinking(BETWEEN_PARTS.to_owned(), out);
                }
            }
            "response.refusal.delta" => {
                self.refused = true;
                self.text(parsed::<Piece>(data)?.delta, out);
            }
            "response.output_item.added" => {
                let begun: ItemEvent<BegunItem> = parsed(data)?;
                let item = begun.item;
                if item.kind == "function_call" {
                    self.begin_call(begun.output_index, item.call_id, item.name, out);
                }
            }
            "response.output_item.done" => {
                let ended: ItemEvent<Value> = parsed(data)?;
                self.end_item(ended.output_index, ended.item, out);
            }
            "response.completed" | "response.incomplete" => {
                let ended: ResponseEvent = parsed(data)?;
                self.finish(ended.response, kind == "response.completed", out);
            }
            "response.failed" => {
                let Response { usage, error, .. } = parsed::<ResponseEvent>(data)?.response;
                out.extend(usage.map(|usage| ModelEvent::Usage(usage.into())));
                return Err(failed(&error.unwrap_or_default()));
            }
            "error" => {
                // It is flat in the types of the SDK; it comes nested, too.
                let mut event: Map<String, Value> = parsed(data)?;
                let nested = event.remove("error").filter(|error| !error.is_null());
                event.remove("type");
                return Err(failed(&nested.unwrap_or_else(|| event.into())));
            }
            _ => {}
        }
        Ok(())
    }
}

impl ReplyReader for ResponsesReply {
    fn read(
        &mut self,
        event: SseEvent<'_>,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ReadError> {
        if self.finished || event.data.trim() == "[DONE]" {
            return Ok(());
        }
        // The name of an event is the type in its data; some proxies leave it out.
        if !event.name.is_empty() && event.name != "message" {
            return self.event(event.name, event.data, out);
        }
        let head: Head = parsed(event.data)?;
        match head.error {
            Some(error) if head.kind.is_empty() => Err(failed(&error)),
            _ => self.event(&head.kind, event.data, out),
        }
    }
}

fn thinking_end(provider_metadata: Option<Value>) -> ModelEvent {
    ModelEvent::ThinkingEnd {
        signature: None,
        redacted: None,
        provider_metadata,
    }
}

fn failed(error: &Value) -> ReadError {
    ReadError::Provider(ProviderFailure::of_error(error))
}

fn parsed<T: DeserializeOwned>(data: &str) -> Result<T, ReadError> {
    serde_json::from_str(data).map_err(|error| ReadError::malformed(&error))
}

#[cfg(test)]
mod tests;
