//! Messages as Anthropic takes them.
//!
//! Roles alternate: the results of a step and the user messages behind them are one message, whose first
//! blocks are the results. It is opened by the first of them and closed by the reply that follows.

use std::borrow::Cow;

use helix_agents_core::message::{
    AssistantMessage, AssistantPart, Message, Thinking, ToolCall, ToolMessage,
};
use helix_agents_core::model::{MessageFormat, ModelError, ModelErrorKind};
use serde::Serialize;
use serde_json::Value;

use super::content::write_user;
use crate::provider::Provider;
use crate::provider::body::write;
use crate::provider::call_ids::wire_call_id;

/// The user message between two replies in a row, before a first one, and behind a last one: models do not
/// continue a reply of their own.
const CONTINUE: &[u8] = br#"{"role":"user","content":[{"type":"text","text":"Continue."}]}"#;
/// The text of a message that would have none. The provider refuses an empty one, and one that ends with
/// thinking.
pub(super) const NOTHING: &str = "(no text)";
/// The maximum length of the name of a tool.
const MAX_NAME: usize = 128;

/// The format of messages for one model. Thinking of another model is left out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AnthropicMessages {
    model: String,
}

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
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
        }
    }

    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// Returns a field of metadata that this model gave.
    fn own<'a>(&self, metadata: &'a Option<Value>, field: &str) -> Option<&'a Value> {
        let ours = metadata.as_ref()?.get(Provider::Anthropic.name())?;
        let is_same = ours.get("model").and_then(Value::as_str) == Some(&self.model);
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

    /// Whether a reply begins with thinking that the model may be given back.
    pub(super) fn begins_with_thinking(&self, reply: &AssistantMessage) -> bool {
        let is_sent = |part: &&AssistantPart| match part {
            AssistantPart::Thinking(thinking) => self.thinking(thinking).is_some(),
            AssistantPart::Text {
                text,
                provider_metadata,
            } => !text.trim().is_empty() || self.own(provider_metadata, "block").is_some(),
            _ => true,
        };
        let first = reply.parts.iter().find(is_sent);
        matches!(first, Some(AssistantPart::Thinking(_)))
    }

    /// Whether the provider paused in a reply and goes on with it when it gets it back.
    pub(super) fn is_paused(&self, reply: &AssistantMessage) -> bool {
        let last = reply.parts.last();
        matches!(last, Some(AssistantPart::Text { provider_metadata, .. })
            if self.own(provider_metadata, "paused").is_some())
    }

    fn assistant(&self, reply: &AssistantMessage, out: &mut Vec<u8>) -> Result<(), ModelError> {
        out.extend(br#"{"role":"assistant","content":["#);
        let begin = out.len();
        let next = |out: &mut Vec<u8>| {
            if out.len() > begin {
                out.push(b',');
            }
        };
        let mut ends_with_thinking = true;
        for part in reply.parts.iter() {
            match part {
                AssistantPart::Text {
                    text,
                    provider_metadata,
                } => {
                    if let Some(block) = self.own(provider_metadata, "block") {
                        next(out);
                        write(out, block)?;
                    } else if text.trim().is_empty() {
                        continue;
                    } else {
                        let citations = self.own(provider_metadata, "citations");
                        let citations = citations.filter(|all| self.has_sources(reply, all));
                        next(out);
                        write(out, &Block::Text { text, citations })?;
                    }
                    ends_with_thinking = false;
                }
                AssistantPart::Thinking(thinking) => {
                    let Some(block) = self.thinking(thinking) else {
                        continue;
                    };
                    next(out);
                    write(out, &block)?;
                    ends_with_thinking = true;
                }
                AssistantPart::ToolCall(call) => {
                    next(out);
                    self.call(call, out)?;
                    ends_with_thinking = false;
                }
                _ => return Err(unknown()),
            }
        }
        if ends_with_thinking {
            next(out);
            let (text, citations) = (NOTHING, None);
            write(out, &Block::Text { text, citations })?;
        }
        out.extend(b"]}");
        Ok(())
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

    /// Closes the conversation, so that the model has the next word.
    pub(super) fn close(&self, last: Option<&Message>, out: &mut Vec<u8>) {
        match last {
            None => out.extend(CONTINUE),
            Some(Message::Assistant(reply)) if self.is_paused(reply) => {}
            Some(Message::Assistant(_)) => {
                out.push(b',');
                out.extend(CONTINUE);
            }
            Some(_) => out.extend(b"]}"),
        }
    }
}

impl MessageFormat for AnthropicMessages {
    fn render(
        &self,
        message: &Message,
        previous: Option<&Message>,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        if let Message::Assistant(reply) = message {
            match previous {
                Some(Message::Assistant(before)) if self.is_paused(before) => out.push(b','),
                Some(Message::Assistant(_)) => {
                    out.push(b',');
                    out.extend(CONTINUE);
                    out.push(b',');
                }
                Some(_) => out.extend(b"]},"),
                None => {
                    out.extend(CONTINUE);
                    out.push(b',');
                }
            }
            return self.assistant(reply, out);
        }
        match previous {
            Some(Message::Assistant(_)) => out.extend(br#",{"role":"user","content":["#),
            Some(_) => out.push(b','),
            None => out.extend(br#"{"role":"user","content":["#),
        }
        match message {
            Message::User(user) => write_user(user, out),
            Message::Tool(result) => write_result(result, out),
            _ => Err(unknown()),
        }
    }
}

fn unknown() -> ModelError {
    let detail = "the conversation has a kind of message that this client does not know";
    ModelError::new(ModelErrorKind::Invalid, detail)
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "tool_result")]
struct ToolResult<'a> {
    tool_use_id: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

fn write_result(result: &ToolMessage, out: &mut Vec<u8>) -> Result<(), ModelError> {
    let is_error = !result.status.is_success();
    let content = Some(result.content.as_str()).filter(|text| !text.trim().is_empty());
    let result = ToolResult {
        tool_use_id: wire_call_id(&result.tool_call_id),
        // An error must have a text.
        content: content.or(is_error.then_some(NOTHING)),
        is_error,
    };
    write(out, &result)
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
