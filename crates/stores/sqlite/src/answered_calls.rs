//! The table `answered`: calls that a client or a person has answered, one row each. They are looked up
//! one by one, and a session may have thousands.

use std::collections::BTreeMap;

use helix_agents_core::CallId;
use helix_agents_core::store::{AnsweredCall, Lookup, Page, PageRoom, Paged, SessionKey};
use helix_agents_core::stored::{decode, encode};
use helix_agents_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::headers;
use crate::key::{OwnerId, millis, parse_column, signed, size, time, unsigned, wide};
use crate::operation_error::OperationError;

/// Inserts an answered call, unless an earlier record of it stays.
pub(crate) fn put(
    conn: &Connection,
    session: OwnerId,
    answered: &AnsweredCall,
) -> Result<(), OperationError> {
    let earlier = find(conn, session, &answered.call)?;
    if earlier.is_some_and(|earlier| !answered.replaces(&earlier)) {
        return Ok(());
    }
    let kind = match answered.kind.is_submitted() {
        true => None,
        false => Some(encode(&answered.kind)?),
    };
    conn.prepare_cached(
        "INSERT OR REPLACE INTO answered (session, call, time, kind) VALUES (?, ?, ?, ?)",
    )?
    .execute(params![
        session,
        answered.call.as_str(),
        millis(answered.at),
        kind
    ])?;
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

/// The record of an answered call; `None` when it was not answered.
pub(crate) fn find(
    conn: &Connection,
    session: OwnerId,
    call: &CallId,
) -> Result<Option<AnsweredCall>, OperationError> {
    let found = conn
        .prepare_cached("SELECT call, time, kind FROM answered WHERE session = ? AND call = ?")?
        .query_row(params![session, call.as_str()], columns)
        .optional()?;
    found.map(record).transpose()
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
            let one = match before.get(&call) {
                Some(at) => Some(AnsweredCall::new(call, *at)),
                None => find(conn, owner, &call)?,
            };
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
            let before = before.clone().into_iter();
            let before = before.map(|(call, at)| AnsweredCall::new(call, at));
            let all = before.chain(rows).map(|one| (one.call.clone(), one));
            let all: BTreeMap<CallId, AnsweredCall> = all.collect();
            let all: Vec<_> = all.into_values().collect();
            Ok(Paged::of(all.into_iter(), page))
        }
    }
}

fn rows(
    conn: &Connection,
    session: OwnerId,
    page: Page,
) -> Result<Vec<AnsweredCall>, OperationError> {
    let limit = i64::try_from(page.limit).unwrap_or(-1);
    let mut statement = conn.prepare_cached(
        "SELECT call, time, kind FROM answered WHERE session = ? ORDER BY call LIMIT ? OFFSET ?",
    )?;
    let found = statement.query_map(params![session, limit, signed(wide(page.offset))], columns)?;
    let mut room = PageRoom::of(page);
    let mut rows = Vec::new();
    for found in found {
        let row = record(found?)?;
        if !room.takes(&row) {
            break;
        }
        rows.push(row);
    }
    Ok(rows)
}

type Columns = (CallId, Timestamp, Option<String>);

fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok((parse_column(row, 0)?, time(row.get(1)?), row.get(2)?))
}

fn record((call, at, kind): Columns) -> Result<AnsweredCall, OperationError> {
    let answered = AnsweredCall::new(call, at);
    Ok(match kind {
        Some(kind) => answered.with_kind(decode(&kind)?),
        None => answered,
    })
}
