//! Changes as JSON Patch (RFC 6902), the form that clients read.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ArrayMode, Draft, Pointer, StateError, StateOp, apply::change_in_place};

/// One JSON Patch operation. State changes need three of the six that RFC 6902 has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
#[non_exhaustive]
pub enum PatchOp {
    /// Adds a key, or an element before the one `path` names; the segment `-` names the end.
    Add {
        /// The path of the new value.
        path: Pointer,
        /// The value to add.
        value: Value,
    },
    /// Removes a key or an element.
    Remove {
        /// The path to remove.
        path: Pointer,
    },
    /// Sets a value that already exists.
    Replace {
        /// The path to set.
        path: Pointer,
        /// The value to set.
        value: Value,
    },
}

/// Converts changes into JSON Patch operations for a client that has `base`.
///
/// The result is the net effect: one operation per changed place, one per appended element.
/// Existing values are replaced, others added, together with a missing parent. Increments become
/// the resulting number. The cost is that of the changes, not of the state.
///
/// ```
/// # use std::sync::Arc;
/// # use helix_agents_core::state::{StepWrites, to_rfc6902};
/// # use serde_json::json;
/// let base = Arc::new(json!({ "notes": [], "count": 1 }));
/// let writes: StepWrites = serde_json::from_value(json!([
///     { "op": "append", "path": "/notes", "value": "milk" },
///     { "op": "increment", "path": "/count", "by": 1 },
/// ]))?;
/// assert_eq!(
///     serde_json::to_value(to_rfc6902(&writes, &base)?)?,
///     json!([
///         { "op": "add", "path": "/notes/-", "value": "milk" },
///         { "op": "replace", "path": "/count", "value": 2 },
///     ]),
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The error of [`Draft::apply`] if the changes do not apply to `base`.
pub fn to_rfc6902<'a>(
    writes: impl IntoIterator<Item = &'a StateOp>,
    base: &Arc<Value>,
) -> Result<Vec<PatchOp>, StateError> {
    let mut draft = Draft::new(Arc::clone(base), ArrayMode::Delta);
    writes.into_iter().try_for_each(|op| draft.apply(op))?;
    Ok(draft.rfc6902_patches())
}

/// Applies JSON Patch operations to a state, in order and in place, as a client does.
///
/// All or nothing: on an error the state is unchanged.
///
/// # Errors
///
/// [`StateError::NotFound`] if the value to remove or replace, or the parent of the value to add,
/// does not exist; otherwise those of [`Draft::set`].
pub fn apply_patch(state: &mut Value, patches: &[PatchOp]) -> Result<(), StateError> {
    change_in_place(state, |draft| apply_all(draft, patches))
}

/// Applies JSON Patch operations to a draft, in order. On an error the earlier ones stay.
pub(crate) fn apply_all(draft: &mut Draft, patches: &[PatchOp]) -> Result<(), StateError> {
    patches.iter().try_for_each(|patch| apply_one(draft, patch))
}

fn apply_one(draft: &mut Draft, patch: &PatchOp) -> Result<(), StateError> {
    let not_found = |path: &Pointer| StateError::NotFound { path: path.clone() };
    match patch {
        PatchOp::Add { path, value } => {
            let Some(parent) = path.parent() else {
                return draft.set_json(path, value.clone());
            };
            match draft.trace(&parent).target() {
                None => Err(not_found(&parent)),
                Some(found) if found.is_array() => draft.insert_json(path, value.clone()),
                Some(_) => draft.set_json(path, value.clone()),
            }
        }
        PatchOp::Remove { path } => {
            if draft.remove_at(path)? {
                Ok(())
            } else {
                Err(not_found(path))
            }
        }
        PatchOp::Replace { path, value } => match draft.trace(path).target() {
            None => Err(not_found(path)),
            Some(_) => draft.set_json(path, value.clone()),
        },
    }
}
