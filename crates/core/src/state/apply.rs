//! Bringing changes into a state.

use std::mem;

use serde_json::Value;

use super::{ArrayMode, Draft, StateError, StateOp};

/// Applies changes to a state, in order and in place.
///
/// It is all or nothing: on an error the state is as it was. The cost is that of the changes, not
/// of the state.
///
/// # Errors
///
/// What [`Draft::apply`] says about the first change that cannot be made.
pub fn apply_writes<'a>(
    state: &mut Value,
    writes: impl IntoIterator<Item = &'a StateOp>,
) -> Result<(), StateError> {
    change_in_place(state, |draft| {
        writes.into_iter().try_for_each(|op| draft.apply(op))
    })
}

/// Runs changes on a draft of the state, and brings them in only when all went well.
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
