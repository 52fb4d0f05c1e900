//! Call ids, unique in a session whatever a provider sends.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::log::Log;
use crate::id::{CallId, IdError, IdSource, IdSourceExt};
use crate::message::Message;

/// Every call id a session has ever used.
#[derive(Debug, Clone, Default)]
pub(super) struct UsedIds {
    ids: HashSet<CallId>,
    /// For an id that was repeated, a suffix below which every suffix is taken. It spares a
    /// provider that calls every call `call_0` from a search that grows with the conversation.
    next_suffix: HashMap<CallId, usize>,
}

impl UsedIds {
    pub(super) fn contains(&self, id: &CallId) -> bool {
        self.ids.contains(id)
    }

    pub(super) fn extend(&mut self, ids: impl IntoIterator<Item = CallId>) {
        self.ids.extend(ids);
    }

    pub(super) fn note(&mut self, message: &Message) {
        if let Message::Assistant(assistant) = message {
            self.extend(assistant.tool_calls().map(|call| call.id.clone()));
        }
    }

    /// The smallest suffix from 2 on that no stored call has.
    fn first_free_suffix(&mut self, id: &CallId) -> usize {
        let next = self.next_suffix.entry(id.clone()).or_insert(2);
        while self.ids.contains(&suffixed(id, *next)) {
            *next += 1;
        }
        *next
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
    log: Arc<Log>,
    in_this_reply: HashSet<CallId>,
}

impl std::fmt::Debug for CallIds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallIds")
            .field("in_this_reply", &self.in_this_reply)
            .finish_non_exhaustive()
    }
}

impl CallIds {
    pub(super) fn new(log: Arc<Log>) -> Self {
        Self {
            log,
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
                let mut n = self.log.with_used(|used| used.first_free_suffix(id));
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
        !self.in_this_reply.contains(id) && !self.log.with_used(|used| used.contains(id))
    }
}
