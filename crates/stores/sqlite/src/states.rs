//! The versions of a state: whole ones, and between them the writes that made a version.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::state::{StepWrites, apply_writes};
use helix_agents_core::store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};

use crate::content::{self, Holder, Kind};
use crate::error::Fail;
use crate::json;
use crate::key::Owner;

/// After so many versions by writes a whole state is kept.
const WHOLE_EVERY: usize = 64;

/// A version, and how it is made up.
struct Version {
    value: Value,
    /// The size of the whole state it starts from.
    whole: usize,
    /// The size and number of the writes since.
    writes: usize,
    count: usize,
}

impl Version {
    /// What a session has before its first version.
    fn none() -> Self {
        Self {
            value: Value::Object(Map::new()),
            whole: 0,
            writes: 0,
            count: 0,
        }
    }
}

/// Keeps a whole state.
pub(crate) fn set(
    conn: &Connection,
    session: Owner,
    version: u64,
    value: &Value,
) -> Result<(), Fail> {
    write(conn, session, version, true, json::text("state", value)?)
}

/// Keeps the version that these writes make of the one before.
pub(crate) fn apply(
    conn: &Connection,
    (session, name): (Owner, &SessionId),
    version: u64,
    writes: &StepWrites,
) -> Result<(), Fail> {
    let before = read(conn, session, version.saturating_sub(1))?;
    let mut before = before.unwrap_or_else(Version::none);
    apply_writes(&mut before.value, writes).map_err(|source| StoreError::State {
        session: name.clone(),
        source,
    })?;
    let text = json::text("writes", writes)?;
    // A state that is no larger than the writes since its last whole version is kept whole again:
    // reading any version costs at most twice its size.
    if before.count + 1 >= WHOLE_EVERY || before.writes + text.len() >= before.whole {
        return set(conn, session, version, &before.value);
    }
    write(conn, session, version, false, text)
}

/// Makes an earlier version the next one.
pub(crate) fn rewind(
    conn: &Connection,
    (session, name): (Owner, &SessionId),
    version: u64,
    to: u64,
) -> Result<(), Fail> {
    let value = at(conn, session, to)?;
    let value = value.ok_or_else(|| no_version(name, to))?;
    set(conn, session, version, &value)
}

/// There is no such version.
pub(crate) fn no_version(session: &SessionId, version: u64) -> StoreError {
    StoreError::Invalid {
        session: session.clone(),
        reason: format!("its state has no version {version}"),
    }
}

fn write(
    conn: &Connection,
    session: Owner,
    version: u64,
    whole: bool,
    text: String,
) -> Result<(), Fail> {
    let key = session.row(version)?;
    let cell = content::put(conn, Holder::new(session, Kind::State, key), text)?;
    conn.prepare_cached("INSERT INTO state (at, whole, data) VALUES (?, ?, ?)")?
        .execute(params![key, whole, cell])?;
    Ok(())
}

/// A version of the state; `None` when there is no such version.
pub(crate) fn at(
    conn: &Connection,
    session: Owner,
    version: u64,
) -> Result<Option<Arc<Value>>, Fail> {
    let found = read(conn, session, version)?;
    Ok(found.map(|found| Arc::new(found.value)))
}

fn read(conn: &Connection, session: Owner, version: u64) -> Result<Option<Version>, Fail> {
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
                    .map_err(|error| Fail::corrupt("state", error.to_string()))?;
                let whole = text.len();
                found = Some(Version {
                    value,
                    whole,
                    ..Version::none()
                });
            }
            Some(version) => {
                let writes: StepWrites = serde_json::from_str(&text)
                    .map_err(|error| Fail::corrupt("writes", error.to_string()))?;
                apply_writes(&mut version.value, &writes)
                    .map_err(|error| Fail::corrupt("writes", error.to_string()))?;
                version.writes += text.len();
                version.count += 1;
            }
        }
    }
    // A version beyond the last one does not exist.
    Ok(found.filter(|_| last == key))
}
