//! Which values a state may contain.

mod compound;
mod serializer;

use serde::Serialize;
use serde_json::Value;

use self::serializer::{Refusal, Strict};
use super::{JsonKind, Pointer, StateError};
use crate::bounds::{MAX_DEPTH, fits};

/// Converts a value to JSON and rejects what JSON cannot represent.
///
/// Unlike [`serde_json::to_value`], which silently writes `null` for NaN and the infinities, this
/// loses nothing silently. The keys of maps may be strings and, as in `serde_json`, anything with
/// one obvious spelling: integers, finite floats, booleans, characters, unit variants.
///
/// ```
/// use helix_agents_core::state::to_json;
///
/// let error = to_json([("ratio", f64::NAN)]).unwrap_err();
/// assert!(error.to_string().starts_with("the value at `/0/1` has no JSON form"));
/// ```
///
/// # Errors
///
/// [`StateError::NotJson`] with the path to the offending part, [`StateError::TooDeep`] for a value
/// that has more than [`MAX_DEPTH`] levels, as one that contains itself has.
pub fn to_json(value: impl Serialize) -> Result<Value, StateError> {
    value
        .serialize(Strict { levels: MAX_DEPTH })
        .map_err(|refusal| match refusal {
            Refusal::TooDeep => StateError::TooDeep {
                path: Pointer::root(),
            },
            Refusal::NotJson { path, reason } => StateError::NotJson {
                path: Pointer::from_segments(path.iter().rev()),
                reason,
            },
        })
}

/// Checks that a value, at `path` or in an array at `path`, with this many levels above it, keeps
/// the state within [`MAX_DEPTH`].
pub(super) fn check_depth(path: &Pointer, above: usize, value: &Value) -> Result<(), StateError> {
    let levels = MAX_DEPTH.checked_sub(above);
    if levels.is_some_and(|levels| fits(value, levels)) {
        Ok(())
    } else {
        Err(StateError::TooDeep { path: path.clone() })
    }
}

/// Checks that a whole value can be stored as a state: its root is an object, and it is not too deep.
pub(crate) fn check_whole(value: &Value) -> Result<(), StateError> {
    check_state(value)?;
    check_depth(&Pointer::root(), 0, value)
}

/// Checks that a value can be a state, which means that its root is an object.
///
/// # Errors
///
/// [`StateError::RootNotObject`] otherwise.
pub fn check_state(value: &Value) -> Result<(), StateError> {
    match value {
        Value::Object(_) => Ok(()),
        other => Err(StateError::RootNotObject {
            found: JsonKind::from(other),
        }),
    }
}
