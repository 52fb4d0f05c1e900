//! A state that can be changed, with a record of the changes.

mod edit;
mod transaction;

use std::{borrow::Cow, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

pub(super) use self::transaction::Transaction;
use super::{
    IntoNumber, IntoPointer, PatchOp, Pointer, StateError, StateOp, StepWrites,
    changes::Changes,
    overlay::{Overlay, View, differences},
    to_json,
};

/// How changes of arrays are reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ArrayMode {
    /// An array that was only appended to is reported as appends, any other as one replacement.
    ///
    /// Appends compose with those of parallel writers, so this is the mode of tools.
    Delta,
    /// An array that was changed in any way is reported as one replacement.
    #[default]
    Replace,
}

/// A changeable state over a shared one, which stays as it is.
///
/// Reading and changing cost as much as the path is deep, whatever the size of the state: the
/// shared state is never copied. In an array, each place where elements were inserted or removed
/// adds to the cost. The changes are available at any time, as [`writes`](Self::writes) for the
/// store and as [`rfc6902_patches`](Self::rfc6902_patches) for clients.
///
/// Paths are JSON pointers, as text or as [`Pointer`]s. An index in the path addresses an array
/// element. A call that fails changes nothing.
///
/// ```
/// use std::sync::Arc;
/// use helix_agents_core::state::{ArrayMode, Draft};
/// use serde_json::json;
///
/// let state = Arc::new(json!({ "notes": ["milk"], "count": 1 }));
/// let mut draft = Draft::new(state, ArrayMode::Delta);
/// draft.push("/notes", "bread")?;
/// draft.increment("/count", 1)?;
///
/// assert_eq!(draft.get_as::<u32>("/count")?, Some(2));
/// assert_eq!(
///     serde_json::to_value(draft.writes()).unwrap(),
///     json!([
///         { "op": "append", "path": "/notes", "value": "bread" },
///         { "op": "increment", "path": "/count", "by": 1 },
///     ]),
/// );
/// # Ok::<(), helix_agents_core::state::StateError>(())
/// ```
#[derive(Debug)]
pub struct Draft {
    base: Arc<Value>,
    overlay: Overlay,
    changes: Changes,
    mode: ArrayMode,
}

impl Draft {
    /// Creates a draft of `base` without changes.
    #[doc(hidden)]
    pub fn new(base: impl Into<Arc<Value>>, mode: ArrayMode) -> Self {
        Self {
            base: base.into(),
            overlay: Overlay::new(),
            changes: Changes::new(),
            mode,
        }
    }

    /// Returns how changes of arrays are reported.
    #[must_use]
    pub(crate) fn mode(&self) -> ArrayMode {
        self.mode
    }

