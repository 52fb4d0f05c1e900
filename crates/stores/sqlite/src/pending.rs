//! The table `pending`: calls that wait for a client or a person, and their answers.

use std::collections::BTreeMap;

use helix_agents_core::CallId;
use helix_agents_core::session::{Answer, PendingCall};
use helix_agents_core::stored::decode;
use rusqlite::{Connection, OptionalExtension, params};

use crate::content::{self, RowRef, ValueKind};
use crate::json;
use crate::key::{OwnerId, millis, parse_column};
use crate::operation_error::OperationError;

/// Inserts a pending call, or replaces the one of the same id. `user` is the owner of the session.
pub(crate) fn put(
    conn: &Connection,
    session: OwnerId,
    user: Option<&str>,
    call: &PendingCall,
) -> Result<(), OperationError> {
    remove(conn, session, &call.tool_call_id)?;
    conn.prepare_cached(
        "INSERT INTO pending (session, name, call, root, user, created, open, data) \
         VALUES (?, ?, ?, ?, ?, ?, ?, '')",
    )?
    .execute(params![
        session,
        call.session_id.as_str(),
        call.tool_call_id.as_str(),
        call.root_session_id.as_str(),
        user,
        millis(call.created_at),
        call.answer.is_none(),
    ])?;
    write(conn, session, conn.last_insert_rowid(), call)
}

fn write(
    conn: &Connection,
    session: OwnerId,
    id: i64,
    call: &PendingCall,
) -> Result<(), OperationError> {
    let holder = RowRef::new(session, ValueKind::Pending, id);
    let cell = content::put(conn, holder, json::stored(call)?)?;
    conn.prepare_cached("UPDATE pending SET data = ? WHERE id = ?")?
        .execute(params![cell, id])?;
    Ok(())
}

/// Adds the answer to a pending call. Does nothing when there is no such call.
pub(crate) fn answer(
    conn: &Connection,
    session: OwnerId,
    call: &CallId,
    answer: Answer,
) -> Result<(), OperationError> {
    let found = conn
        .prepare_cached("SELECT id, data FROM pending WHERE session = ? AND call = ?")?
        .query_row(params![session, call.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((id, data)) = found else {
        return Ok(());
    };
    let mut pending: PendingCall = decode(&content::get(conn, data)?)?;
    pending.answer = Some(answer);
    content::release(conn, RowRef::new(session, ValueKind::Pending, id))?;
    conn.prepare_cached("UPDATE pending SET open = 0 WHERE id = ?")?
        .execute([id])?;
    write(conn, session, id, &pending)
}

/// Deletes a pending call, if there is one of this id.
pub(crate) fn remove(
    conn: &Connection,
    session: OwnerId,
    call: &CallId,
) -> Result<(), OperationError> {
    let removed: Option<(i64, bool)> = conn
        .prepare_cached(
            "DELETE FROM pending WHERE session = ? AND call = ? \
             RETURNING id, typeof(data) = 'blob'",
        )?
        .query_row(params![session, call.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    match removed {
        Some((id, true)) => content::release(conn, RowRef::new(session, ValueKind::Pending, id)),
        _ => Ok(()),
    }
}

/// The pending calls of a session, answered ones included.
pub(crate) fn of_session(
    conn: &Connection,
    session: OwnerId,
) -> Result<BTreeMap<CallId, PendingCall>, OperationError> {
    let mut statement = conn.prepare_cached("SELECT call, data FROM pending WHERE session = ?")?;
    let mut rows = statement.query([session])?;
    let mut calls = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let pending = decode(&content::get(conn, row.get(1)?)?)?;
        calls.insert(parse_column(row, 0)?, pending);
    }
    Ok(calls)
}
