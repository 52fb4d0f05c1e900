//! Transactions on a draft, and folding its changes into the base.

use std::{mem, sync::Arc};

use serde_json::Value;

use super::Draft;
use crate::state::{changes::Changes, overlay::Overlay};

/// Changes to a draft that are rolled back unless they are committed, even on a panic.
///
/// A rollback costs as much as there were changes; the base is not copied.
#[derive(Debug)]
pub(in crate::state) struct Transaction<'a> {
    draft: &'a mut Draft,
    /// The changes before the transaction; `None` once committed.
    before: Option<Changes>,
}

impl<'a> Transaction<'a> {
    pub(in crate::state) fn begin(draft: &'a mut Draft) -> Self {
        draft.overlay.begin();
        let later = draft.changes.later();
        let before = Some(mem::replace(&mut draft.changes, later));
        Self { draft, before }
    }

    pub(in crate::state) fn draft(&mut self) -> &mut Draft {
        self.draft
    }

    /// Keeps the changes, and adds them to the record `all`.
    pub(in crate::state) fn commit(mut self, all: &mut Changes) {
        if let Some(mut changes) = self.before.take() {
            self.draft.overlay.commit();
            mem::swap(&mut self.draft.changes, &mut changes);
            all.absorb(changes.clone());
            self.draft.changes.absorb(changes);
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            self.draft.overlay.rollback(&self.draft.base);
            self.draft.changes = before;
        }
    }
}

impl Draft {
    /// Folds the changes into the base. Costs as much as was changed if the base is not shared, and
    /// one copy of the document otherwise.
    pub(in crate::state) fn fold(&mut self) -> &Arc<Value> {
        if !self.overlay.is_untouched() {
            let overlay = mem::replace(&mut self.overlay, Overlay::new());
            match Arc::get_mut(&mut self.base) {
                Some(base) => overlay.write_to(base),
                None => self.base = Arc::new(overlay.view(&self.base).to_value()),
            }
        }
        &self.base
    }

    /// Clears the record of changes, but keeps the changes themselves.
    pub(in crate::state) fn forget_changes(&mut self) {
        self.changes = self.changes.later();
    }

    /// Returns the document as it is now.
    pub(in crate::state) fn into_value(self) -> Value {
        let mut value = Arc::unwrap_or_clone(self.base);
        self.overlay.write_to(&mut value);
        value
    }

    /// Returns the document without the changes.
    pub(in crate::state) fn into_base(self) -> Value {
        Arc::unwrap_or_clone(self.base)
    }
}
