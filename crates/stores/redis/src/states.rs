//! The versions of a state: some whole, the others as the writes that made them of the version before.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::state::{StepWrites, apply_writes};
use helix_agents_core::store::StoreError;
use helix_agents_core::stored::{decode, encode};
use serde_json::Value;

use crate::documents::StoredState;
use crate::failure::{Failure, Result};
use crate::head::StatePlace;
use crate::remembered::KnownState;

/// The weight of a version beside its writes.
const VERSION: usize = 64;

/// The field with a version.
pub(crate) fn field(version: u64) -> String {
    format!("s:{version}")
}

/// The fields with the versions that make the current one.
pub(crate) fn fields(place: &StatePlace, version: u64) -> Vec<String> {
    (place.from..=version).map(field).collect()
}

/// Makes a state of its last whole version and the writes since then; `None` if one of them is missing.
pub(crate) fn rebuilt(texts: impl IntoIterator<Item = Option<String>>) -> Result<Option<Value>> {
    let mut state = None;
    for text in texts {
        let Some(text) = text else { return Ok(None) };
        match (decode(&text)?, &mut state) {
            (StoredState::Whole(value), state) => *state = Some(Arc::unwrap_or_clone(value)),
            (StoredState::Writes { .. }, None) => return Ok(None),
            (StoredState::Writes { writes, .. }, Some(state)) => apply_writes(state, &writes)
                .map_err(|error| Failure::corrupt("state", error.to_string()))?,
        }
    }
    Ok(state)
}

/// A version that is stored whole: its document, and the state.
pub(crate) fn whole(
    place: &mut StatePlace,
    version: u64,
    value: Arc<Value>,
) -> Result<(String, KnownState)> {
    let text = encode(&StoredState::Whole(Arc::clone(&value)))?;
    *place = StatePlace {
        from: version,
        whole: text.len(),
        writes: 0,
    };
    let state = KnownState {
        version,
        bytes: text.len(),
        value: Arc::unwrap_or_clone(value),
    };
    Ok((text, state))
}

/// The version that writes make of the one before: its document, and the state.
///
/// When the writes since the last whole version weigh as much as that, the state is stored whole again. So a version
/// costs a few times its own writes, however large the state has become.
pub(crate) fn applied(
    place: &mut StatePlace,
    session: &SessionId,
    mut state: KnownState,
    version: u64,
    writes: StepWrites,
) -> Result<(String, KnownState)> {
    apply_writes(&mut state.value, &writes).map_err(|source| StoreError::State {
        session: session.clone(),
        source,
    })?;
    let from = place.from;
    let text = encode(&StoredState::Writes { from, writes })?;
    place.writes += text.len() + VERSION;
    if place.writes >= place.whole.max(VERSION * 8) {
        return whole(place, version, Arc::new(state.value));
    }
    state.version = version;
    state.bytes += text.len();
    Ok((text, state))
}

/// The error for a version that does not exist.
pub(crate) fn no_version(session: &SessionId, version: u64) -> StoreError {
    StoreError::Invalid {
        session: session.clone(),
        reason: format!("its state has no version {version}"),
    }
}

/// The whole version from which a stored version is made; `None` if it is whole itself.
pub(crate) fn begins(text: &str) -> Result<Option<u64>> {
    Ok(match decode(text)? {
        StoredState::Whole(_) => None,
        StoredState::Writes { from, .. } => Some(from),
    })
}
