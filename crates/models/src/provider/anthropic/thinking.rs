//! Whether a request may ask for thinking.
//!
//! Where a budget for thinking is set (`{"type": "enabled"}`), the provider refuses a request that forces a
//! tool, and one that goes on with a turn that did not begin with thinking. A turn begins without where a
//! reply was interrupted, or came from another model. Thinking is left out of such a request, and asked for
//! again in the next turn. The newer mode, in which the model decides, has neither rule.

use helix_agents_core::Transcript;
use helix_agents_core::message::Message;
use helix_agents_core::model::ToolChoice;
use serde_json::Value;

use super::messages::AnthropicMessages;
use crate::provider::body::Options;

/// Returns the budget for thinking that the options set, if they do.
pub(super) fn budget(options: &Options) -> Option<u64> {
    let thinking = options.get("thinking")?;
    let is_manual = thinking.get("type").and_then(Value::as_str) == Some("enabled");
    let budget = thinking.get("budget_tokens").and_then(Value::as_u64);
    is_manual.then(|| budget.unwrap_or_default())
}

/// Whether the provider accepts a budget for thinking in a request.
pub(super) fn is_allowed(
    history: &Transcript,
    messages: &AnthropicMessages,
    choice: &ToolChoice,
) -> bool {
    !matches!(choice, ToolChoice::Required | ToolChoice::Tool(_))
        && turn_began_with_thinking(history, messages)
}

/// Whether the turn that the results at the end of a conversation belong to began with thinking. True if
/// there are none: a new turn may think.
fn turn_began_with_thinking(history: &Transcript, messages: &AnthropicMessages) -> bool {
    let is_user = |message: &&Message| matches!(message, Message::User(_));
    let mut backwards = history.iter().rev().skip_while(is_user).peekable();
    if !matches!(backwards.peek(), Some(Message::Tool(_))) {
        return true;
    }
    while let Some(message) = backwards.next() {
        let Message::Assistant(reply) = message else {
            continue;
        };
        match backwards.peek() {
            Some(Message::Tool(_)) => continue,
            Some(Message::Assistant(before)) if messages.is_paused(before) => continue,
            _ => {}
        }
        if !messages.begins_with_thinking(reply) {
            return false;
        }
        // A user message right behind results is sent in one message with them, so the turn may have begun
        // before it.
        while backwards.next_if(is_user).is_some() {}
        if !matches!(backwards.peek(), Some(Message::Tool(_))) {
            return true;
        }
    }
    true
}
