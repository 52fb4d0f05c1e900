//! The part of a conversation that the model reads, where its beginning is left out.

use std::sync::Arc;

use super::{Counters, Transcript};
use crate::budget::text_tokens;
use crate::context::{PromptSize, StandIn};
use crate::message::Message;

/// The conversation as the model reads it: the message that stands for the beginning, then the rest. It
/// grows with the whole conversation, so what is rendered of it is rendered once.
#[derive(Clone)]
pub(super) struct Shown {
    messages: Transcript,
    /// The position of the first message after the one that stands for those before.
    from: usize,
}

impl Transcript {
    /// Returns the conversation as the model reads it: all of it, unless its beginning is left out.
    #[must_use]
    #[doc(hidden)]
    pub fn for_model(&self) -> &Self {
        self.shown.as_ref().map_or(self, |shown| &shown.messages)
    }

    /// Returns the position of the first message that the model reads.
    pub(crate) fn shown_from(&self) -> usize {
        self.shown.as_ref().map_or(0, |shown| shown.from)
    }

    /// Returns the message that stands for what is left out.
    pub(crate) fn stand_in(&self) -> Option<&Message> {
        self.shown.as_ref()?.messages.get(0)
    }

    /// Returns the size of the conversation as the model reads it.
    pub(crate) fn size(&self) -> PromptSize {
        let Counters { bytes, counted, .. } = self.for_model().counters;
        match counted {
            Some(known) => PromptSize {
                counted: known.tokens,
                estimated: text_tokens(bytes.saturating_sub(known.bytes)),
            },
            None => PromptSize {
                counted: 0,
                estimated: text_tokens(bytes),
            },
        }
    }

    /// Returns the positions at which turns begin, from a position on: at the first of the user messages
    /// that precede a reply, if one of them is visible.
    pub(crate) fn turns_from(&self, from: usize) -> Vec<usize> {
        let mut turns = Vec::new();
        let mut first = None;
        for (at, message) in (from..).zip(self.iter_from(from)) {
            match message {
                Message::User(_) => {
                    let began = *first.get_or_insert(at);
                    if is_visible(message) && turns.last() != Some(&began) {
                        turns.push(began);
                    }
                }
                Message::Assistant(_) | Message::Tool(_) => first = None,
            }
        }
        turns
    }

    /// Adds a message that is about to be appended to the part that the model reads.
    pub(super) fn show(&mut self, message: &Arc<Message>) {
        match StandIn::of(message).filter(|stands| stands.from <= self.len()) {
            Some(stands) => {
                self.shown = Some(Box::new(self.show_from(stands.from, message)));
                // The whole conversation is not sent any more.
                self.log.renderings().clear();
            }
            None => {
                if let Some(shown) = &mut self.shown {
                    shown.messages.append_unseen(Arc::clone(message));
                }
            }
        }
    }

    fn show_from(&self, mut from: usize, stand_in: &Arc<Message>) -> Shown {
        // A history that was healed has other positions: no result is parted from its call.
        while from > 0 && matches!(self.get(from), Some(Message::Tool(_))) {
            from -= 1;
        }
        let mut messages = Self::new();
        messages.append_unseen(Arc::clone(stand_in));
        let rest = (from..self.len()).filter_map(|at| self.log.get(at));
        for message in rest.filter(|message| StandIn::of(message).is_none()) {
            messages.append_unseen(Arc::clone(message));
        }
        // Counted with messages that are left out now.
        messages.counters.counted = None;
        let left_out = self.log.iter(from).filter(|message| is_visible(message));
        messages.counters.visible_users += left_out.count();
        Shown { messages, from }
    }

    /// Finds the part that the model reads again, after messages were cut off.
    pub(super) fn show_again(&mut self) {
        self.shown = None;
        let last = (0..self.len()).rev().find_map(|at| {
            let message = self.log.get(at)?;
            let stands = StandIn::of(message)?;
            (stands.from <= at).then(|| (at, stands.from, Arc::clone(message)))
        });
        let Some((at, from, stand_in)) = last else {
            return;
        };
        let mut before = self.clone();
        before.counters.messages = at;
        let mut shown = before.show_from(from, &stand_in);
        for message in (at + 1..self.len()).filter_map(|at| self.log.get(at)) {
            shown.messages.append_unseen(Arc::clone(message));
        }
        self.shown = Some(Box::new(shown));
    }
}

fn is_visible(message: &Message) -> bool {
    matches!(message, Message::User(user) if !user.is_hidden())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AssistantMessage, UserMessage};
    use crate::transcript::PairedStep;

    #[test]
    fn a_count_of_what_is_left_out_is_forgotten() {
        let mut conversation = Transcript::new();
        for text in ["one", "two"] {
            conversation.push_user(UserMessage::new(text));
            let mut reply = AssistantMessage::text("Fine.");
            reply.set_context_tokens(9_000);
            let step = PairedStep::new(reply, []).unwrap();
            conversation.push_step(step).unwrap();
        }
        assert_eq!(conversation.size().counted, 9_000);
        // The provider counted the first turn, too.
        conversation.push_user(StandIn::message(2, None));
        assert_eq!(conversation.size().counted, 0);
        assert!(conversation.size().estimated < 100);
    }
}
