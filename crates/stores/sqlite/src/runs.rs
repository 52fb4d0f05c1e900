//! The table `run`, and the short references to runs in other rows.

use std::collections::BTreeMap;

use helix_agents_core::RunId;
use helix_agents_core::session::RunRecord;
use helix_agents_core::store::{Lookup, Page, PageRoom, Paged, SessionKey};
use helix_agents_core::stored::{Stored, decode};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Rows, ToSql, params};
use serde::{Deserialize, Serialize};

use crate::content::{self, Cell, RowRef, ValueKind};
use crate::headers;
use crate::json;
use crate::key::{OwnerId, parse_column, signed, size, unsigned, wide};
use crate::operation_error::OperationError;
use crate::write_cache::RunRow;
use crate::write_connection::WriteConnection;

/// A reference to a run in another row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum RunNumber {
    /// The number of its row in the session.
    Number(u64),
    /// Its id, if the run had no row when the reference was written.
    Id(RunId),
}

impl ToSql for RunNumber {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Number(number) => signed(*number).into(),
            Self::Id(id) => id.as_str().into(),
        })
    }
}

impl FromSql for RunNumber {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Integer(number) => Ok(Self::Number(unsigned(number))),
            other => RunId::new(other.as_str()?)
                .map(Self::Id)
                .map_err(|error| FromSqlError::Other(Box::new(error))),
        }
    }
}

/// The reference to a run for another row.
pub(crate) fn number(
    db: &WriteConnection,
    session: OwnerId,
    run: &RunId,
) -> Result<RunNumber, OperationError> {
    Ok(match row_of(db, session, run)? {
        Some((key, _)) => RunNumber::Number(session.number(key)),
        // The run may be inserted later in the same commit.
        None => RunNumber::Id(run.clone()),
    })
}

