//! The roots whose outboxes a process could not relay.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::id::SessionId;

/// The roots whose outboxes a process could not relay.
#[derive(Debug, Default)]
pub(super) struct Behind(Mutex<Roots>);

/// Those of one instant.
#[derive(Debug, Default, Clone)]
pub(super) struct Roots {
    /// Those for which this process left something itself: it reads its own commits. Each with the number of the last
    /// time that it could not relay them.
    own: HashMap<SessionId, u64>,
    /// Those that a sweep could not relay.
    failed: HashSet<SessionId>,
    count: u64,
}

impl Behind {
    fn lock(&self) -> MutexGuard<'_, Roots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this process left something for a root and could not relay it.
    pub(super) fn leaves(&self, root: SessionId) {
        let mut roots = self.lock();
        roots.count += 1;
        let count = roots.count;
        roots.own.insert(root, count);
    }

    /// Whether this process left something for a root, as far as it knows.
    pub(super) fn has_left(&self, root: &SessionId) -> bool {
        self.lock().own.contains_key(root)
    }

    /// Notes that a sweep could not relay a root.
    pub(super) fn fails(&self, root: &SessionId) {
        self.lock().failed.insert(root.clone());
    }

    pub(super) fn is_relayed(&self, root: &SessionId) {
        let mut roots = self.lock();
        roots.own.remove(root);
        roots.failed.remove(root);
    }

    pub(super) fn now(&self) -> Roots {
        self.lock().clone()
    }

    /// Forgets roots that others have relayed: of those of `before`, all that were not `waiting` later.
    pub(super) fn only_these_wait(&self, before: &Roots, waiting: &[SessionId]) {
        if before.own.is_empty() && before.failed.is_empty() {
            return;
        }
        let waiting: HashSet<_> = waiting.iter().collect();
        let mut roots = self.lock();
        roots.failed.retain(|root| waiting.contains(root));
        // What was left meanwhile may not have been waiting yet.
        roots
            .own
            .retain(|root, count| waiting.contains(root) || before.own.get(root) != Some(count));
    }
}

impl Roots {
    /// How many a sweep could not relay.
    pub(super) fn failed(&self) -> usize {
        self.failed.len()
    }

    /// These roots, those last that a sweep could not relay: they keep no other waiting.
    pub(super) fn failed_last<'a>(
        &'a self,
        roots: &'a [SessionId],
    ) -> impl Iterator<Item = &'a SessionId> {
        let untried = roots.iter().filter(|root| !self.failed.contains(*root));
        let failed = roots.iter().filter(|root| self.failed.contains(*root));
        untried.chain(failed)
    }
}
