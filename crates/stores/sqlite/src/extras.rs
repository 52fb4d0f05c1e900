//! The tables `child`, `staged` and `retired_call`: children, staged writes and retired call ids.

use std::collections::BTreeMap;

use helix_agents_core::session::SubSessionRef;
use helix_agents_core::state::StepWrites;
use helix_agents_core::store::{SessionExtras, SessionKey, Staged, Unstage};
use helix_agents_core::stored::decode;
use helix_agents_core::{CallId, StepId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::content::{self, RowRef, ValueKind};
use crate::headers;
use crate::json;
use crate::key::{OwnerId, parse_column};
use crate::operation_error::OperationError;
use crate::runs::next_key;

/// Inserts a child, or replaces the one of the same session id.
pub(crate) fn put_child(
    conn: &Connection,
    session: OwnerId,
    child: &SubSessionRef,
) -> Result<(), OperationError> {
    let key = match key_of(conn, session, child)? {
        Some(key) => key,
        None => next_key(
            conn,
            session,
            "SELECT max(at) FROM child WHERE at BETWEEN ? AND ?",
        )?,
    };
    write_child(conn, session, key, child)
}

/// Replaces the child of the same session id, if there is one.
pub(crate) fn update_child(
    conn: &Connection,
    session: OwnerId,
    child: &SubSessionRef,
) -> Result<(), OperationError> {
    match key_of(conn, session, child)? {
        Some(key) => write_child(conn, session, key, child),
        None => Ok(()),
    }
}

/// The key of the child of the same session id.
fn key_of(
    conn: &Connection,
    session: OwnerId,
    child: &SubSessionRef,
) -> Result<Option<i64>, OperationError> {
    let name = child.session_id.as_str();
    let key = conn
        .prepare_cached("SELECT at FROM child WHERE name = ? AND at BETWEEN ? AND ?")?
        .query_row(params![name, session.first(), session.last()], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(key)
}

fn write_child(
    conn: &Connection,
    session: OwnerId,
    key: i64,
    child: &SubSessionRef,
) -> Result<(), OperationError> {
    let name = child.session_id.as_str();
    let cell = content::put(
        conn,
        RowRef::new(session, ValueKind::Child, key),
        json::stored(child)?,
    )?;
    conn.prepare_cached("INSERT OR REPLACE INTO child (at, name, data) VALUES (?, ?, ?)")?
        .execute(params![key, name, cell])?;
    Ok(())
}

/// Deletes the children of these calls.
pub(crate) fn remove_children(
    conn: &Connection,
    session: OwnerId,
    calls: &[CallId],
) -> Result<(), OperationError> {
    let mut removed: Vec<i64> = Vec::new();
    let mut statement =
        conn.prepare_cached("SELECT at, data FROM child WHERE at BETWEEN ? AND ?")?;
    let mut rows = statement.query([session.first(), session.last()])?;
    while let Some(row) = rows.next()? {
        let child: SubSessionRef = decode(&content::get(conn, row.get(1)?)?)?;
        if calls.contains(&child.tool_call_id) {
            removed.push(row.get(0)?);
        }
    }
    for key in removed {
        content::release(conn, RowRef::new(session, ValueKind::Child, key))?;
        conn.prepare_cached("DELETE FROM child WHERE at = ?")?
            .execute([key])?;
    }
    Ok(())
}

/// Inserts the staged writes of a call, or replaces them.
pub(crate) fn stage(
    conn: &Connection,
    session: OwnerId,
    step: &StepId,
    call: &CallId,
    writes: &StepWrites,
) -> Result<(), OperationError> {
    let (step, call) = (step.as_str(), call.as_str());
    let known: Option<i64> = conn
        .prepare_cached("SELECT at FROM staged WHERE at BETWEEN ? AND ? AND step = ? AND call = ?")?
        .query_row(
            params![session.first(), session.last(), step, call],
            |row| row.get(0),
        )
        .optional()?;
    let key = match known {
        Some(key) => key,
        None => next_key(
            conn,
            session,
            "SELECT max(at) FROM staged WHERE at BETWEEN ? AND ?",
        )?,
    };
    let holder = RowRef::new(session, ValueKind::Staged, key);
    content::release(conn, holder)?;
    let cell = content::put(conn, holder, json::stored(writes)?)?;
    conn.prepare_cached(
        "INSERT OR REPLACE INTO staged (at, step, call, data) VALUES (?, ?, ?, ?)",
    )?
    .execute(params![key, step, call, cell])?;
    Ok(())
}

/// Deletes the staged writes that `which` selects.
pub(crate) fn unstage(
    conn: &Connection,
    session: OwnerId,
    which: &Unstage,
) -> Result<(), OperationError> {
    let (sql, step) = match which {
        Unstage::Step(step) => (
            "DELETE FROM staged WHERE at BETWEEN ? AND ? AND step = ? RETURNING at",
            Some(step),
        ),
        Unstage::AllBut(step) => (
            "DELETE FROM staged WHERE at BETWEEN ? AND ? AND step IS NOT ? RETURNING at",
            step.as_ref(),
        ),
    };
    let step = step.map(StepId::as_str);
    let keys: Vec<i64> = conn
        .prepare_cached(sql)?
        .query_map(params![session.first(), session.last(), step], |row| {
            row.get(0)
        })?
        .collect::<Result<_, _>>()?;
    for key in keys {
        content::release(conn, RowRef::new(session, ValueKind::Staged, key))?;
    }
    Ok(())
}

/// Reads the children, staged writes and retired call ids of a session.
pub(crate) fn read(
    conn: &Connection,
    session: SessionKey<'_>,
) -> Result<SessionExtras, OperationError> {
    let Some(owner) = headers::owner(conn, session)? else {
        return Ok(SessionExtras::default());
    };
    let bounds = [owner.first(), owner.last()];
    let mut children = Vec::new();
    let mut statement =
        conn.prepare_cached("SELECT data FROM child WHERE at BETWEEN ? AND ? ORDER BY at")?;
    let mut rows = statement.query(bounds)?;
    while let Some(row) = rows.next()? {
        children.push(decode(&content::get(conn, row.get(0)?)?)?);
    }
    let mut staged: BTreeMap<StepId, Vec<Staged>> = BTreeMap::new();
    let mut statement = conn.prepare_cached(
        "SELECT step, call, data FROM staged WHERE at BETWEEN ? AND ? ORDER BY at",
    )?;
    let mut rows = statement.query(bounds)?;
    while let Some(row) = rows.next()? {
        let writes = decode(&content::get(conn, row.get(2)?)?)?;
        let kept = Staged::new(parse_column(row, 1)?, writes);
        staged.entry(parse_column(row, 0)?).or_default().push(kept);
    }
    let retired = conn
        .prepare_cached("SELECT id FROM retired_call WHERE session = ? ORDER BY id")?
        .query_map([owner], |row| parse_column(row, 0))?
        .collect::<Result<_, _>>()?;
    Ok(SessionExtras {
        children,
        staged,
        retired_call_ids: retired,
    })
}

/// Marks call ids as used, so that no later call gets one of them.
pub(crate) fn retire<'a>(
    conn: &Connection,
    session: OwnerId,
    ids: impl Iterator<Item = &'a CallId>,
) -> Result<(), OperationError> {
    for id in ids {
        conn.prepare_cached("INSERT OR IGNORE INTO retired_call VALUES (?, ?)")?
            .execute(params![session, id.as_str()])?;
    }
    Ok(())
}
