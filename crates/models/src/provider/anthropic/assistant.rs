//! Replies as they are given back: parts in their order, and what belongs to a model to that model only.

use std::borrow::Cow;

use helix_agents_core::message::{AssistantMessage, AssistantPart, Message, Thinking, ToolCall};
use helix_agents_core::model::ModelError;
use serde::Serialize;
use serde_json::Value;

use super::messages::{AnthropicMessages, NOTHING};
use crate::provider::Provider;
use crate::provider::body::write;
use crate::provider::call_ids::wire_call_id;
use crate::provider::wire::unknown_message;

/// The maximum length of the name of a tool.
const MAX_NAME: usize = 128;

/// A block of an assistant message.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<&'a Value>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
}

impl AnthropicMessages {
    /// Returns a field of metadata that this model gave.
    fn own<'a>(&self, metadata: &'a Option<Value>, field: &str) -> Option<&'a Value> {
        let ours = metadata.as_ref()?.get(Provider::Anthropic.name())?;
        let is_same = ours.get("model").and_then(Value::as_str) == Some(self.model());
        ours.get(field).filter(|_| is_same)
    }

    /// Returns thinking as the model may be given it back: signed by itself.
    fn thinking<'a>(&self, thinking: &'a Thinking) -> Option<Block<'a>> {
        self.own(&thinking.provider_metadata, "model")?;
        if let Some(data) = &thinking.redacted {
            return Some(Block::RedactedThinking { data });
        }
        Some(Block::Thinking {
            thinking: &thinking.text,
            signature: thinking.signature.as_deref()?,
        })
    }

    /// Whether a part of a reply is sent at all.
    fn is_sent(&self, part: &AssistantPart) -> bool {
        match part {
            AssistantPart::Thinking(thinking) => self.thinking(thinking).is_some(),
            AssistantPart::Text {
                text,
                provider_metadata,
            } => !text.trim().is_empty() || self.own(provider_metadata, "block").is_some(),
            _ => true,
        }
    }

    /// Whether a reply begins with thinking that the model may be given back.
    pub(super) fn begins_with_thinking(&self, reply: &AssistantMessage) -> bool {
        let first = reply.parts.iter().find(|part| self.is_sent(part));
        matches!(first, Some(AssistantPart::Thinking(_)))
    }

    /// Whether the provider paused in a reply and goes on with it when it gets it back.
    pub(super) fn is_paused(&self, reply: &AssistantMessage) -> bool {
        let last = reply.parts.last();
        matches!(last, Some(AssistantPart::Text { provider_metadata, .. })
            if self.own(provider_metadata, "paused").is_some())
    }

    /// Splits a reply in which the provider paused before the calls that it is about to make itself. Only
    /// the provider can answer them, so they are sent only when it goes on.
    fn split<'a>(&self, reply: &'a AssistantMessage) -> (&'a [AssistantPart], &'a [AssistantPart]) {
        let is_open = |part: &AssistantPart| match part {
            AssistantPart::Text {
                provider_metadata, ..
            } => match self.own(provider_metadata, "block") {
                Some(block) => block.get("type").and_then(Value::as_str) == Some("server_tool_use"),
                None => !self.is_sent(part),
            },
            _ => false,
        };
        let parts = reply.parts.as_slice();
        let done = match parts.iter().rposition(|part| !is_open(part)) {
            Some(last) => last + 1,
            None => 0,
        };
        let done = if self.is_paused(reply) {
            done
        } else {
            parts.len()
        };
        parts.split_at_checked(done).unwrap_or((parts, &[]))
    }

    /// Writes a reply up to what its end depends on: the message behind it.
    pub(super) fn assistant(
        &self,
        reply: &AssistantMessage,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        out.extend(br#"{"role":"assistant","content":["#);
        let (done, _) = self.split(reply);
        for (at, part) in done.iter().filter(|part| self.is_sent(part)).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            self.part(part, reply, out)?;
        }
        Ok(())
    }

    /// Closes a reply that is followed by another message, or by nothing.
    pub(super) fn end_reply(
        &self,
        reply: &AssistantMessage,
        next: Option<&Message>,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        let (done, open) = self.split(reply);
        let mut sent = done.iter().filter(|part| self.is_sent(part));
        let last = sent.next_back();
        let mut is_empty = last.is_none();
        let mut needs_text = matches!(last, None | Some(AssistantPart::Thinking(_)));
        if !matches!(next, Some(Message::User(_))) {
            for part in open.iter().filter(|part| self.is_sent(part)) {
                if !is_empty {
                    out.push(b',');
                }
                self.part(part, reply, out)?;
                (is_empty, needs_text) = (false, false);
            }
        }
        if needs_text {
            if !is_empty {
                out.push(b',');
            }
            let (text, citations) = (NOTHING, None);
            write(out, &Block::Text { text, citations })?;
        }
        out.extend(b"]}");
        Ok(())
    }

    /// Writes a part that is sent.
    fn part(
        &self,
        part: &AssistantPart,
        reply: &AssistantMessage,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        match part {
            AssistantPart::Text {
                text,
                provider_metadata,
            } => {
                if let Some(block) = self.own(provider_metadata, "block") {
                    return write(out, block);
                }
                let citations = self.own(provider_metadata, "citations");
                let citations = citations.filter(|all| self.has_sources(reply, all));
                write(out, &Block::Text { text, citations })
            }
            AssistantPart::Thinking(thinking) => write(out, &self.thinking(thinking)),
            AssistantPart::ToolCall(call) => self.call(call, out),
            _ => Err(unknown_message()),
        }
    }

    /// Whether the results that citations of a web search point to are in the reply. An interrupted reply
    /// has lost them.
    fn has_sources(&self, reply: &AssistantMessage, citations: &Value) -> bool {
        let is_of_search = |citation: &Value| {
            let kind = citation.get("type").and_then(Value::as_str);
            kind == Some("web_search_result_location")
        };
        let is_block = |part: &AssistantPart| {
            matches!(part, AssistantPart::Text { provider_metadata, .. }
                if self.own(provider_metadata, "block").is_some())
        };
        let citations = citations.as_array().map(Vec::as_slice).unwrap_or_default();
        !citations.iter().any(is_of_search) || reply.parts.iter().any(is_block)
    }

    fn call(&self, call: &ToolCall, out: &mut Vec<u8>) -> Result<(), ModelError> {
        out.extend(br#"{"type":"tool_use","id":"#);
        write(out, &wire_call_id(&call.id))?;
        out.extend(br#","name":"#);
        write(out, &tool_name(&call.name))?;
        out.extend(br#","input":"#);
        let arguments = call.arguments.text();
        if arguments.starts_with('{') {
            out.extend(arguments.as_bytes());
        } else {
            // The provider takes objects only, and recommends this one for arguments that it wrote wrong.
            let text = call.arguments.as_str().unwrap_or(arguments);
            out.extend(br#"{"INVALID_JSON":"#);
            write(out, text)?;
            out.push(b'}');
        }
        let fields = self.own(&call.provider_metadata, "fields");
        for (field, value) in fields.and_then(Value::as_object).into_iter().flatten() {
            out.push(b',');
            write(out, field)?;
            out.push(b':');
            write(out, value)?;
        }
        out.push(b'}');
        Ok(())
    }
}

/// Returns the name of a tool as the provider takes it. A model may have called a tool that does not exist by
/// a name that is not possible.
fn tool_name(name: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let plain = |letter: char| if is_plain(letter) { letter } else { '_' };
    let name: String = name.chars().take(MAX_NAME).map(plain).collect();
    Cow::Owned(if name.is_empty() {
        "_".to_owned()
    } else {
        name
    })
}
