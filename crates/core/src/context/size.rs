//! The size of a prompt.

use crate::budget::text_tokens;
use crate::message::{AssistantPart, Message};

/// The size that a file counts, in bytes of text: providers count about 1,500 tokens for an image.
const FILE_BYTES: usize = 6000;
/// The size of the roles and separators that a provider adds to each message, in bytes of text.
const MESSAGE_BYTES: usize = 16;

/// The size of a prompt in tokens, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PromptSize {
    /// The tokens that the provider counted when it read the first part of the prompt.
    pub(crate) counted: u64,
    /// The estimated tokens of the rest.
    pub(crate) estimated: u64,
}

impl PromptSize {
    /// Returns the likely size.
    pub(crate) fn likely(self) -> u64 {
        self.counted.saturating_add(self.estimated)
    }

    /// Returns a size that the prompt certainly has: no text has twice as many bytes a token as estimated.
    pub(crate) fn at_least(self) -> u64 {
        self.counted.saturating_add(self.estimated / 2)
    }

    /// Adds a text of this many bytes.
    pub(crate) fn and_bytes(self, bytes: usize) -> Self {
        Self {
            estimated: self.estimated.saturating_add(text_tokens(bytes)),
            ..self
        }
    }
}

/// Returns the size of a message in bytes, for an estimate. Nothing is serialized. Thinking is left out: providers
/// take little of it back, and what they take is counted with the next reply.
pub(crate) fn message_bytes(message: &Message) -> usize {
    let content = match message {
        Message::User(user) => user.content.len() + user.files.len() * FILE_BYTES,
        Message::Assistant(assistant) => assistant.parts.iter().map(part_bytes).sum(),
        Message::Tool(result) => result.tool_name.len() + result.content.len(),
    };
    content + MESSAGE_BYTES
}

fn part_bytes(part: &AssistantPart) -> usize {
    match part {
        AssistantPart::Text { text, .. } => text.len(),
        AssistantPart::Thinking(_) => 0,
        AssistantPart::ToolCall(call) => call.name.len() + call.arguments.size(),
    }
}
