//! An append-only list that many readers share without locks.
//!
//! Slots are in buckets of doubling size that never move, so a reader that knows a length reads
//! everything before it while a writer appends after it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::call_ids::UsedIds;
use super::rendered::Renderings;
use crate::message::Message;

/// The number of slots in the first bucket; each next one has twice as many.
const FIRST: usize = 32;
/// The number of buckets, enough for more messages than fit into memory.
const BUCKETS: usize = 40;

type Slot = OnceLock<Arc<Message>>;

pub(super) struct Log {
    buckets: [OnceLock<Box<[Slot]>>; BUCKETS],
    /// The number of assigned slots. A writer owns the slot past which it moved this number.
    claimed: AtomicUsize,
    used: Mutex<UsedIds>,
    renderings: Renderings,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            buckets: [const { OnceLock::new() }; BUCKETS],
            claimed: AtomicUsize::new(0),
            used: Mutex::default(),
            renderings: Renderings::default(),
        }
    }
}

/// Returns the bucket of an index and the position in it.
fn place(index: usize) -> (usize, usize) {
    let shifted = index + FIRST;
    let bucket = (shifted.ilog2() - FIRST.ilog2()) as usize;
    (bucket, shifted - (FIRST << bucket))
}

impl Log {
    pub(super) fn get(&self, index: usize) -> Option<&Arc<Message>> {
        let (bucket, offset) = place(index);
        self.buckets.get(bucket)?.get()?.get(offset)?.get()
    }

    /// Appends at `at`, which must be the length that the caller knows.
    ///
    /// Returns the message if the log is longer than that because another clone appended.
    pub(super) fn push(&self, at: usize, message: Arc<Message>) -> Result<(), Arc<Message>> {
        let claim = self
            .claimed
            .compare_exchange(at, at + 1, Ordering::AcqRel, Ordering::Acquire);
        let (bucket, offset) = place(at);
        let (Ok(_), Some(bucket)) = (claim, self.buckets.get(bucket)) else {
            return Err(message);
        };
        let size = FIRST << place(at).0;
        let slots = bucket.get_or_init(|| (0..size).map(|_| Slot::new()).collect());
        self.with_used(|used| used.record(&message, at));
        match slots.get(offset) {
            Some(slot) => slot.set(message),
            None => Err(message),
        }
    }

    /// Copies the first `len` messages into a separate log and appends one more.
    pub(super) fn fork(&self, len: usize, message: Arc<Message>) -> Self {
        let copy = Self::default();
        let shared = (0..len).filter_map(|index| self.get(index)).cloned();
        for (at, message) in shared.chain([message]).enumerate() {
            // A new log has no second writer, so no push is refused.
            let _ = copy.push(at, message);
        }
        copy
    }

    pub(super) fn iter(
        &self,
        len: usize,
    ) -> impl DoubleEndedIterator<Item = &Message> + ExactSizeIterator {
        self.iter_range(0, len)
    }

    pub(super) fn iter_range(
        &self,
        from: usize,
        to: usize,
    ) -> impl DoubleEndedIterator<Item = &Message> + ExactSizeIterator {
        Iter {
            log: self,
            from,
            to,
        }
    }

    /// Returns what was rendered of the messages.
    pub(super) fn renderings(&self) -> &Renderings {
        &self.renderings
    }

    pub(super) fn with_used<R>(&self, act: impl FnOnce(&mut UsedIds) -> R) -> R {
        act(&mut self.lock_used())
    }

    fn lock_used(&self) -> std::sync::MutexGuard<'_, UsedIds> {
        // Nothing panics while it holds the lock, and the set is consistent after every insert.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Iter<'a> {
    log: &'a Log,
    from: usize,
    to: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Message;

    fn next(&mut self) -> Option<&'a Message> {
        if self.from >= self.to {
            return None;
        }
        self.from += 1;
        self.log.get(self.from - 1).map(Arc::as_ref)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.to.saturating_sub(self.from);
        (left, Some(left))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.from >= self.to {
            return None;
        }
        self.to -= 1;
        self.log.get(self.to).map(Arc::as_ref)
    }
}

impl ExactSizeIterator for Iter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_filled_without_gaps() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(place(index), expected, "index {index}");
            expected.1 += 1;
            if expected.1 == FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
    }
}
