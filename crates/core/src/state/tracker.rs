//! Tracks a state over the life of a step or a tool call.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    ArrayMode, Draft, PatchOp, Pointer, StateError, StateOp, StepWrites, changes::Changes,
    check_state, diff::diff_onto, draft::Transaction, to_json,
};

/// Changes a state in whole updates and records what changed since the last
/// [`reset_tracking`](Self::reset_tracking).
///
/// An update that fails, or panics, leaves no trace. Updates, resets and patches cost as much as
/// was changed, whatever the size of the state.
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
    /// The draft, which records what changed since the last reset.
    draft: Draft,
    /// The changes since the beginning.
    all: Changes,
}

impl StateTracker {
    /// Starts tracking a state. [`ArrayMode::Replace`] is the default mode; tools, which may run
    /// in parallel, use [`ArrayMode::Delta`].
    ///
    /// # Errors
    ///
    /// [`StateError::RootNotObject`] if `initial` is not an object.
    pub fn new(initial: impl Into<Arc<Value>>, mode: ArrayMode) -> Result<Self, StateError> {
        let initial = initial.into();
        check_state(&initial)?;
        Ok(Self::over(initial, mode))
    }

    /// Starts tracking an empty state.
    #[must_use]
    pub fn empty(mode: ArrayMode) -> Self {
        Self::over(Arc::new(Value::Object(Map::new())), mode)
    }

    /// Starts tracking a state that is known to be valid.
    pub(crate) fn over(initial: Arc<Value>, mode: ArrayMode) -> Self {
        Self {
            draft: Draft::new(initial, mode),
            all: Changes::new(),
        }
    }

    /// Starts tracking a state after some writes, which do not count as changes.
    ///
    /// The state itself stays shared; each later operation costs as much as the writes do.
    ///
    /// # Errors
    ///
    /// The error of [`Draft::apply`] for the first write that cannot be made.
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

    /// Returns the patches that bring a client with this state to another one over the same base.
    pub(crate) fn patches_to(&mut self, other: &Self) -> Result<Vec<PatchOp>, StateError> {
        let writes = self.draft.differences(&other.draft);
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.reset_tracking();
        self.update(|draft| writes.iter().try_for_each(|op| draft.apply(op)))?;
        Ok(self.draft.rfc6902_patches())
    }

    /// Returns the state as it is now.
    ///
    /// Free if nothing changed since the last call. Otherwise the changes are applied to the state:
    /// in place if no earlier result of this method is still held, else to a copy. To read parts of
    /// the state, [`view`](Self::view) is cheaper.
    pub fn state(&mut self) -> Arc<Value> {
        Arc::clone(self.draft.fold())
    }

    /// Returns a draft to read parts of the state, and what changed since the last reset.
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

    /// Does what [`update`](Self::update) does, with the caller's own error type.
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

    /// Changes the state through the caller's own type.
    ///
    /// Only what `change` modifies is written: keys that `S` does not know stay, and defaults that
    /// it fills in are not written. A changed number is a replacement; for a counter that parallel
    /// tools increment, use [`Draft::increment`].
    ///
    /// In an array this applies to each element that `change` left as it was, whatever its new
    /// index, and to those that it changed in place. Other elements are written as `S` serializes
    /// them: new ones; changed ones in an array that became shorter, because they cannot be told
    /// from their neighbours; and all of them if `S` sees another number of elements than exist. An
    /// array is one change: its replacement also contains the elements that stay.
    ///
    /// This reads and compares the whole state.
    ///
    /// # Errors
    ///
    /// [`StateError::Mismatch`] if the state is not an `S`, [`StateError::NotJson`] if the changed
    /// one has no JSON form, [`StateError::RootNotObject`] if `S` does not become an object.
    pub fn update_typed<S, T>(&mut self, change: impl FnOnce(&mut S) -> T) -> Result<T, StateError>
    where
        S: Serialize + DeserializeOwned,
    {
        let (value, writes) = self.typed_writes(None, change)?;
        self.update(|draft| writes.iter().try_for_each(|op| draft.apply(op)))?;
        Ok(value)
    }

    /// Computes what `change` modifies, without applying it. If there is no state, it starts from the
    /// default where one is given.
    pub(crate) fn typed_writes<S, T>(
        &mut self,
        default: Option<fn() -> S>,
        change: impl FnOnce(&mut S) -> T,
    ) -> Result<(T, StepWrites), StateError>
    where
        S: Serialize + DeserializeOwned,
    {
        let actual = self.state();
        let is_empty = actual.as_object().is_some_and(Map::is_empty);
        let (mut typed, old) = match (S::deserialize(&*actual), default) {
            (Ok(typed), _) => {
                let old = to_json(&typed)?;
                (typed, old)
            }
            (Err(_), Some(default)) if is_empty => (default(), Value::clone(&actual)),
            (Err(source), _) => {
                let path = Pointer::root();
                return Err(StateError::Mismatch { path, source });
            }
        };
        let value = change(&mut typed);
        let new = to_json(&typed)?;
        check_state(&new)?;
        let writes = diff_onto(&actual, &old, &new, self.draft.mode());
        Ok((value, writes))
    }

    /// Returns what changed since the last reset, as operations.
    #[must_use]
    pub fn step_writes(&self) -> StepWrites {
        self.draft.writes()
    }

    /// Returns what changed since the last reset, as JSON Patch operations.
    #[must_use]
    pub fn rfc6902_patches(&self) -> Vec<PatchOp> {
        self.draft.rfc6902_patches()
    }

    /// Returns what changed since the beginning, regardless of resets, to be stored after a tool
    /// call whose changes were streamed one by one.
    #[must_use]
    pub fn all_writes(&self) -> StepWrites {
        self.all.writes(self.draft.view())
    }

    /// Starts a new record of changes. The state stays as it is.
    pub fn reset_tracking(&mut self) {
        self.draft.forget_changes();
    }
}
