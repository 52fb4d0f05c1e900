//! Applies writes to a state.

use std::mem;

use serde_json::Value;

use super::{ArrayMode, Draft, StateError, StateOp};

/// Applies writes to a state, in order and in place.
///
/// All or nothing: on an error the state is unchanged. The cost is that of the writes,
/// not of the state.
///
/// # Errors
///
/// The error of [`Draft::apply`] for the first write that cannot be made.
pub fn apply_writes<'a>(
    state: &mut Value,
    writes: impl IntoIterator<Item = &'a StateOp>,
) -> Result<(), StateError> {
    change_in_place(state, |draft| {
        writes.into_iter().try_for_each(|op| draft.apply(op))
    })
}

/// Makes changes on a draft of the state, and applies them only if all succeed.
pub(super) fn change_in_place(
    state: &mut Value,
    change: impl FnOnce(&mut Draft) -> Result<(), StateError>,
) -> Result<(), StateError> {
    let mut draft = Draft::new(mem::take(state), ArrayMode::Delta);
    let result = change(&mut draft);
    *state = if result.is_ok() {
        draft.into_value()
    } else {
        draft.into_base()
    };
    result
}
