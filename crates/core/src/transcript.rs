//! The transcript: a conversation history that is always valid.
//!
//! A provider refuses a conversation in which a call has no result. So the only ways to extend a
//! history are [`Transcript::push_user`] and [`Transcript::push_step`], and a step is a
//! [`PairedStep`]: an assistant message with exactly one result for each of its calls, in the
//! model's order. [`Transcript::load`] heals histories that other programs stored.
//!
//! The messages are in an append-only log that clones share: a clone costs the same at ten and at
//! ten thousand messages, and a prompt is built without copying a message. The counters that the
//! loop needs are maintained, never recounted.

mod call_ids;
mod heal;
mod log;
mod paired;
mod rendered;
mod shown;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::context::message_bytes;
use crate::id::CallId;
use crate::message::{Message, UserMessage};

// Used by the loop to make the call ids of a reply unique.
#[doc(hidden)]
pub use call_ids::CallIds;
pub use heal::Healed;
pub use paired::{PairedStep, PairingError};

use log::Log;
use shown::Shown;

/// A valid conversation. Clones share their messages.
///
/// ```
/// use helix_agents::{Transcript, UserMessage};
///
/// let mut history = Transcript::new();
/// history.push_user(UserMessage::new("Hi"));
/// assert_eq!(history.len(), 1);
/// ```
#[derive(Clone)]
pub struct Transcript {
    log: Arc<Log>,
    counters: Counters,
    /// Ids of calls that no message of this transcript carries any more.
    retired: Arc<HashSet<CallId>>,
    /// The conversation as the model reads it, where its beginning is left out.
    shown: Option<Box<Shown>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    messages: usize,
    visible_users: usize,
    last_visible_user: Option<usize>,
    assistants_since_user: usize,
    /// The size of the messages, for an estimate.
    bytes: usize,
    /// The size of the conversation after a reply, as its provider counted it.
    counted: Option<Counted>,
}

/// The tokens that a provider counted up to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counted {
    tokens: u64,
    /// The size of the messages that it counted.
    bytes: usize,
}

impl Counters {
    fn count(&mut self, message: &Message) {
        self.bytes += message_bytes(message);
        match message {
            Message::User(user) if !user.is_hidden() => {
                self.visible_users += 1;
                self.last_visible_user = Some(self.messages);
                self.assistants_since_user = 0;
            }
            Message::Assistant(reply) => {
                self.assistants_since_user += 1;
                if let Some(tokens) = reply.context_tokens() {
                    let bytes = self.bytes;
                    self.counted = Some(Counted { tokens, bytes });
                }
            }
            Message::User(_) | Message::Tool(_) => {}
        }
        self.messages += 1;
    }
}

/// The error of a call id that this session has used before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "tool call id {call} is already used in this session; make ids unique with `Transcript::call_ids` before showing them"
)]
pub struct CallIdReused {
    /// The id that was used before.
    pub call: CallId,
}

impl Transcript {
    /// Creates an empty conversation.
    #[must_use]
    pub fn new() -> Self {
        Self {
            log: Arc::new(Log::default()),
            counters: Counters::default(),
            retired: Arc::default(),
            shown: None,
        }
    }

    /// Loads a stored history and heals what is not valid in it.
    ///
    /// Missing results are added (an unpaired `__finish__` gets its acknowledgement, any other call
    /// is marked as unknown), results without a call are dropped, misplaced or unordered results
    /// are moved, repeated call ids are made unique. The messages of users and of the model all
    /// stay, in their order. The repairs are returned and logged.
    #[must_use]
    pub fn load(messages: impl IntoIterator<Item = Message>) -> (Self, Vec<Healed>) {
        let (messages, healed) = heal::heal(messages.into_iter().collect());
        let mut transcript = Self::new();
        for message in messages {
            transcript.append(Arc::new(message));
        }
        for what in &healed {
            tracing::warn!(event = "transcript.healed", %what, "a stored history was not valid");
        }
        (transcript, healed)
    }

    /// Marks ids as used that no message of this transcript carries any more.
    ///
    /// After a rewind the session still remembers the calls of the rewound turns.
    #[doc(hidden)]
    pub fn retire_call_ids(&mut self, ids: impl IntoIterator<Item = CallId>) {
        Arc::make_mut(&mut self.retired).extend(ids);
    }

