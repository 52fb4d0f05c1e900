//! The state as tools and hooks see it while they run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bounds::{Bounds, WriteBudget};
use crate::state::{ArrayMode, Draft, PatchOp, StateError, StateTracker, StepWrites};

/// One writer's view of the state: the committed state plus its own writes. Clones share it.
///
/// Parallel writers each get their own view of the same base; their writes are merged when
/// the step is settled.
#[derive(Debug, Clone)]
pub struct SharedState {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tracker: Mutex<StateTracker>,
    written: Mutex<WriteBudget>,
    /// The thread that is making a change: a nested access from it would deadlock.
    changing: Mutex<Option<ThreadId>>,
}

/// Clears the changing thread when the change ends, even on a panic.
struct Changing<'a>(&'a Shared);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        *unpoisoned(&self.0.changing) = None;
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A change that panics is rolled back by the tracker, so the content is consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedState {
    /// Creates a view of a committed state.
    ///
    /// # Errors
    /// [`StateError`] if it is not an object.
    pub fn new(base: Arc<Value>) -> Result<Self, StateError> {
        Ok(Self::of(StateTracker::new(base, ArrayMode::Delta)?))
    }

    /// Creates a view of a state from the store, which was checked when it was stored.
    pub(crate) fn of_committed(base: Arc<Value>) -> Self {
        Self::of(StateTracker::over(base, ArrayMode::Delta))
    }

    /// Creates a view of a committed state after some writes, which are not the writer's own.
    pub(crate) fn after(base: Arc<Value>, writes: &StepWrites) -> Result<Self, StateError> {
        let tracker = StateTracker::after(base, writes, ArrayMode::Delta)?;
        Ok(Self::of(tracker))
    }

    fn of(tracker: StateTracker) -> Self {
        Self {
            shared: Arc::new(Shared {
                tracker: Mutex::new(tracker),
                written: Mutex::default(),
                changing: Mutex::default(),
            }),
        }
    }

    /// Sets the limits on what may be written.
    pub(crate) fn bounded(self, bounds: Bounds) -> Self {
        unpoisoned(&self.shared.written).within(bounds);
        self
    }

    fn lock(&self) -> Result<MutexGuard<'_, StateTracker>, StateError> {
        let me = std::thread::current().id();
        if *unpoisoned(&self.shared.changing) == Some(me) {
            return Err(StateError::Reentrant);
        }
        Ok(unpoisoned(&self.shared.tracker))
    }

    /// Returns the state as JSON.
    ///
    /// # Errors
    /// [`StateError::Reentrant`] inside a change of the state.
    pub fn get(&self) -> Result<Arc<Value>, StateError> {
        Ok(self.lock()?.state())
    }

    /// Returns the state as a type.
    ///
    /// # Errors
    /// [`StateError`] if the state does not have the type's shape, or inside a change of the state.
    pub fn get_as<S: DeserializeOwned>(&self) -> Result<S, StateError> {
        let whole = self.lock()?.view().get_as("")?;
        whole.ok_or(StateError::RootRemoved)
    }

    /// Changes the state as a type: read, change, compare. The cost grows with the state. Where there is no
    /// state yet, the change starts from the type's default.
    ///
    /// Returns the change as RFC 6902 patches.
    ///
    /// # Errors
    /// [`StateError`] if the state does not have the type's shape, would not be JSON, or the change
    /// is too large; nothing is changed then.
    #[doc(hidden)]
    pub fn update<S>(&self, change: impl FnOnce(&mut S)) -> Result<Vec<PatchOp>, StateError>
    where
        S: Serialize + DeserializeOwned + Default,
    {
        self.record(
            |tracker| {
                tracker
                    .typed_writes(Some(S::default), change)
                    .map(|(_, writes)| writes)
            },
            |draft, writes| writes.iter().try_for_each(|op| draft.apply(op)),
        )
    }

    /// Changes the state through a draft. The cost does not depend on the size of the state.
    ///
    /// Returns the change as RFC 6902 patches.
    ///
    /// # Errors
    /// The [`StateError`] of the change, or [`StateError::Exceeded`] if it is too large;
    /// nothing is changed then.
    pub(crate) fn edit(
        &self,
        change: impl FnOnce(&mut Draft) -> Result<(), StateError>,
    ) -> Result<Vec<PatchOp>, StateError> {
        self.record(|_| Ok(()), |draft, ()| change(draft))
    }

    /// Computes a change and makes it, unless it exceeds the limits.
    fn record<T>(
        &self,
        find: impl FnOnce(&mut StateTracker) -> Result<T, StateError>,
        change: impl FnOnce(&mut Draft, T) -> Result<(), StateError>,
    ) -> Result<Vec<PatchOp>, StateError> {
        let mut tracker = self.lock()?;
        let mut written = unpoisoned(&self.shared.written);
        *unpoisoned(&self.shared.changing) = Some(std::thread::current().id());
        let changing = Changing(&self.shared);
        let room = written.room(|| tracker.all_writes());
        let found = find(&mut tracker)?;
        let (patches, bytes) = tracker.update(|draft| {
            change(draft, found)?;
            let patches = draft.rfc6902_patches();
            let bytes = room.take(&patches)?;
            Ok((patches, bytes))
        })?;
        drop(changing);
        written.add(bytes);
        tracker.reset_tracking();
        Ok(patches)
    }

    /// Returns everything this writer wrote.
    ///
    /// # Errors
    /// [`StateError::Reentrant`] inside a change of the state.
    pub fn writes(&self) -> Result<StepWrites, StateError> {
        Ok(self.lock()?.all_writes())
    }
}

impl Default for SharedState {
    /// Creates a view of the empty state.
    fn default() -> Self {
        Self::of(StateTracker::empty(ArrayMode::Delta))
    }
}
