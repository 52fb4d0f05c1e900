//! The message that stands for earlier ones in a prompt.

use serde::{Deserialize, Serialize};

use crate::message::{Message, UserMessage};

/// The metadata key of such a message.
const KEY: &str = "helixContext";

/// The part of a history that a hidden message stands for: the model reads this message instead of all
/// messages before a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StandIn {
    /// The position of the first message that the model still reads.
    pub from: usize,
    /// Whether the message is a summary of those before it.
    pub summary: bool,
}

impl StandIn {
    /// Creates the message.
    pub(crate) fn message(from: usize, summary: Option<&str>) -> UserMessage {
        let stands = serde_json::json!({ "from": from, "summary": summary.is_some() });
        let text = match summary {
            Some(summary) => format!(
                "The earlier part of this conversation is left out. This is its summary:\n\n{summary}"
            ),
            None => "The earlier part of this conversation is left out.".to_owned(),
        };
        UserMessage::hidden(text).with_metadata(KEY, stands)
    }

    /// Returns the part that a message stands for, if it does.
    #[must_use]
    pub fn of(message: &Message) -> Option<Self> {
        match message {
            Message::User(user) if user.is_hidden() => Self::of_user(user),
            _ => None,
        }
    }

    fn of_user(user: &UserMessage) -> Option<Self> {
        Self::deserialize(user.metadata.get(KEY)?).ok()
    }

    /// Removes the mark from a message that somebody else wrote: it stands for itself alone.
    pub(crate) fn remove(user: &mut UserMessage) {
        if user.metadata.contains_key(KEY) {
            user.metadata.remove(KEY);
        }
    }
}
