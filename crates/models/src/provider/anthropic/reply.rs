//! Streamed replies of Anthropic.

use std::collections::VecDeque;

use helix_agents_core::model::ModelEvent;
use helix_agents_core::step::StopReason;
use serde_json::{Map, Value, json};

use super::events::{Delta, Event, Usage};
use crate::provider::Provider;
use crate::provider::failure::ProviderFailure;
use crate::provider::sse::SseEvent;
use crate::provider::wire::{ReadError, ReplyReader};

/// A reply as far as it is here.
#[derive(Debug)]
pub(super) struct AnthropicReply {
    model: String,
    /// The blocks that have begun and not ended, by their index.
    open: Vec<(u64, Block)>,
    calls: usize,
    usage: Usage,
    stop_reason: Option<String>,
    finished: bool,
}

/// A block of content that has begun.
#[derive(Debug)]
enum Block {
    Text {
        citations: Vec<Value>,
    },
    Thinking {
        has_text: bool,
        signature: String,
    },
    Redacted(String),
    Call {
        call: usize,
        /// The arguments that came with the beginning, in case that no others come.
        input: Option<Value>,
        /// The other fields, which the provider expects back.
        fields: Map<String, Value>,
    },
    /// A call that the provider makes itself, its result, or a kind of block that is newer than this client.
    /// It is given back as it is.
    Other {
        block: Map<String, Value>,
        input: String,
    },
}

impl AnthropicReply {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            open: Vec::new(),
            calls: 0,
            usage: Usage::default(),
            stop_reason: None,
            finished: false,
        }
    }

    /// Returns metadata that only this model is given back.
    fn own(&self, field: Option<(&str, Value)>) -> Value {
        let mut ours = Map::new();
        ours.insert("model".to_owned(), self.model.as_str().into());
        ours.extend(field.map(|(name, value)| (name.to_owned(), value)));
        json!({ (Provider::Anthropic.name()): ours })
    }

    fn begin(&mut self, index: u64, mut block: Map<String, Value>, out: &mut VecDeque<ModelEvent>) {
        let mut text = |field: &str| match block.remove(field) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let kind = text("type");
        let begun = match kind.as_str() {
            "text" => {
                push_text(text("text"), out);
                let citations = match block.remove("citations") {
                    Some(Value::Array(citations)) => citations,
                    _ => Vec::new(),
                };
                Block::Text { citations }
            }
            "thinking" => {
                let (thinking, signature) = (text("thinking"), text("signature"));
                let has_text = !thinking.is_empty();
                if has_text {
                    out.push_back(ModelEvent::Thinking(thinking));
                }
                Block::Thinking {
                    has_text,
                    signature,
                }
            }
            "redacted_thinking" => Block::Redacted(text("data")),
            "tool_use" => {
                let (id, name) = (text("id"), text("name"));
                let id = Some(id).filter(|id| !id.is_empty());
                out.push_back(ModelEvent::CallStart { id, name });
                let call = self.calls;
                self.calls += 1;
                let input = block.remove("input");
                // This is what a call without this field means.
                let is_plain = |name: &String, value: &Value| {
                    value.is_null() || (name == "caller" && *value == json!({ "type": "direct" }))
                };
                block.retain(|name, value| !is_plain(name, value));
                Block::Call {
                    call,
                    input,
                    fields: block,
                }
            }
            _ => {
                block.insert("type".to_owned(), kind.into());
                Block::Other {
                    block,
                    input: String::new(),
                }
            }
        };
        self.open.push((index, begun));
    }

    fn delta(&mut self, index: u64, delta: Delta<'_>, out: &mut VecDeque<ModelEvent>) {
        let open = self.open.iter_mut().rev().find(|(at, _)| *at == index);
        let Some((_, block)) = open else {
            return;
        };
        match (delta.kind.as_ref(), block) {
            ("text_delta", Block::Text { .. }) => push_text(delta.text.unwrap_or_default(), out),
            ("citations_delta", Block::Text { citations }) => citations.extend(delta.citation),
            ("thinking_delta", Block::Thinking { has_text, .. }) => {
                if let Some(text) = delta.thinking.filter(|text| !text.is_empty()) {
                    *has_text = true;
                    out.push_back(ModelEvent::Thinking(text));
                }
            }
            ("signature_delta", Block::Thinking { signature, .. }) => {
                *signature = delta.signature.unwrap_or_default();
            }
            ("input_json_delta", Block::Call { call, input, .. }) => {
                if let Some(delta) = delta.partial_json.filter(|text| !text.is_empty()) {
                    *input = None;
                    let call = *call;
                    out.push_back(ModelEvent::CallArguments { call, delta });
                }
            }
            ("input_json_delta", Block::Other { input, .. }) => {
                input.push_str(delta.partial_json.as_deref().unwrap_or_default());
            }
            _ => {}
        }
    }

    fn end_block(&mut self, index: u64, out: &mut VecDeque<ModelEvent>) {
        if let Some(at) = self.open.iter().rposition(|(open, _)| *open == index) {
            let (_, block) = self.open.remove(at);
            self.close(block, out);
        }
    }

    fn close(&self, block: Block, out: &mut VecDeque<ModelEvent>) {
        let event = match block {
            Block::Text { citations } => ModelEvent::TextEnd {
                provider_metadata: (!citations.is_empty())
                    .then(|| self.own(Some(("citations", citations.into())))),
            },
            Block::Thinking {
                has_text,
                signature,
            } => {
                if !has_text && signature.is_empty() {
                    return;
                }
                ModelEvent::ThinkingEnd {
                    signature: Some(signature).filter(|text| !text.is_empty()),
                    redacted: None,
                    provider_metadata: Some(self.own(None)),
                }
            }
            Block::Redacted(data) => ModelEvent::ThinkingEnd {
                signature: None,
                redacted: Some(data),
                provider_metadata: Some(self.own(None)),
            },
            Block::Call {
                call,
                input,
                fields,
            } => {
                if let Some(Value::Object(input)) = input.filter(|input| *input != json!({})) {
                    let delta = Value::Object(input).to_string();
                    out.push_back(ModelEvent::CallArguments { call, delta });
                }
                let provider_metadata =
                    (!fields.is_empty()).then(|| self.own(Some(("fields", fields.into()))));
                ModelEvent::CallEnd {
                    call,
                    provider_metadata,
                }
            }
            Block::Other { mut block, input } => {
                if let Ok(input) = serde_json::from_str::<Value>(&input) {
                    block.insert("input".to_owned(), input);
                }
                ModelEvent::TextEnd {
                    provider_metadata: Some(self.own(Some(("block", block.into())))),
                }
            }
        };
        out.push_back(event);
    }

    fn finish(&mut self, out: &mut VecDeque<ModelEvent>) {
        self.finished = true;
        for (_, block) in std::mem::take(&mut self.open) {
            self.close(block, out);
        }
        let reason = self.stop_reason.as_deref().unwrap_or_default();
        if reason == "pause_turn" {
            out.push_back(ModelEvent::TextEnd {
                provider_metadata: Some(self.own(Some(("paused", true.into())))),
            });
        }
        out.push_back(ModelEvent::Finished {
            stop_reason: stop_reason(reason),
            usage: self.usage.tokens(),
        });
    }

    fn count(&mut self, usage: Option<Usage>, out: &mut VecDeque<ModelEvent>) {
        if let Some(usage) = usage {
            self.usage.update(&usage);
            out.push_back(ModelEvent::Usage(self.usage.tokens()));
        }
    }
}

