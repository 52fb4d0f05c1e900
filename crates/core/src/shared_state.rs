//! The state as tools and hooks see it while they run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bounds::{Bounds, Written};
use crate::state::{ArrayMode, Draft, PatchOp, StateError, StateTracker, StepWrites};

/// One writer's view of the state: what was committed, plus its own writes. Clones share it.
///
/// Parallel writers each get their own view of the same base; their writes are merged when the step
/// is settled.
#[derive(Debug, Clone)]
pub struct SharedState {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tracker: Mutex<StateTracker>,
    written: Mutex<Written>,
    /// The thread whose change is under way: asking beside its draft would wait for itself.
    changing: Mutex<Option<ThreadId>>,
}

/// Forgets who changes the state when the change is over, by a panic, too.
struct Changing<'a>(&'a Shared);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        *unpoisoned(&self.0.changing) = None;
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A change that panics is rolled back by the tracker, so what is inside is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedState {
    /// A view of a committed state.
    ///
    /// # Errors
    /// [`StateError`] when it is not an object.
    pub fn new(base: Arc<Value>) -> Result<Self, StateError> {
        Ok(Self::of(StateTracker::new(base, ArrayMode::Delta)?))
    }

    /// A view of a state that a store gave: it was checked when it was stored.
    pub(crate) fn of_committed(base: Arc<Value>) -> Self {
        Self::of(StateTracker::over(base, ArrayMode::Delta))
    }

    /// A view of a committed state after some writes, which are not the writer's own.
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

    /// Says how much may be written.
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

    /// The state as JSON.
    ///
    /// # Errors
    /// [`StateError::Reentrant`] inside of a change of it.
    pub fn get(&self) -> Result<Arc<Value>, StateError> {
        Ok(self.lock()?.state())
    }

    /// The state as a type.
    ///
    /// # Errors
    /// [`StateError`] when the state does not have the type's shape, or inside of a change of it.
    pub fn get_as<S: DeserializeOwned>(&self) -> Result<S, StateError> {
        let whole = self.lock()?.view().get_as("")?;
        whole.ok_or(StateError::RootRemoved)
    }

    /// Changes the state as a type: read, change, compare. The cost grows with the state.
    ///
    /// Gives the change as RFC 6902 patches.
    ///
    /// # Errors
    /// [`StateError`] when the state does not have the type's shape, would not be JSON, or the change
    /// is too large; nothing is changed then.
    pub fn update<S>(&self, change: impl FnOnce(&mut S)) -> Result<Vec<PatchOp>, StateError>
    where
        S: Serialize + DeserializeOwned,
    {
        self.record(
            |tracker| tracker.typed_writes(change).map(|(_, writes)| writes),
            |draft, writes| writes.iter().try_for_each(|op| draft.apply(op)),
        )
    }

    /// Changes the state through a draft. The cost does not depend on the size of the state.
    ///
    /// Gives the change as RFC 6902 patches.
    ///
    /// # Errors
    /// The change's own [`StateError`], or [`StateError::Exceeded`] when it is too large; nothing is
    /// changed then.
    pub fn edit(
        &self,
        change: impl FnOnce(&mut Draft) -> Result<(), StateError>,
    ) -> Result<Vec<PatchOp>, StateError> {
        self.record(|_| Ok(()), |draft, ()| change(draft))
    }

    /// Finds out what to change, and changes it, unless that is more than may be written.
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

    /// Everything this writer wrote.
    ///
    /// # Errors
    /// [`StateError::Reentrant`] inside of a change.
    pub fn writes(&self) -> Result<StepWrites, StateError> {
        Ok(self.lock()?.all_writes())
    }
}

impl Default for SharedState {
    /// A view of the empty state.
    fn default() -> Self {
        Self::of(StateTracker::empty(ArrayMode::Delta))
    }
}
