//! The table `entry`: the messages of a session, one row for each step or user message.

use helix_agents_core::message::Message;
use helix_agents_core::store::{Page, PageRoom, Paged, SessionKey};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};

use crate::content::{self, RowRef, ValueKind};
use crate::key::{OwnerId, signed, size, wide};
use crate::operation_error::OperationError;
use crate::{extras, headers, packed_messages};

/// Inserts one row: a user message or a whole step, at this position of the history.
pub(crate) fn append(
    conn: &Connection,
    session: OwnerId,
    at: usize,
    messages: &[Message],
) -> Result<(), OperationError> {
    let key = session.row(wide(at))?;
    let holder = RowRef::new(session, ValueKind::Entry, key);
    let cell = content::put(conn, holder, packed_messages::pack(messages)?)?;
    conn.prepare_cached("INSERT INTO entry (at, count, data) VALUES (?, ?, ?)")?
        .execute(params![key, signed(wide(messages.len())), cell])?;
    Ok(())
}

/// The number of messages that stay when the history is cut to `count`, so that no step is split.
pub(crate) fn whole_steps(
    conn: &Connection,
    session: OwnerId,
    count: usize,
) -> Result<usize, OperationError> {
    let count = count.min(total(conn, session)?);
    // The last row that begins before the cut ends at it, or is a step that would be split.
    let straddling: Option<(i64, i64)> = conn
        .prepare_cached(
            "SELECT at, count FROM entry WHERE at >= ? AND at < ? ORDER BY at DESC LIMIT 1",
        )?
        .query_row(
            params![session.first(), session.bound(wide(count))],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    Ok(match straddling {
        Some((at, length)) if size(session.number(at + length)) > count => size(session.number(at)),
        _ => count,
    })
}

/// Deletes the messages from a position on, and retires the ids of their calls.
pub(crate) fn truncate(
    conn: &Connection,
    session: OwnerId,
    keep: usize,
) -> Result<(), OperationError> {
    let (from, to) = (session.bound(wide(keep)), session.last());
    let mut gone = Vec::new();
    each(conn, from, to, |message| {
        if let Message::Assistant(said) = message {
            gone.extend(said.tool_calls().map(|call| call.id.clone()));
        }
        true
    })?;
    extras::retire(conn, session, gone.iter())?;
    conn.prepare_cached("DELETE FROM entry WHERE at BETWEEN ? AND ?")?
        .execute([from, to])?;
    content::release_range(conn, session, ValueKind::Entry, from, to)
}

/// The number of messages of a session.
fn total(conn: &Connection, session: OwnerId) -> Result<usize, OperationError> {
    let end: Option<i64> = conn
        .prepare_cached(
            "SELECT at + count FROM entry WHERE at BETWEEN ? AND ? ORDER BY at DESC LIMIT 1",
        )?
        .query_row([session.first(), session.last()], |row| row.get(0))
        .optional()?;
    Ok(end.map_or(0, |end| size(session.number(end))))
}

/// Reads a page of the history, oldest first.
pub(crate) fn page(
    conn: &Connection,
    session: SessionKey<'_>,
    page: Page,
) -> Result<Paged<Message>, OperationError> {
    let Some(owner) = headers::owner(conn, session)? else {
        return Ok(Paged::new(Vec::new(), 0, page));
    };
    let total = total(conn, owner)?;
    let end = page.offset.saturating_add(page.limit).min(total);
    if page.offset >= end {
        return Ok(Paged::new(Vec::new(), total, page));
    }
    // The row in which the first message is may begin before it.
    let from: i64 = conn
        .prepare_cached("SELECT at FROM entry WHERE at >= ? AND at <= ? ORDER BY at DESC LIMIT 1")?
        .query_row([owner.first(), owner.bound(wide(page.offset))], |row| {
            row.get(0)
        })?;
    let mut place = size(owner.number(from));
    let mut room = PageRoom::of(page);
    let mut items = Vec::new();
    let is_whole = each(conn, from, owner.bound(wide(end)) - 1, |message| {
        place += 1;
        if place <= page.offset || place > end {
            return true;
        }
        let fits = room.takes(&message);
        if fits {
            items.push(message);
        }
        fits
    })?;
    if is_whole && items.len() < end - page.offset {
        return Err(OperationError::corrupt("history", "messages are missing"));
    }
    Ok(Paged::new(items, total, page))
}

/// Calls `wants_more` with each message of the rows within these bounds, until it returns false. Returns
/// whether it was called with all of them.
fn each(
    conn: &Connection,
    from: i64,
    to: i64,
    mut wants_more: impl FnMut(Message) -> bool,
) -> Result<bool, OperationError> {
    let mut statement =
        conn.prepare_cached("SELECT data FROM entry WHERE at BETWEEN ? AND ? ORDER BY at")?;
    let mut rows = statement.query([from, to])?;
    while let Some(row) = rows.next()? {
        let messages = match row.get_ref(0)? {
            ValueRef::Text(text) => packed_messages::unpack(text)?,
            _ => packed_messages::unpack(content::get(conn, row.get(0)?)?.as_bytes())?,
        };
        for message in messages {
            if !wants_more(message) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
