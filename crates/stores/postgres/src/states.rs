//! The table `state`: versions of the state of a session, some of them whole, the others as the writes that made them
//! of the version before.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::state::{StepWrites, apply_writes};
use helix_agents_core::store::StoreError;
use helix_agents_core::stored::{StoredError, to_text};
use serde_json::Value;
use tokio_postgres::types::Type;

use crate::convert;
use crate::operation_error::OperationError;
use crate::remembered::KnownState;
use crate::store::Inner;

/// The weight of a row beside its text: the cost of reading it and the bytes around it.
const ROW: usize = 64;

/// A row to write, and the state that it makes.
pub(crate) struct StateRow {
    pub(crate) is_whole: bool,
    pub(crate) data: Vec<u8>,
    pub(crate) known: KnownState,
}

/// The row of a version as a whole value.
pub(crate) fn whole(version: u64, value: Arc<Value>) -> Result<StateRow, StoredError> {
    let data = to_text("state", &*value)?.into_bytes();
    Ok(StateRow {
        is_whole: true,
        known: KnownState {
            version,
            value,
            whole: data.len(),
            writes: 0,
        },
        data,
    })
}

/// The row of the version that these writes make of the one before.
///
/// When the writes since the last whole version weigh as much as that, the state is stored whole again. So a version
/// costs a few times its own writes, however large the state has become, and reading one about twice the state it
/// starts from.
pub(crate) fn applied(
    session: &SessionId,
    mut before: KnownState,
    version: u64,
    writes: &StepWrites,
) -> Result<StateRow, OperationError> {
    apply_writes(Arc::make_mut(&mut before.value), writes).map_err(|source| {
        let session = session.clone();
        StoreError::State { session, source }
    })?;
    let data = convert::document(writes)?;
    let weight = before.writes + data.len() + ROW;
    if weight >= before.whole {
        return Ok(whole(version, before.value)?);
    }
    Ok(StateRow {
        is_whole: false,
        known: KnownState {
            version,
            writes: weight,
            ..before
        },
        data,
    })
}

/// The error for a version that does not exist.
pub(crate) fn no_version(session: &SessionId, version: u64) -> StoreError {
    StoreError::Invalid {
        session: session.clone(),
        reason: format!("its state has no version {version}"),
    }
}

/// Reads a version of the state of the session with this number; `None` when it does not exist.
pub(crate) async fn read(
    on: &Inner,
    session: i64,
    version: u64,
) -> Result<Option<KnownState>, OperationError> {
    let rows = on
        .database
        .read(
            "SELECT version, data FROM @state WHERE session = $1 AND version <= $2 AND version >= \
             (SELECT max(version) FROM @state WHERE session = $1 AND version <= $2 AND whole) \
             ORDER BY version",
            &[
                (&session, Type::INT8),
                (&convert::signed(version), Type::INT8),
            ],
        )
        .await?;
    let last = rows
        .last()
        .map(|row| row.try_get::<_, i64>(0))
        .transpose()?;
    if last != Some(convert::signed(version)) {
        return Ok(None);
    }
    let texts: Result<Vec<&[u8]>, _> = rows.iter().map(|row| row.try_get(1)).collect();
    Ok(Some(made_of(version, &texts?)?))
}

/// The state that a whole value and the writes after it make.
pub(crate) fn made_of(version: u64, rows: &[&[u8]]) -> Result<KnownState, StoredError> {
    let corrupt = |reason: String| convert::corrupt("state", reason);
    let (first, rest) = rows
        .split_first()
        .ok_or_else(|| corrupt("it has no rows".to_owned()))?;
    let mut value: Value =
        serde_json::from_slice(first).map_err(|error| corrupt(error.to_string()))?;
    let mut weight = 0;
    for row in rest {
        let writes: StepWrites = convert::parse(row)?;
        apply_writes(&mut value, &writes).map_err(|error| corrupt(error.to_string()))?;
        weight += row.len() + ROW;
    }
    Ok(KnownState {
        version,
        value: Arc::new(value),
        whole: first.len(),
        writes: weight,
    })
}