    /// Returns the value at `path`, borrowed unless something inside it was changed.
    ///
    /// # Errors
    ///
    /// [`StateError::InvalidPointer`] if `path` is not a JSON pointer.
    pub fn get(&self, path: impl IntoPointer) -> Result<Option<Cow<'_, Value>>, StateError> {
        Ok(self.trace(&path.into_pointer()?).target().map(View::to_cow))
    }

    /// Returns the value at `path` as a `T`.
    ///
    /// # Errors
    ///
    /// [`StateError::Mismatch`] if the value is not a `T`.
    pub fn get_as<T: DeserializeOwned>(
        &self,
        path: impl IntoPointer,
    ) -> Result<Option<T>, StateError> {
        let path = path.into_pointer()?;
        let Some(value) = self.trace(&path).target().map(View::to_cow) else {
            return Ok(None);
        };
        match T::deserialize(&*value) {
            Ok(value) => Ok(Some(value)),
            Err(source) => Err(StateError::Mismatch { path, source }),
        }
    }

    /// Whether there is a value at `path`.
    ///
    /// # Errors
    ///
    /// [`StateError::InvalidPointer`] if `path` is not a JSON pointer.
    pub fn contains(&self, path: impl IntoPointer) -> Result<bool, StateError> {
        Ok(self.trace(&path.into_pointer()?).target().is_some())
    }

    /// Returns the number of elements of the array, or of keys of the object, at `path`; `None`
    /// if there is neither.
    ///
    /// # Errors
    ///
    /// [`StateError::InvalidPointer`] if `path` is not a JSON pointer.
    pub fn len(&self, path: impl IntoPointer) -> Result<Option<usize>, StateError> {
        Ok(self
            .trace(&path.into_pointer()?)
            .target()
            .and_then(View::len))
    }

    /// Sets the value at `path`, creating missing parents as objects.
    ///
    /// # Errors
    ///
    /// [`StateError::NotJson`], [`StateError::NotAContainer`], [`StateError::NoSuchElement`] for
    /// an index that is not in use, and [`StateError::RootNotObject`].
    pub fn set(&mut self, path: impl IntoPointer, value: impl Serialize) -> Result<(), StateError> {
        self.set_json(&path.into_pointer()?, to_json(value)?)
    }

    /// Adds an element at the end of the array at `path`, which is created if missing.
    ///
    /// # Errors
    ///
    /// Those of [`set`](Self::set), and [`StateError::NotAnArray`].
    pub fn push(
        &mut self,
        path: impl IntoPointer,
        value: impl Serialize,
    ) -> Result<(), StateError> {
        self.push_json(&path.into_pointer()?, to_json(value)?)
    }

    /// Adds `by` to the number at `path`; a missing number counts as 0.
    ///
    /// # Errors
    ///
    /// Those of [`set`](Self::set), and [`StateError::NotANumber`] or [`StateError::Overflow`].
    pub fn increment(
        &mut self,
        path: impl IntoPointer,
        by: impl IntoNumber,
    ) -> Result<(), StateError> {
        let path = path.into_pointer()?;
        let by = by.into_number().ok_or_else(|| StateError::NotJson {
            path: Pointer::root(),
            reason: "the increment is not a finite number".to_owned(),
        })?;
        self.add(&path, by)
    }

    /// Removes the key or array element at `path`. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// [`StateError::RootRemoved`] for the root.
    pub fn remove(&mut self, path: impl IntoPointer) -> Result<bool, StateError> {
        self.remove_at(&path.into_pointer()?)
    }

    /// Inserts an element into an array, before the one that `path` names. An index equal to the
    /// length, or `-`, names the end.
    ///
    /// # Errors
    ///
    /// Those of [`push`](Self::push), and [`StateError::NotFound`] if there is no array.
    pub fn insert(
        &mut self,
        path: impl IntoPointer,
        value: impl Serialize,
    ) -> Result<(), StateError> {
        self.insert_json(&path.into_pointer()?, to_json(value)?)
    }

    /// Applies one stored operation.
    ///
    /// # Errors
    ///
    /// Those of the method for that operation.
    pub fn apply(&mut self, op: &StateOp) -> Result<(), StateError> {
        match op {
            StateOp::Append { path, value } => self.push_json(path, value.clone()),
            StateOp::Replace { path, value } => self.set_json(path, value.clone()),
            StateOp::Delete { path } => self.remove_at(path).map(drop),
            StateOp::Increment { path, by } => self.add(path, by.clone()),
        }
    }

    /// Returns the changes that turn this state into another one. If both are drafts of one shared
    /// state, this costs as much as was changed in them, whatever the size of the state.
    #[must_use]
    #[doc(hidden)]
    pub fn differences(&self, other: &Self) -> StepWrites {
        differences(self.view(), other.view())
    }

    /// Returns the whole state as it is now.
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.view().to_value()
    }

    /// Returns the changes as operations: one per changed place, in the order in which the places were
    /// first changed. Applying them to the state from which the draft was made gives the current state.
    #[must_use]
    pub fn writes(&self) -> StepWrites {
        self.changes.writes(self.view())
    }

    /// Returns the changes as RFC 6902 patches with the same effect as [`writes`](Self::writes).
    #[must_use]
    #[doc(hidden)]
    pub fn rfc6902_patches(&self) -> Vec<PatchOp> {
        self.changes.patches(self.view())
    }
}
