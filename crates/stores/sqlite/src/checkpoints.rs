//! The table `checkpoint`: checkpoints, in the order in which they were written.

use std::borrow::Cow;

use helix_agents_core::session::{Checkpoint, SessionStatus};
use helix_agents_core::store::{Lookup, PageRoom, Paged, SessionKey};
use helix_agents_core::{CheckpointId, SessionId};
use rusqlite::types::{FromSqlError, Type, Value as SqlValue};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::headers;
use crate::key::{OwnerId, from_name, millis, signed, size, time, unsigned, variant_name, wide};
use crate::operation_error::OperationError;
use crate::runs::{self, RunNumber, Runs, one};
use crate::short_id::{self, IdCell};
use crate::write_connection::WriteConnection;

/// The prefix of generated ids.
const PREFIX: &str = "cp";

/// Inserts a checkpoint, or replaces the one of the same id. `n` is larger than that of any other, so that
/// it becomes the latest.
pub(crate) fn put(
    db: &WriteConnection,
    session: OwnerId,
    n: i64,
    one: &Checkpoint,
) -> Result<(), OperationError> {
    let run = runs::number(db, session, &one.run_id)?;
    let status = match one.status {
        SessionStatus::Active => None,
        other => Some(variant_name("status", other)?),
    };
    let id = IdCell::pack(one.id.as_str(), PREFIX, one.timestamp.as_millis());
    let write = |sql: &str, key: i64| -> Result<usize, OperationError> {
        let written = db.conn.prepare_cached(sql)?.execute(params![
            key,
            n,
            id,
            run,
            one.step_count,
            signed(wide(one.message_count)),
            signed(one.state_version),
            status,
            one.open_step.as_ref().map(AsRef::<str>::as_ref),
            millis(one.timestamp),
        ])?;
        Ok(written)
    };
    // The first row that it may have is nearly always free, and need not be read first.
    if write(INSERT, first_place(session, one.id.as_str()))? == 0 {
        write(REPLACE, place(&db.conn, session, one.id.as_str())?)?;
    }
    Ok(())
}

const INSERT: &str = "INSERT OR IGNORE INTO checkpoint VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const REPLACE: &str = "INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// The key at which the checkpoint of this id is stored, unless another has it.
fn first_place(session: OwnerId, id: &str) -> i64 {
    match short_id::uuid(id, PREFIX) {
        Some(uuid) => session.timed_key(uuid),
        None => session.hashed_key(id),
    }
}

/// The key at which the checkpoint of this id is stored, or is to be stored.
fn place(conn: &Connection, session: OwnerId, id: &str) -> Result<i64, OperationError> {
    let mut key = first_place(session, id);
    loop {
        let is_other: Option<bool> = conn
            .prepare_cached("SELECT id, time FROM checkpoint WHERE at = ?")?
            .query_row([key], |row| Ok(long_id(row, 0, 1)? != id))
            .optional()?;
        match is_other {
            // `drop_after` closes the gaps that it makes, so a gap ends the search.
            Some(true) => {
                key = next_place(session, key);
            }
            _ => return Ok(key),
        }
    }
}

/// The key that is tried when another checkpoint has this one.
fn next_place(session: OwnerId, key: i64) -> i64 {
    if key == session.last() {
        session.first()
    } else {
        key + 1
    }
}

/// Deletes the checkpoints that were written after one, or all of them.
pub(crate) fn drop_after(
    conn: &Connection,
    session: OwnerId,
    kept: Option<&CheckpointId>,
) -> Result<(), OperationError> {
    let written: Option<i64> = match kept {
        Some(id) => conn
            .prepare_cached("SELECT n FROM checkpoint WHERE at = ?")?
            .query_row([place(conn, session, id.as_str())?], |row| row.get(0))
            .optional()?,
        None => None,
    };
    let dropped: Vec<i64> = conn
        .prepare_cached("DELETE FROM checkpoint WHERE at BETWEEN ? AND ? AND n > ? RETURNING at")?
        .query_map(
            [session.first(), session.last(), written.unwrap_or(i64::MIN)],
            |row| row.get(0),
        )?
        .collect::<Result<_, _>>()?;
    for gap in dropped {
        close_gap(conn, session, gap)?;
    }
    Ok(())
}

/// Moves the checkpoints behind a gap that were not stored in their first place because it was taken.
fn close_gap(conn: &Connection, session: OwnerId, gap: i64) -> Result<(), OperationError> {
    let mut key = next_place(session, gap);
    loop {
        let id: Option<String> = conn
            .prepare_cached("SELECT id, time FROM checkpoint WHERE at = ?")?
            .query_row([key], |row| Ok(long_id(row, 0, 1)?.into_owned()))
            .optional()?;
        let Some(id) = id else { return Ok(()) };
        let better = place(conn, session, &id)?;
        if better != key {
            conn.prepare_cached("UPDATE checkpoint SET at = ? WHERE at = ?")?
                .execute([better, key])?;
        }
        key = next_place(session, key);
    }
}

