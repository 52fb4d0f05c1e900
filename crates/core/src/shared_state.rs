//! The state as tools and hooks see it while they run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::state::{ArrayMode, Draft, PatchOp, StateError, StateTracker, StepWrites};

/// One writer's view of the state: what was committed, plus its own writes. Clones share it.
///
/// Parallel writers each get their own view of the same base; their writes are merged when the step
/// is settled.
#[derive(Debug, Clone)]
pub struct SharedState {
    tracker: Arc<Mutex<StateTracker>>,
}

impl SharedState {
    /// A view of a committed state.
    ///
    /// # Errors
    /// [`StateError`] when it is not an object.
    pub fn new(base: Arc<Value>) -> Result<Self, StateError> {
        let tracker = StateTracker::new(base, ArrayMode::Delta)?;
        Ok(Self {
            tracker: Arc::new(Mutex::new(tracker)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, StateTracker> {
        // An update that panics is rolled back by the tracker, so the view is whole.
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state as JSON.
    #[must_use]
    pub fn get(&self) -> Arc<Value> {
        self.lock().state()
    }

    /// The state as a type.
    ///
    /// # Errors
    /// [`StateError`] when the state does not have the type's shape.
    pub fn get_as<S: DeserializeOwned>(&self) -> Result<S, StateError> {
        let whole = self.lock().view().get_as("")?;
        whole.ok_or(StateError::RootRemoved)
    }

    /// Changes the state as a type: read, change, compare. The cost grows with the state.
    ///
    /// Gives the change as RFC 6902 patches.
    ///
    /// # Errors
    /// [`StateError`] when the state does not have the type's shape, or would not be JSON.
    pub fn update<S>(&self, change: impl FnOnce(&mut S)) -> Result<Vec<PatchOp>, StateError>
    where
        S: Serialize + DeserializeOwned,
    {
        self.record(|tracker| tracker.update_typed(change))
    }

    /// Changes the state through a draft. The cost does not depend on the size of the state.
    ///
    /// Gives the change as RFC 6902 patches.
    ///
    /// # Errors
    /// The change's own [`StateError`]; nothing is changed then.
    pub fn edit(
        &self,
        change: impl FnOnce(&mut Draft) -> Result<(), StateError>,
    ) -> Result<Vec<PatchOp>, StateError> {
        self.record(|tracker| tracker.update(change))
    }

    fn record(
        &self,
        change: impl FnOnce(&mut StateTracker) -> Result<(), StateError>,
    ) -> Result<Vec<PatchOp>, StateError> {
        let mut tracker = self.lock();
        change(&mut tracker)?;
        let patches = tracker.rfc6902_patches();
        tracker.reset_tracking();
        Ok(patches)
    }

    /// Everything this writer wrote.
    #[must_use]
    pub fn writes(&self) -> StepWrites {
        self.lock().all_writes()
    }
}

impl Default for SharedState {
    /// A view of the empty state.
    fn default() -> Self {
        Self {
            tracker: Arc::new(Mutex::new(StateTracker::empty(ArrayMode::Delta))),
        }
    }
}
