//! A state over the life of a step or a tool call.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    ArrayMode, Draft, PatchOp, Pointer, StateError, StateOp, StepWrites, changes::Changes,
    check_state, diff::diff_onto, draft::Transaction, to_json,
};

/// Changes a state by whole updates and knows what changed since the last
/// [`reset_tracking`](Self::reset_tracking).
///
/// An update that fails, or panics, leaves no trace. Updates, resets and patches cost as much as
/// was changed, not as much as there is.
///
/// ```
/// use helix_agents_core::state::{ArrayMode, StateTracker};
/// use serde_json::json;
///
/// let mut tracker = StateTracker::new(json!({ "count": 0, "notes": [] }), ArrayMode::Delta)?;
/// tracker.update(|draft| draft.set("/count", 1))?;
/// tracker.reset_tracking();
/// tracker.update(|draft| draft.push("/notes", "milk"))?;
///
/// assert_eq!(*tracker.state(), json!({ "count": 1, "notes": ["milk"] }));
/// assert_eq!(
///     serde_json::to_value(tracker.rfc6902_patches()).unwrap(),
///     json!([{ "op": "add", "path": "/notes/-", "value": "milk" }]),
/// );
/// # Ok::<(), helix_agents_core::state::StateError>(())
/// ```
#[derive(Debug)]
pub struct StateTracker {
    /// With what changed since the last reset.
    draft: Draft,
    /// What changed since the beginning.
    all: Changes,
}

impl StateTracker {
    /// Starts to track a state. [`ArrayMode::Replace`] is the default mode; tools, which may run
    /// in parallel, use [`ArrayMode::Delta`].
    ///
    /// # Errors
    ///
    /// [`StateError::RootNotObject`].
    pub fn new(initial: impl Into<Arc<Value>>, mode: ArrayMode) -> Result<Self, StateError> {
        let initial = initial.into();
        check_state(&initial)?;
        Ok(Self::over(initial, mode))
    }

    /// Starts to track an empty state.
    #[must_use]
    pub fn empty(mode: ArrayMode) -> Self {
        Self::over(Arc::new(Value::Object(Map::new())), mode)
    }

    /// Starts to track a state that is known to be one.
    pub(crate) fn over(initial: Arc<Value>, mode: ArrayMode) -> Self {
        Self {
            draft: Draft::new(initial, mode),
            all: Changes::new(),
        }
    }

    /// The state after some writes, which are not counted as changes: they are where this begins.
    ///
    /// The state itself stays shared; what comes after costs as much as the writes do.
    ///
    /// # Errors
    ///
    /// What [`Draft::apply`] says about the first of them that cannot be made.
    pub(crate) fn after<'a>(
        base: Arc<Value>,
        writes: impl IntoIterator<Item = &'a StateOp>,
        mode: ArrayMode,
    ) -> Result<Self, StateError> {
        let mut after = Self::over(base, mode);
        for op in writes {
            after.draft.apply(op)?;
        }
        after.draft.forget_changes();
        Ok(after)
    }

    /// What brings a client that has this state to another one over the same base.
    pub(crate) fn patches_to(&mut self, other: &Self) -> Result<Vec<PatchOp>, StateError> {
        let writes = self.draft.differences(&other.draft);
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.reset_tracking();
        self.update(|draft| writes.iter().try_for_each(|op| draft.apply(op)))?;
        Ok(self.draft.rfc6902_patches())
    }

    /// The state as it is now.
    ///
    /// Free when nothing changed since the last call. Otherwise the changes are brought into the
    /// state, in place if no earlier result of this method is still around, else into a copy. To
    /// read parts of the state, [`view`](Self::view) is cheaper.
    pub fn state(&mut self) -> Arc<Value> {
        Arc::clone(self.draft.fold())
    }

    /// The state as it is now, to read parts of it, and what changed since the last reset.
    #[must_use]
    pub fn view(&self) -> &Draft {
        &self.draft
    }

    /// Changes the state. All changes are kept when `change` succeeds, none otherwise.
    ///
    /// Inside, the draft shows the current state and reports the changes of this update only.
    ///
    /// # Errors
    ///
    /// The error of `change`.
    pub fn update<T>(
        &mut self,
        change: impl FnOnce(&mut Draft) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        self.try_update(change)
    }

    /// [`update`](Self::update) with an error type of the caller's own.
    ///
    /// # Errors
    ///
    /// The error of `change`.
    pub fn try_update<T, E>(
        &mut self,
        change: impl FnOnce(&mut Draft) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut transaction = Transaction::begin(&mut self.draft);
        let value = change(transaction.draft())?;
        transaction.commit(&mut self.all);
        Ok(value)
    }

    /// Changes the state through a type of the caller's own.
    ///
    /// What changes is what `change` makes different: keys that `S` does not know stay, and
    /// defaults that it fills in are not written. A number that was counted up is a replacement;
    /// for one that parallel tools count, use [`Draft::increment`].
    ///
    /// Within an array this goes for each element that `change` left as it was, wherever it stands
    /// now, and for those that it changed in place. Elements without a past are written as `S`
    /// gives them: new ones; changed ones in an array that became shorter, for they cannot be told
    /// from their neighbours; and all of them when `S` sees another number of elements than there
    /// are. An array is one change: its replacement holds the elements that stay, too.
    ///
    /// This reads and compares the whole state.
    ///
    /// # Errors
    ///
    /// [`StateError::Mismatch`] when the state is no `S`, [`StateError::NotJson`] when the changed
    /// one has no JSON form, [`StateError::RootNotObject`] when `S` does not become an object.
    pub fn update_typed<S, T>(&mut self, change: impl FnOnce(&mut S) -> T) -> Result<T, StateError>
    where
        S: Serialize + DeserializeOwned,
    {
        let (value, writes) = self.typed_writes(change)?;
        self.update(|draft| writes.iter().try_for_each(|op| draft.apply(op)))?;
        Ok(value)
    }

    /// What `change` makes different, which is not done yet.
    pub(crate) fn typed_writes<S, T>(
        &mut self,
        change: impl FnOnce(&mut S) -> T,
    ) -> Result<(T, StepWrites), StateError>
    where
        S: Serialize + DeserializeOwned,
    {
        let actual = self.state();
        let mut typed = S::deserialize(&*actual).map_err(|source| StateError::Mismatch {
            path: Pointer::root(),
            source,
        })?;
        let old = to_json(&typed)?;
        let value = change(&mut typed);
        let new = to_json(&typed)?;
        check_state(&new)?;
        let writes = diff_onto(&actual, &old, &new, self.draft.mode());
        Ok((value, writes))
    }

    /// What changed since the last reset, as operations.
    #[must_use]
    pub fn step_writes(&self) -> StepWrites {
        self.draft.writes()
    }

    /// What changed since the last reset, as JSON Patch operations.
    #[must_use]
    pub fn rfc6902_patches(&self) -> Vec<PatchOp> {
        self.draft.rfc6902_patches()
    }

    /// What changed since the beginning, whatever was reset: what a tool call whose changes were
    /// streamed one by one leaves to be stored.
    #[must_use]
    pub fn all_writes(&self) -> StepWrites {
        self.all.writes(self.draft.view())
    }

    /// Reports only later changes from here on. The state stays as it is.
    pub fn reset_tracking(&mut self) {
        self.draft.forget_changes();
    }
}