/// The key of a run, and whether large parts of it are in the table `blob`.
fn row_of(
    db: &WriteConnection,
    session: OwnerId,
    run: &RunId,
) -> Result<Option<(i64, bool)>, OperationError> {
    if let Some(row) = db.cache.borrow().run(session, run) {
        return Ok(Some((row.key, row.is_split)));
    }
    let row = db
        .conn
        .prepare_cached(
            "SELECT at, typeof(data) = 'blob' FROM run WHERE id = ? AND at BETWEEN ? AND ?",
        )?
        .query_row(
            params![run.as_str(), session.first(), session.last()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    if let Some((key, is_split)) = row {
        remember(db, session, run, key, is_split);
    }
    Ok(row)
}

/// Puts the row of a run into the cache.
fn remember(db: &WriteConnection, session: OwnerId, run: &RunId, key: i64, is_split: bool) {
    let id = run.clone();
    let row = RunRow { id, key, is_split };
    db.cache.borrow_mut().put_run(session, row);
}

/// Resolves references to runs of a session. Each run is read once.
pub(crate) struct Runs<'a> {
    conn: &'a Connection,
    session: OwnerId,
    known: BTreeMap<u64, RunId>,
}

impl<'a> Runs<'a> {
    pub(crate) fn new(conn: &'a Connection, session: OwnerId) -> Self {
        Self {
            conn,
            session,
            known: BTreeMap::new(),
        }
    }

    pub(crate) fn id(&mut self, run: RunNumber) -> Result<RunId, OperationError> {
        let number = match run {
            RunNumber::Id(id) => return Ok(id),
            RunNumber::Number(number) => number,
        };
        if let Some(id) = self.known.get(&number) {
            return Ok(id.clone());
        }
        let id: RunId = self
            .conn
            .prepare_cached("SELECT id FROM run WHERE at = ?")?
            .query_row([self.session.row(number)?], |row| parse_column(row, 0))?;
        self.known.insert(number, id.clone());
        Ok(id)
    }
}

/// The next free key of a table whose rows are numbered from 1. `sql` selects the largest key.
pub(crate) fn next_key(
    conn: &Connection,
    session: OwnerId,
    sql: &str,
) -> Result<i64, OperationError> {
    let last: Option<i64> = conn
        .prepare_cached(sql)?
        .query_row([session.first(), session.last()], |row| row.get(0))?;
    let number = last.map_or(0, |key| session.number(key));
    session.row(number + 1)
}

/// Inserts a run, or replaces the one of the same id.
pub(crate) fn put(
    db: &WriteConnection,
    session: OwnerId,
    run: &RunRecord,
) -> Result<(), OperationError> {
    let conn = &db.conn;
    let (key, is_known, is_split) = match row_of(db, session, &run.id)? {
        Some((key, is_split)) => (key, true, is_split),
        None => {
            let last = "SELECT max(at) FROM run WHERE at BETWEEN ? AND ?";
            (next_key(conn, session, last)?, false, false)
        }
    };
    let holder = RowRef::new(session, ValueKind::Run, key);
    if is_split {
        content::release(conn, holder)?;
    }
    let cell = content::put(conn, holder, json::stored(run)?)?;
    if is_known {
        // Its id stays, and so does the index over ids.
        conn.prepare_cached("UPDATE run SET data = ? WHERE at = ?")?
            .execute(params![cell, key])?;
    } else {
        conn.prepare_cached("INSERT INTO run (at, id, data) VALUES (?, ?, ?)")?
            .execute(params![key, run.id.as_str(), cell])?;
    }
    let is_split = matches!(cell, Cell::Split(_));
    remember(db, session, &run.id, key, is_split);
    Ok(())
}

/// Reads a run by its id.
pub(crate) fn find(
    conn: &Connection,
    session: OwnerId,
    run: &RunId,
) -> Result<Option<RunRecord>, OperationError> {
    let data = conn
        .prepare_cached("SELECT data FROM run WHERE id = ? AND at BETWEEN ? AND ?")?
        .query_row(
            params![run.as_str(), session.first(), session.last()],
            |row| row.get(0),
        )
        .optional()?;
    data.map(|data| Ok(decode(&content::get(conn, data)?)?))
        .transpose()
}

/// Reads one run or a page of runs, oldest first.
pub(crate) fn lookup(
    conn: &Connection,
    session: SessionKey<'_>,
    which: Lookup<RunId>,
) -> Result<Paged<RunRecord>, OperationError> {
    let owner = headers::owner(conn, session)?;
    match (owner, which) {
        (Some(owner), Lookup::One(id)) => Ok(one(find(conn, owner, &id)?)),
        (Some(owner), Lookup::Page(page)) => {
            let bounds = [owner.first(), owner.last()];
            let total: i64 = conn
                .prepare_cached("SELECT count(*) FROM run WHERE at BETWEEN ? AND ?")?
                .query_row(bounds, |row| row.get(0))?;
            let mut statement = conn.prepare_cached(
                "SELECT data FROM run WHERE at BETWEEN ? AND ? ORDER BY at LIMIT ? OFFSET ?",
            )?;
            let mut rows = statement.query(params![
                owner.first(),
                owner.last(),
                signed(wide(page.limit)),
                signed(wide(page.offset))
            ])?;
            let items = fitting(conn, &mut rows, page)?;
            let total = size(unsigned(total));
            Ok(Paged::new(items, total, page))
        }
        (None, _) => Ok(one(None)),
    }
}

/// Decodes the first column of the rows, as many as fit into the bytes of a page.
pub(crate) fn fitting<T: Stored>(
    conn: &Connection,
    rows: &mut Rows<'_>,
    page: Page,
) -> Result<Vec<T>, OperationError> {
    let mut room = PageRoom::of(page);
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        let item = decode(&content::get(conn, row.get(0)?)?)?;
        if !room.takes(&item) {
            break;
        }
        items.push(item);
    }
    Ok(items)
}

/// A page of one item or of none.
pub(crate) fn one<T>(found: Option<T>) -> Paged<T> {
    let items: Vec<T> = found.into_iter().collect();
    let total = items.len();
    Paged::new(items, total, Page::ALL)
}
