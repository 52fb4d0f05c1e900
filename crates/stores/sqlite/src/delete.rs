//! Deletes a session with all of its rows.

use helix_agents_core::SessionId;
use rusqlite::{Connection, OptionalExtension};

use crate::content::{self, ValueKind};
use crate::key::OwnerId;
use crate::operation_error::OperationError;
use crate::origins;

/// The kinds of values that belong to a session.
const KINDS: [ValueKind; 9] = [
    ValueKind::Header,
    ValueKind::Entry,
    ValueKind::State,
    ValueKind::OpenStep,
    ValueKind::Pending,
    ValueKind::Run,
    ValueKind::Usage,
    ValueKind::Staged,
    ValueKind::Child,
];

/// Statements that delete rows by the bounds of their keys.
const BY_KEY: [&str; 7] = [
    "DELETE FROM entry WHERE at BETWEEN ? AND ?",
    "DELETE FROM state WHERE at BETWEEN ? AND ?",
    "DELETE FROM usage WHERE at BETWEEN ? AND ?",
    "DELETE FROM run WHERE at BETWEEN ? AND ?",
    "DELETE FROM checkpoint WHERE at BETWEEN ? AND ?",
    "DELETE FROM child WHERE at BETWEEN ? AND ?",
    "DELETE FROM staged WHERE at BETWEEN ? AND ?",
];

/// Statements that delete rows by the number of their session.
const BY_SESSION: [&str; 5] = [
    "DELETE FROM answered WHERE session = ?",
    "DELETE FROM label WHERE session = ?",
    "DELETE FROM retired_call WHERE session = ?",
    "DELETE FROM pending WHERE session = ?",
    "DELETE FROM session WHERE id = ?",
];

/// Deletes a session, and its stream if it is a root.
pub(crate) fn session(
    conn: &Connection,
    session: OwnerId,
    name: &SessionId,
) -> Result<(), OperationError> {
    for sql in BY_KEY {
        conn.prepare_cached(sql)?
            .execute([session.first(), session.last()])?;
    }
    for sql in BY_SESSION {
        conn.prepare_cached(sql)?.execute([session])?;
    }
    for kind in KINDS {
        content::release_range(conn, session, kind, i64::MIN, i64::MAX)?;
    }
    stream(conn, name)
}

/// Deletes the stream of a root, if there is one.
fn stream(conn: &Connection, root: &SessionId) -> Result<(), OperationError> {
    let stream: Option<OwnerId> = conn
        .prepare_cached("DELETE FROM stream WHERE root = ? RETURNING id")?
        .query_row([root.as_str()], |row| row.get(0))
        .optional()?;
    let Some(stream) = stream else {
        return Ok(());
    };
    conn.prepare_cached("DELETE FROM chunk WHERE at BETWEEN ? AND ?")?
        .execute([stream.first(), stream.last()])?;
    origins::remove(conn, stream)?;
    content::release_range(conn, stream, ValueKind::Chunk, i64::MIN, i64::MAX)
}
