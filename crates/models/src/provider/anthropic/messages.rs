//! Messages as Anthropic takes them.
//!
//! Roles alternate: the results of a step and the user messages behind them are one message, whose first
//! blocks are the results. It is opened by the first of them and closed by the reply that follows.

use std::borrow::Cow;

use helix_agents_core::message::{Message, ToolMessage};
use helix_agents_core::model::{MessageFormat, ModelError};
use serde::Serialize;

use super::content::write_user;
use crate::provider::body::write;
use crate::provider::call_ids::wire_call_id;
use crate::provider::wire::unknown_message;

/// The user message between two replies in a row, before a first one, and behind a last one: models do not
/// continue a reply of their own.
const CONTINUE: &[u8] = br#"{"role":"user","content":[{"type":"text","text":"Continue."}]}"#;
/// The text of a message that would have none. The provider refuses an empty one, and one that ends with
/// thinking.
pub(super) const NOTHING: &str = "(no text)";

/// The format of messages for one model. Thinking of another model is left out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AnthropicMessages {
    model: String,
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

    /// Writes what stands between two messages: it closes the last one of the provider, if the next one is
    /// not a part of it, and opens the next.
    fn between(
        &self,
        previous: Option<&Message>,
        next: Option<&Message>,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        let is_reply = matches!(next, Some(Message::Assistant(_)));
        let mut separator: &[u8] = b"";
        let mut users_turn = true;
        match previous {
            Some(Message::Assistant(reply)) => {
                self.end_reply(reply, next, out)?;
                separator = b",";
                users_turn = !self.is_paused(reply);
            }
            Some(_) if next.is_some() && !is_reply => {
                out.push(b',');
                return Ok(());
            }
            Some(_) => {
                out.extend(b"]}");
                separator = b",";
                users_turn = false;
            }
            None => {}
        }
        if users_turn && (is_reply || next.is_none()) {
            out.extend(separator);
            out.extend(CONTINUE);
            separator = b",";
        }
        if next.is_some() {
            out.extend(separator);
        }
        if next.is_some() && !is_reply {
            out.extend(br#"{"role":"user","content":["#);
        }
        Ok(())
    }

    /// Closes the conversation, so that the model has the next word.
    pub(super) fn close(
        &self,
        last: Option<&Message>,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        self.between(last, None, out)
    }
}

impl MessageFormat for AnthropicMessages {
    fn render(
        &self,
        message: &Message,
        previous: Option<&Message>,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        self.between(previous, Some(message), out)?;
        match message {
            Message::User(user) => write_user(user, out),
            Message::Assistant(reply) => self.assistant(reply, out),
            Message::Tool(result) => write_result(result, out),
            _ => Err(unknown_message()),
        }
    }
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
