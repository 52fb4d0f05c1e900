//! The outbox of a store in memory whose streams are elsewhere.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::{Inner, MemoryStore};
use crate::id::SessionId;
use crate::store::{Headers, Plan, StoreError};
use crate::stream::{Incarnation, Outbox, OutboxEntry, OutboxPosition, Sequence};

/// The entries of all roots, by their numbers.
#[derive(Debug)]
pub(super) struct Entries {
    /// The highest number that was used.
    last: u64,
    by_root: BTreeMap<SessionId, BTreeMap<u64, OutboxEntry>>,
    /// The last entry of each root, with the incarnation of its stream.
    heads: BTreeMap<SessionId, OutboxPosition>,
}

impl Default for Entries {
    fn default() -> Self {
        Self {
            last: OutboxEntry::UNKNOWN,
            by_root: BTreeMap::new(),
            heads: BTreeMap::new(),
        }
    }
}

impl MemoryStore {
    /// Leaves chunks in an outbox, for a [`Relayed`](crate::stream::Relayed) store.
    #[must_use]
    pub fn with_outbox(self) -> Self {
        self.lock().outbox.get_or_insert_default();
        self
    }
}

impl Inner {
    /// Leaves what a commit says in the outbox, if there is one, and returns the number of the entry.
    pub(super) fn leave(
        &mut self,
        root: &SessionId,
        plan: &Plan,
        before: &Headers,
    ) -> Option<Sequence> {
        let outbox = self.outbox.as_mut()?;
        let known = outbox.heads.get(root).copied();
        let known = known.filter(|_| !plan.deletes(root));
        let is_new = matches!(plan.headers.get(root), Some(Some(_)))
            && (plan.deletes(root) || !before.contains_key(root));
        let head = known.unwrap_or_else(|| {
            self.begun += 1;
            OutboxPosition {
                incarnation: Incarnation(self.begun),
                number: if is_new { 0 } else { OutboxEntry::UNKNOWN },
            }
        });
        let Some(entry) = OutboxEntry::of(plan, before, root, head.incarnation) else {
            return Some(Sequence::START);
        };
        outbox.last += 1;
        let entry = OutboxEntry {
            previous: head.number,
            ..entry
        };
        let entries = outbox.by_root.entry(root.clone()).or_default();
        entries.insert(outbox.last, entry);
        if matches!(plan.headers.get(root), Some(None)) {
            outbox.heads.remove(root);
        } else {
            let number = outbox.last;
            let head = OutboxPosition { number, ..head };
            outbox.heads.insert(root.clone(), head);
        }
        Some(Sequence(outbox.last))
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl Outbox for MemoryStore {
    async fn entries(
        &self,
        root: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, OutboxEntry)>, StoreError> {
        let inner = self.lock();
        let entries = inner.outbox.as_ref().and_then(|all| all.by_root.get(root));
        let entries = entries.into_iter().flat_map(|all| all.range(after + 1..));
        let entries = entries.take(limit);
        Ok(entries.map(|(n, entry)| (*n, entry.clone())).collect())
    }

    async fn relayed(&self, root: &SessionId, up_to: u64) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let all = inner.outbox.as_mut().map(|outbox| &mut outbox.by_root);
        if let Some(all) = all
            && let Some(entries) = all.get_mut(root)
        {
            *entries = entries.split_off(&(up_to + 1));
            if entries.is_empty() {
                all.remove(root);
            }
        }
        Ok(())
    }

    async fn waiting(&self, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        let inner = self.lock();
        let roots = inner.outbox.iter().flat_map(|outbox| outbox.by_root.iter());
        let mut roots: Vec<_> = roots.collect();
        roots.sort_by_key(|(_, entries)| entries.keys().next().copied());
        let roots = roots.into_iter().take(limit);
        Ok(roots.map(|(root, _)| root.clone()).collect())
    }

    async fn head(&self, root: &SessionId) -> Result<Option<OutboxPosition>, StoreError> {
        let inner = self.lock();
        let outbox = inner.outbox.as_ref();
        Ok(outbox.and_then(|outbox| outbox.heads.get(root).copied()))
    }
}
