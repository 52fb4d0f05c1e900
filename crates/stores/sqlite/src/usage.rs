//! The table `usage`: the entries of one commit or several, in packed rows.

use helix_agents_core::store::{Page, PageRoom, Paged, SessionKey};
use helix_agents_core::usage::UsageEntry;
use rusqlite::{Connection, OptionalExtension, params};

use crate::content::{self, RowRef, ValueKind};
use crate::headers;
use crate::key::{OwnerId, signed, size, wide};
use crate::operation_error::OperationError;
use crate::packed_usage::{self, PackedUsage};
use crate::runs::{self, Runs};
use crate::write_connection::WriteConnection;

/// The last row of a session, for its writer.
#[derive(Debug)]
pub(crate) struct LastUsage {
    key: i64,
    row: PackedUsage,
}

/// Writes the usage entries of a commit: into the last row, if it is known and takes them, or into another.
pub(crate) fn append(
    db: &WriteConnection,
    session: OwnerId,
    entries: &[UsageEntry],
) -> Result<(), OperationError> {
    let Some(first) = entries.first() else {
        return Ok(());
    };
    let conn = &db.conn;
    let known = db.cache.borrow_mut().take_usage(session);
    let end = known.as_ref().map(LastUsage::end);
    if let Some(mut last) = known
        && last.row.extend(entries)?
    {
        let holder = RowRef::new(session, ValueKind::Usage, last.key);
        let cell = content::put(conn, holder, last.row.text())?;
        conn.prepare_cached("UPDATE usage SET count = ?, data = ? WHERE at = ?")?
            .execute(params![signed(wide(last.row.count())), cell, last.key])?;
        db.cache.borrow_mut().put_usage(session, last);
        return Ok(());
    }
    let key = match end {
        Some(end) => session.row(session.number(end))?,
        None => session.row(wide(total(conn, session)?))?,
    };
    let run = runs::number(db, session, &first.run_id)?;
    let row = PackedUsage::new(&run, first, entries)?;
    let holder = RowRef::new(session, ValueKind::Usage, key);
    let cell = content::put(conn, holder, row.text())?;
    conn.prepare_cached("INSERT INTO usage (at, count, data) VALUES (?, ?, ?)")?
        .execute(params![key, signed(wide(row.count())), cell])?;
    let last = LastUsage { key, row };
    db.cache.borrow_mut().put_usage(session, last);
    Ok(())
}

impl LastUsage {
    /// Whether it takes no more entries, and need not be known.
    pub(crate) fn is_full(&self) -> bool {
        self.row.is_full()
    }

    /// The key of the next row.
    fn end(&self) -> i64 {
        self.key + signed(wide(self.row.count()))
    }
}

fn total(conn: &Connection, session: OwnerId) -> Result<usize, OperationError> {
    let end: Option<i64> = conn
        .prepare_cached(
            "SELECT at + count FROM usage WHERE at BETWEEN ? AND ? ORDER BY at DESC LIMIT 1",
        )?
        .query_row([session.first(), session.last()], |row| row.get(0))
        .optional()?;
    Ok(end.map_or(0, |end| size(session.number(end))))
}

/// Reads a page of the usage of a session, oldest first.
pub(crate) fn page(
    conn: &Connection,
    session: SessionKey<'_>,
    page: Page,
) -> Result<Paged<UsageEntry>, OperationError> {
    let Some(owner) = headers::owner(conn, session)? else {
        return Ok(Paged::new(Vec::new(), 0, page));
    };
    let total = total(conn, owner)?;
    let end = page.offset.saturating_add(page.limit).min(total);
    let mut items = Vec::new();
    let mut runs = Runs::new(conn, owner);
    let mut statement = conn.prepare_cached(
        "SELECT at, data FROM usage WHERE at BETWEEN ? AND ? AND at + count > ? ORDER BY at",
    )?;
    let from = owner.bound(wide(page.offset));
    let mut rows = statement.query([owner.first(), owner.bound(wide(end)) - 1, from])?;
    let mut room = PageRoom::of(page);
    'rows: while let Some(row) = rows.next()? {
        let at = size(owner.number(row.get(0)?));
        let text = content::get(conn, row.get(1)?)?;
        let entries = packed_usage::unpack(&text, |run| runs.id(run))?;
        for (entry, position) in entries.into_iter().zip(at..) {
            if (page.offset..end).contains(&position) {
                if !room.takes(&entry) {
                    break 'rows;
                }
                items.push(entry);
            }
        }
    }
    Ok(Paged::new(items, total, page))
}