impl ReplyReader for AnthropicReply {
    fn read(
        &mut self,
        event: SseEvent<'_>,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ReadError> {
        if self.finished || event.name == "ping" {
            return Ok(());
        }
        let name = event.name;
        let event: Event<'_> =
            serde_json::from_str(event.data).map_err(|error| ReadError::malformed(&error))?;
        let kind = if event.kind.is_empty() {
            name
        } else {
            &event.kind
        };
        match kind {
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    self.delta(event.index, delta, out);
                }
            }
            "content_block_start" => {
                self.begin(event.index, event.content_block.unwrap_or_default(), out);
            }
            "content_block_stop" => self.end_block(event.index, out),
            "message_start" => self.count(event.message.and_then(|start| start.usage), out),
            "message_delta" => {
                let reason = event.delta.and_then(|delta| delta.stop_reason);
                self.stop_reason = reason.or(self.stop_reason.take());
                self.count(event.usage, out);
            }
            "message_stop" => self.finish(out),
            "error" => {
                let error = event.error.unwrap_or_default();
                return Err(ReadError::Provider(ProviderFailure::of_error(&error)));
            }
            _ => {}
        }
        Ok(())
    }
}

fn push_text(text: String, out: &mut VecDeque<ModelEvent>) {
    if !text.is_empty() {
        out.push_back(ModelEvent::Text(text));
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" => StopReason::EndTurn,
        "stop_sequence" => StopReason::StopSequence,
        // A turn that the provider paused goes on with the next request, as one with results does.
        "tool_use" | "pause_turn" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        _ => StopReason::Unknown,
    }
}
