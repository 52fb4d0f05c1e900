//! The memory of a host that performs a run alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::SessionView;
use crate::session::OpenStep;
use crate::store::SessionReceipt;
use crate::stream::Sequence;
use crate::transcript::Transcript;

/// Remembers the session of a run between its effects, or nothing at all.
///
/// Clones share what is remembered.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Option<Arc<Mutex<Remembered>>>);

#[derive(Debug, Default)]
struct Remembered {
    view: Option<SessionView>,
    /// How often it changed: what was read before a change is not remembered after it.
    changes: u64,
}

impl Memory {
    /// A memory that remembers nothing.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// An empty memory.
    pub(super) fn empty() -> Self {
        Self(Some(Arc::default()))
    }

    /// An empty one for another run, if this one remembers.
    pub(super) fn anew(&self) -> Self {
        Self(self.0.as_ref().map(|_| Arc::default()))
    }

    fn lock(&self) -> Option<MutexGuard<'_, Remembered>> {
        let remembered = self.0.as_ref()?;
        // It is replaced in whole assignments only.
        Some(remembered.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Option<SessionView>)) {
        if let Some(mut remembered) = self.lock() {
            remembered.changes += 1;
            change(&mut remembered.view);
        }
    }

    /// The session as it is remembered.
    pub(super) fn view(&self) -> Option<SessionView> {
        self.lock()?.view.clone()
    }

    /// The open step as it is remembered.
    pub(super) fn open_step(&self) -> Option<Arc<OpenStep>> {
        self.lock()?.view.as_ref()?.open.clone()
    }

    /// How often what is remembered has changed.
    pub(super) fn changes(&self) -> u64 {
        self.lock().map_or(0, |remembered| remembered.changes)
    }

    /// Remembers what was read, unless something changed since there were `before` changes.
    pub(super) fn keep_read(&self, view: &SessionView, before: u64) {
        if let Some(mut remembered) = self.lock()
            && remembered.changes == before
        {
            remembered.view = Some(view.clone());
        }
    }

    /// Remembers the history.
    pub(super) fn keep_history(&self, history: &Transcript) {
        self.change(|view| {
            if let Some(view) = view {
                view.transcript = Some(history.clone());
            }
        });
    }

    /// Remembers a place in the stream that the run's own chunks have not passed. The start of the stream stands for
    /// one that is not known: an earlier place of the run still holds.
    pub(super) fn keep_sequence(&self, sequence: Sequence) {
        if sequence.is_start() {
            return;
        }
        self.change(|view| {
            if let Some(view) = view {
                view.sequence = Some(sequence);
            }
        });
    }

    /// Forgets everything: the next effect reads.
    pub(super) fn forget(&self) {
        self.change(|view| *view = None);
    }

    /// Remembers what a commit left behind. `change` does what the commit did beside the counters.
    /// When they differ from the store's, somebody else wrote beside the run, and all is forgotten.
    pub(super) fn update(&self, committed: &SessionReceipt, change: impl FnOnce(&mut SessionView)) {
        self.change(|remembered| {
            if let Some(view) = remembered {
                change(view);
                view.stop = committed.stop.is_some();
                view.budget.clone_from(&committed.budget);
                if !view.agrees_with(committed) {
                    *remembered = None;
                }
            }
        });
    }
}
