//! The table `state`: versions of the state of a session, some of them whole, the others as the writes
//! that made them of the version before.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::state::{StepWrites, apply_writes};
use helix_agents_core::store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use crate::content::{self, RowRef, ValueKind};
use crate::json;
use crate::key::OwnerId;
use crate::operation_error::OperationError;
use crate::state_cache::Version;
use crate::write_connection::WriteConnection;

/// The weight of a row beside its text: the cost of reading it and the bytes around it.
const ROW: usize = 64;

/// Inserts a version as a whole value.
pub(crate) fn set(
    conn: &Connection,
    session: OwnerId,
    version: u64,
    value: &Value,
) -> Result<(), OperationError> {
    write(conn, session, version, true, json::text("state", value)?)
}

/// Inserts the version that these writes make of the one before.
pub(crate) fn apply(
    db: &WriteConnection,
    (session, name): (OwnerId, &SessionId),
    version: u64,
    writes: &StepWrites,
) -> Result<(), OperationError> {
    let conn = &db.conn;
    let before = version.saturating_sub(1);
    let known = db.states.borrow_mut().take(session, before);
    let mut state = match known {
        Some(known) => known,
        None => read(conn, session, before)?.ok_or_else(|| no_version(name, before))?,
    };
    apply_writes(&mut state.value, writes).map_err(|source| StoreError::State {
        session: name.clone(),
        source,
    })?;
    let text = json::text("writes", writes)?;
    state.writes += text.len() + ROW;
    // When the writes since the last whole version weigh as much as that, the state is stored whole
    // again. So a version costs a few times its own writes, however large the state has become, and
    // reading one about twice the state it starts from.
    if state.writes >= state.whole {
        let text = json::text("state", &state.value)?;
        (state.whole, state.writes) = (text.len(), 0);
        write(conn, session, version, true, text)?;
    } else {
        write(conn, session, version, false, text)?;
    }
    db.states.borrow_mut().put(session, version, state);
    Ok(())
}

/// Inserts a version with the value of an earlier one.
pub(crate) fn rewind(
    conn: &Connection,
    (session, name): (OwnerId, &SessionId),
    version: u64,
    to: u64,
) -> Result<(), OperationError> {
    let value = at(conn, session, to)?;
    let value = value.ok_or_else(|| no_version(name, to))?;
    set(conn, session, version, &value)
}

/// The error for a version that does not exist.
pub(crate) fn no_version(session: &SessionId, version: u64) -> StoreError {
    StoreError::Invalid {
        session: session.clone(),
        reason: format!("its state has no version {version}"),
    }
}

fn write(
    conn: &Connection,
    session: OwnerId,
    version: u64,
    whole: bool,
    text: String,
) -> Result<(), OperationError> {
    let key = session.row(version)?;
    let cell = content::put(conn, RowRef::new(session, ValueKind::State, key), text)?;
    conn.prepare_cached("INSERT INTO state (at, whole, data) VALUES (?, ?, ?)")?
        .execute(params![key, whole, cell])?;
    Ok(())
}

/// Reads a version of the state; `None` when it does not exist.
pub(crate) fn at(
    conn: &Connection,
    session: OwnerId,
    version: u64,
) -> Result<Option<Arc<Value>>, OperationError> {
    let found = read(conn, session, version)?;
    Ok(found.map(|found| Arc::new(found.value)))
}

fn read(
    conn: &Connection,
    session: OwnerId,
    version: u64,
) -> Result<Option<Version>, OperationError> {
    let key = session.bound(version);
    let from: Option<i64> = conn
        .prepare_cached(
            "SELECT at FROM state WHERE at BETWEEN ? AND ? AND whole = 1 \
             ORDER BY at DESC LIMIT 1",
        )?
        .query_row([session.first(), key], |row| row.get(0))
        .optional()?;
    let Some(from) = from else {
        return Ok(None);
    };
    let mut statement =
        conn.prepare_cached("SELECT at, data FROM state WHERE at BETWEEN ? AND ? ORDER BY at")?;
    let mut rows = statement.query([from, key])?;
    let mut found: Option<Version> = None;
    let mut last = 0;
    while let Some(row) = rows.next()? {
        last = row.get(0)?;
        let text = content::get(conn, row.get(1)?)?;
        match &mut found {
            None => {
                let value = serde_json::from_str(&text)
                    .map_err(|error| OperationError::corrupt("state", error.to_string()))?;
                let whole = text.len();
                found = Some(Version {
                    value,
                    whole,
                    writes: 0,
                });
            }
            Some(version) => {
                let writes: StepWrites = serde_json::from_str(&text)
                    .map_err(|error| OperationError::corrupt("writes", error.to_string()))?;
                apply_writes(&mut version.value, &writes)
                    .map_err(|error| OperationError::corrupt("writes", error.to_string()))?;
                version.writes += text.len() + ROW;
            }
        }
    }
    // A version beyond the last one does not exist.
    Ok(found.filter(|_| last == key))
}
