//! The table `answered`: calls that a client or a person has answered, one row each. They are looked up
//! one by one, and a session may have thousands.

use std::collections::BTreeMap;

use helix_agents_core::CallId;
use helix_agents_core::store::{AnsweredCall, Lookup, Page, PageRoom, Paged, SessionKey};
use helix_agents_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::headers;
use crate::key::{OwnerId, millis, parse_column, signed, size, time, unsigned, wide};
use crate::operation_error::OperationError;

/// Inserts an answered call with its time.
pub(crate) fn put(
    conn: &Connection,
    session: OwnerId,
    call: &CallId,
    at: Timestamp,
) -> Result<(), OperationError> {
    conn.prepare_cached("INSERT OR REPLACE INTO answered (session, call, time) VALUES (?, ?, ?)")?
        .execute(params![session, call.as_str(), millis(at)])?;
    Ok(())
}

/// Removes answered calls.
pub(crate) fn remove(
    conn: &Connection,
    session: OwnerId,
    calls: &[CallId],
) -> Result<(), OperationError> {
    for call in calls {
        conn.prepare_cached("DELETE FROM answered WHERE session = ? AND call = ?")?
            .execute(params![session, call.as_str()])?;
    }
    Ok(())
}

/// The time at which a call was answered; `None` when it was not.
pub(crate) fn find(
    conn: &Connection,
    session: OwnerId,
    call: &CallId,
) -> Result<Option<Timestamp>, OperationError> {
    let found = conn
        .prepare_cached("SELECT time FROM answered WHERE session = ? AND call = ?")?
        .query_row(params![session, call.as_str()], |row| Ok(time(row.get(0)?)))
        .optional()?;
    Ok(found)
}

/// Reads one answered call or a page of them, by id.
pub(crate) fn lookup(
    conn: &Connection,
    session: SessionKey<'_>,
    which: Lookup<CallId>,
) -> Result<Paged<AnsweredCall>, OperationError> {
    let Some(found) = headers::find_under(conn, session)? else {
        return Ok(Paged::of(std::iter::empty(), Page::ALL));
    };
    let owner = found.place.owner;
    // A header of an earlier version holds them itself, until the next commit.
    let before = &found.header.session.completed_client_tool_calls;
    match which {
        Lookup::One(call) => {
            let at = match before.get(&call) {
                Some(at) => Some(*at),
                None => find(conn, owner, &call)?,
            };
            let one = at.map(|at| AnsweredCall::new(call, at));
            Ok(Paged::of(one.into_iter(), Page::ALL))
        }
        Lookup::Page(page) if before.is_empty() => {
            let items = rows(conn, owner, page)?;
            let total: i64 = conn
                .prepare_cached("SELECT count(*) FROM answered WHERE session = ?")?
                .query_row([owner], |row| row.get(0))?;
            Ok(Paged::new(items, size(unsigned(total)), page))
        }
        Lookup::Page(page) => {
            let rows = rows(conn, owner, Page::ALL)?;
            let rows = rows.into_iter().map(|one| (one.call, one.at));
            let all: BTreeMap<CallId, Timestamp> = before.clone().into_iter().chain(rows).collect();
            let all: Vec<_> = all.into_iter().collect();
            let all = all
                .into_iter()
                .map(|(call, at)| AnsweredCall::new(call, at));
            Ok(Paged::of(all, page))
        }
    }
}

fn rows(
    conn: &Connection,
    session: OwnerId,
    page: Page,
) -> Result<Vec<AnsweredCall>, OperationError> {
    let limit = i64::try_from(page.limit).unwrap_or(-1);
    let mut rows: Vec<_> = conn
        .prepare_cached(
            "SELECT call, time FROM answered WHERE session = ? ORDER BY call LIMIT ? OFFSET ?",
        )?
        .query_map(params![session, limit, signed(wide(page.offset))], one)?
        .collect::<Result<_, _>>()?;
    let mut room = PageRoom::of(page);
    let fitting = rows.iter().take_while(|row| room.takes(row)).count();
    rows.truncate(fitting);
    Ok(rows)
}

fn one(row: &Row<'_>) -> rusqlite::Result<AnsweredCall> {
    Ok(AnsweredCall::new(parse_column(row, 0)?, time(row.get(1)?)))
}