    /// Appends a user message.
    pub fn push_user(&mut self, message: UserMessage) {
        self.append(Arc::new(Message::User(message)));
    }

    /// Appends one step: the model's message and the result of each of its calls.
    ///
    /// # Errors
    /// [`CallIdReused`] if a call's id was used before in this session; nothing is appended then.
    pub fn push_step(&mut self, step: PairedStep) -> Result<(), CallIdReused> {
        for call in step.assistant().tool_calls() {
            if self.is_call_id_used(&call.id) {
                let call = call.id.clone();
                return Err(CallIdReused { call });
            }
        }
        let (assistant, results) = step.into_parts();
        self.append(Arc::new(Message::Assistant(assistant)));
        for result in results {
            self.append(Arc::new(Message::Tool(result)));
        }
        Ok(())
    }

    fn append(&mut self, message: Arc<Message>) {
        self.show(&message);
        self.append_unseen(message);
    }

    /// Appends a message without regard to the part that the model reads.
    fn append_unseen(&mut self, message: Arc<Message>) {
        self.counters.count(&message);
        let at = self.counters.messages - 1;
        if let Err(message) = self.log.push(at, message) {
            // Another clone has appended to the shared log: this one continues on its own copy.
            self.log = Arc::new(self.log.fork(at, message));
        }
    }

    /// Truncates the conversation to at most `count` messages, rounded down so that no step is
    /// split. The ids of removed calls stay used.
    #[doc(hidden)]
    pub fn truncate(&mut self, count: usize) {
        let mut keep = count.min(self.len());
        while matches!(self.get(keep), Some(Message::Tool(_))) {
            keep -= 1;
        }
        let cut: Vec<CallId> = self
            .iter_from(keep)
            .filter_map(|message| match message {
                Message::Assistant(assistant) => Some(assistant.tool_calls()),
                _ => None,
            })
            .flatten()
            .map(|call| call.id.clone())
            .collect();
        self.retire_call_ids(cut);
        let mut counters = Counters::default();
        for message in self.log.iter(keep) {
            counters.count(message);
        }
        self.counters = counters;
        self.show_again();
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counters.messages
    }

    /// Whether there are no messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the message at a position.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Message> {
        if index >= self.len() {
            return None;
        }
        self.log.get(index).map(Arc::as_ref)
    }

    /// Returns the last message.
    #[must_use]
    pub fn last(&self) -> Option<&Message> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Iterates over all messages, oldest first.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> + ExactSizeIterator {
        self.log.iter(self.len())
    }

    /// Iterates over the messages from a position on.
    #[must_use]
    pub fn iter_from(
        &self,
        index: usize,
    ) -> impl DoubleEndedIterator<Item = &Message> + ExactSizeIterator {
        self.log.iter_range(index.min(self.len()), self.len())
    }

    /// Returns the number of visible user messages, which is the number of the current turn.
    #[must_use]
    pub fn visible_user_messages(&self) -> usize {
        self.counters.visible_users
    }

    /// Returns the latest visible user message and its position.
    #[must_use]
    pub fn last_visible_user(&self) -> Option<(usize, &UserMessage)> {
        let index = self.counters.last_visible_user?;
        match self.get(index)? {
            Message::User(user) => Some((index, user)),
            _ => None,
        }
    }

    /// Returns the number of assistant messages after the latest visible user message.
    #[must_use]
    pub fn assistant_messages_since_user(&self) -> usize {
        self.counters.assistants_since_user
    }

    /// Whether a call id was ever used in this session.
    #[must_use]
    #[doc(hidden)]
    pub fn is_call_id_used(&self, id: &CallId) -> bool {
        self.retired.contains(id) || self.log.with_used(|used| used.contains(id, self.len()))
    }

    /// Returns an allocator that makes the call ids of one model reply unique in the session.
    #[must_use]
    #[doc(hidden)]
    pub fn call_ids(&self) -> CallIds {
        CallIds::new(self.clone())
    }
}

impl Default for Transcript {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Transcript {
    fn eq(&self, other: &Self) -> bool {
        // The counters follow from the messages, but for their size, which is an estimate.
        self.len() == other.len() && self.retired == other.retired && self.iter().eq(other.iter())
    }
}
