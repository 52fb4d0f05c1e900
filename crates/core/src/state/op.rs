//! The changes a step makes to a state, as data.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::Pointer;

/// One change to a state.
///
/// These operations are stored, and [`to_rfc6902`](super::to_rfc6902) converts them into patches
/// for clients. Missing parents are created as objects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StateOp {
    /// Adds `value` at the end of the array at `path`; a missing array is created.
    ///
    /// Appends by parallel writers compose: all of them survive.
    Append {
        /// The path of the array.
        path: Pointer,
        /// The new element.
        value: Value,
    },
    /// Sets the value at `path`, whether or not one exists.
    Replace {
        /// The path to set.
        path: Pointer,
        /// The value to set.
        value: Value,
    },
    /// Removes the value at `path`; has no effect if there is none.
    Delete {
        /// The path to remove.
        path: Pointer,
    },
    /// Adds `by` to the number at `path`; a missing number counts as 0.
    ///
    /// Integers stay integers; an overflow is an error. Increments by parallel writers compose.
    Increment {
        /// The path of the number.
        path: Pointer,
        /// The amount to add, possibly negative.
        by: Number,
    },
}

impl StateOp {
    /// Returns the path that this operation changes.
    #[must_use]
    #[doc(hidden)]
    pub fn path(&self) -> &Pointer {
        match self {
            Self::Append { path, .. }
            | Self::Replace { path, .. }
            | Self::Delete { path }
            | Self::Increment { path, .. } => path,
        }
    }
}

/// The changes that a step, or one tool call in it, makes to a state, in order.
///
/// ```
/// # use helix_agents_core::state::StepWrites;
/// # use serde_json::json;
/// let writes: StepWrites = serde_json::from_value(json!([
///     { "op": "append", "path": "/notes", "value": "milk" },
///     { "op": "increment", "path": "/count", "by": 1 },
/// ]))?;
/// assert_eq!(writes.len(), 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepWrites(Vec<StateOp>);

impl StepWrites {
    /// Creates an empty list.
    #[must_use]
    #[doc(hidden)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Iterates over the changes in order.
    pub fn iter(&self) -> std::slice::Iter<'_, StateOp> {
        self.0.iter()
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the changes in order, as a slice.
    #[must_use]
    #[doc(hidden)]
    pub fn as_slice(&self) -> &[StateOp] {
        &self.0
    }
}

impl From<Vec<StateOp>> for StepWrites {
    fn from(ops: Vec<StateOp>) -> Self {
        Self(ops)
    }
}

impl FromIterator<StateOp> for StepWrites {
    fn from_iter<I: IntoIterator<Item = StateOp>>(ops: I) -> Self {
        Self(ops.into_iter().collect())
    }
}

impl Extend<StateOp> for StepWrites {
    fn extend<I: IntoIterator<Item = StateOp>>(&mut self, ops: I) {
        self.0.extend(ops);
    }
}

impl IntoIterator for StepWrites {
    type Item = StateOp;
    type IntoIter = std::vec::IntoIter<StateOp>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a StepWrites {
    type Item = &'a StateOp;
    type IntoIter = std::slice::Iter<'a, StateOp>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks the stored form of every operation, and that a list is stored as its operations.
    ///
    /// proves: STT-05
    #[test]
    fn a_list_is_stored_as_its_operations() {
        let path = Pointer::from_segments(["a/b", ""]);
        let ops = vec![
            StateOp::Append {
                path: path.clone(),
                value: json!([1]),
            },
            StateOp::Replace {
                path: path.clone(),
                value: json!(null),
            },
            StateOp::Delete { path: path.clone() },
            StateOp::Increment {
                path: path.clone(),
                by: 2.into(),
            },
        ];
        let writes = StepWrites::from(ops.clone());
        let stored = json!([
            { "op": "append", "path": "/a~1b/", "value": [1] },
            { "op": "replace", "path": "/a~1b/", "value": null },
            { "op": "delete", "path": "/a~1b/" },
            { "op": "increment", "path": "/a~1b/", "by": 2 },
        ]);
        assert_eq!(serde_json::to_value(&writes).unwrap(), stored);
        assert_eq!(
            serde_json::from_value::<StepWrites>(stored).unwrap(),
            writes
        );

        assert_eq!((writes.len(), writes.is_empty()), (4, false));
        assert!(StepWrites::new().is_empty());
        assert_eq!(writes.as_slice(), ops);
        assert!(writes.iter().all(|op| op.path() == &path));
        assert_eq!(writes.into_iter().collect::<Vec<_>>(), ops);
        assert_eq!(
            ops.iter().cloned().collect::<StepWrites>(),
            StepWrites::from(ops)
        );
    }
}
