//! Call ids, unique in a session whatever a provider sends.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::Transcript;
use crate::id::{CallId, IdError, IdSource, IdSourceExt};
use crate::message::Message;

/// The call ids in a log, each with the position of the message that made the call.
#[derive(Debug, Default)]
pub(super) struct UsedIds {
    positions: HashMap<CallId, usize>,
    /// For an id that was repeated: a suffix below which every suffix is taken, and how long a view
    /// must be for that to be true of it. It spares a provider that calls every call `call_0` from a
    /// search that grows with the conversation.
    next_suffix: HashMap<CallId, (usize, usize)>,
}

impl UsedIds {
    pub(super) fn note(&mut self, message: &Message, at: usize) {
        if let Message::Assistant(assistant) = message {
            let calls = assistant.tool_calls();
            self.positions
                .extend(calls.map(|call| (call.id.clone(), at)));
        }
    }

    /// Whether one of the first `len` messages made a call with this id.
    pub(super) fn contains(&self, id: &CallId, len: usize) -> bool {
        self.positions.get(id).is_some_and(|at| *at < len)
    }

    /// The smallest suffix from 2 on that none of the first `len` messages has.
    fn first_free_suffix(&mut self, id: &CallId, len: usize) -> usize {
        let known = self.next_suffix.get(id).filter(|(_, needs)| *needs <= len);
        let mut next = known.map_or(2, |(next, _)| *next);
        while self.contains(&suffixed(id, next), len) {
            next += 1;
        }
        self.next_suffix.insert(id.clone(), (next, len));
        next
    }
}

/// `<id>_<n>`, with the id shortened where the whole would be longer than an id may be.
pub(super) fn suffixed(id: &CallId, n: usize) -> CallId {
    id.with_suffix(&format!("_{n}"))
}

/// Hands out the call ids of one reply.
///
/// A new id is kept, an id that the session has used becomes `<id>_<n>` with the smallest free n
/// from 2 on, a missing one is made by the source. Ids handed out here become used when the step is
/// pushed; a reply that is thrown away uses up nothing, so the next attempt gets the same ids.
pub struct CallIds {
    history: Transcript,
    in_this_reply: HashSet<CallId>,
}

impl fmt::Debug for CallIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallIds")
            .field("in_this_reply", &self.in_this_reply)
            .finish_non_exhaustive()
    }
}

impl CallIds {
    pub(super) fn new(history: Transcript) -> Self {
        Self {
            history,
            in_this_reply: HashSet::new(),
        }
    }

    /// The id to use for a call that came with `wanted`.
    ///
    /// # Errors
    /// [`IdError`] when the source breaks its contract.
    pub fn assign(
        &mut self,
        wanted: Option<&CallId>,
        source: &dyn IdSource,
    ) -> Result<CallId, IdError> {
        let id = match wanted {
            None => loop {
                let id = source.call_id()?;
                if self.is_free(&id) {
                    break id;
                }
            },
            Some(id) if self.is_free(id) => id.clone(),
            Some(id) => {
                let len = self.history.len();
                let log = &self.history.log;
                let mut n = log.with_used(|used| used.first_free_suffix(id, len));
                loop {
                    let candidate = suffixed(id, n);
                    if self.is_free(&candidate) {
                        break candidate;
                    }
                    n += 1;
                }
            }
        };
        self.in_this_reply.insert(id.clone());
        Ok(id)
    }

    fn is_free(&self, id: &CallId) -> bool {
        !self.in_this_reply.contains(id) && !self.history.is_call_id_used(id)
    }
}