/// The id of a row, in this column beside that of its time.
fn long_id<'a>(row: &'a Row<'_>, column: usize, time: usize) -> rusqlite::Result<Cow<'a, str>> {
    let cell = row.get_ref(column)?;
    let id = IdCell::unpack(cell, PREFIX, unsigned(row.get(time)?));
    id.ok_or_else(|| {
        let broken = FromSqlError::Other("the id of a checkpoint is broken".into());
        rusqlite::Error::FromSqlConversionFailure(column, cell.data_type(), Box::new(broken))
    })
}

/// Moves the rows of the schema before into the table.
pub(crate) fn move_old(conn: &Connection) -> Result<(), OperationError> {
    let mut statement = conn.prepare(
        "SELECT at >> 32, n, id, run, step, messages, state, nullif(status, 'active'), \
         open_step, time FROM old_checkpoint ORDER BY at >> 32, n",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id: String = row.get(2)?;
        let time: i64 = row.get(9)?;
        let short = IdCell::pack(&id, PREFIX, unsigned(time));
        let value = |column: usize| row.get::<_, SqlValue>(column);
        conn.prepare_cached(INSERT)?.execute(params![
            place(conn, row.get(0)?, &id)?,
            value(1)?,
            short,
            value(3)?,
            value(4)?,
            value(5)?,
            value(6)?,
            value(7)?,
            value(8)?,
            value(9)?,
        ])?;
    }
    drop(rows);
    drop(statement);
    conn.execute_batch("DROP TABLE old_checkpoint")?;
    Ok(())
}

const COLUMNS: &str = "id, run, step, messages, state, status, open_step, time";

/// Reads one checkpoint or a page of them, latest first.
pub(crate) fn find(
    conn: &Connection,
    session: SessionKey<'_>,
    which: Lookup<CheckpointId>,
) -> Result<Paged<Checkpoint>, OperationError> {
    let Some(owner) = headers::owner(conn, session)? else {
        return Ok(one(None));
    };
    let mut runs = Runs::new(conn, owner);
    match which {
        Lookup::One(id) => {
            let sql = format!("SELECT {COLUMNS} FROM checkpoint WHERE at = ?");
            let found = conn
                .prepare_cached(&sql)?
                .query_row([place(conn, owner, id.as_str())?], read)
                .optional()?;
            let found = found.map(|raw| raw.finish(session.session, &mut runs));
            Ok(one(found.transpose()?))
        }
        Lookup::Page(page) => {
            let total: i64 = conn
                .prepare_cached("SELECT count(*) FROM checkpoint WHERE at BETWEEN ? AND ?")?
                .query_row([owner.first(), owner.last()], |row| row.get(0))?;
            let sql = format!(
                "SELECT {COLUMNS} FROM checkpoint WHERE at BETWEEN ? AND ? \
                 ORDER BY n DESC LIMIT ? OFFSET ?"
            );
            let found: Vec<CheckpointRow> = conn
                .prepare_cached(&sql)?
                .query_map(
                    params![
                        owner.first(),
                        owner.last(),
                        signed(wide(page.limit)),
                        signed(wide(page.offset))
                    ],
                    read,
                )?
                .collect::<Result<_, _>>()?;
            let items = found
                .into_iter()
                .map(|raw| raw.finish(session.session, &mut runs));
            let mut items: Vec<_> = items.collect::<Result<_, _>>()?;
            // Rows of a checkpoint are small: what does not fit is left out after it was read.
            let mut room = PageRoom::of(page);
            let fitting = items.iter().take_while(|item| room.takes(item)).count();
            items.truncate(fitting);
            Ok(Paged::new(items, size(unsigned(total)), page))
        }
    }
}

/// A row before its reference to a run is resolved.
struct CheckpointRow {
    id: CheckpointId,
    run: RunNumber,
    step: u32,
    messages: i64,
    state: i64,
    status: Option<String>,
    open_step: Option<String>,
    time: i64,
}

fn read(row: &Row<'_>) -> rusqlite::Result<CheckpointRow> {
    let id = CheckpointId::new(long_id(row, 0, 7)?).map_err(|error| {
        let error = FromSqlError::Other(Box::new(error));
        rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error))
    })?;
    Ok(CheckpointRow {
        id,
        run: row.get(1)?,
        step: row.get(2)?,
        messages: row.get(3)?,
        state: row.get(4)?,
        status: row.get(5)?,
        open_step: row.get(6)?,
        time: row.get(7)?,
    })
}

impl CheckpointRow {
    fn finish(
        self,
        session: &SessionId,
        runs: &mut Runs<'_>,
    ) -> Result<Checkpoint, OperationError> {
        Ok(Checkpoint {
            id: self.id,
            session_id: session.clone(),
            run_id: runs.id(self.run)?,
            status: match self.status {
                Some(name) => from_name("status", name)?,
                None => SessionStatus::Active,
            },
            timestamp: time(self.time),
            step_count: self.step,
            message_count: size(unsigned(self.messages)),
            state_version: unsigned(self.state),
            open_step: match self.open_step {
                Some(id) => Some(from_name("step id", id)?),
                None => None,
            },
        })
    }
}
