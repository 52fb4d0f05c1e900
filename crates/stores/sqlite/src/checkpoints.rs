//! The table `checkpoint`: checkpoints, in the order in which they were written.

use helix_agents_core::session::Checkpoint;
use helix_agents_core::store::{Lookup, PageRoom, Paged, SessionKey};
use helix_agents_core::{CheckpointId, SessionId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::headers;
use crate::key::{
    OwnerId, from_name, millis, parse_column, signed, size, time, unsigned, variant_name, wide,
};
use crate::operation_error::OperationError;
use crate::runs::{self, RunNumber, Runs, one};
use crate::write_connection::WriteConnection;

/// Inserts a checkpoint, or replaces the one of the same id. `n` is larger than that of any other, so that
/// it becomes the latest.
pub(crate) fn put(
    db: &WriteConnection,
    session: OwnerId,
    n: i64,
    one: &Checkpoint,
) -> Result<(), OperationError> {
    let run = runs::number(db, session, &one.run_id)?;
    let status = variant_name("status", one.status)?;
    let write = |sql: &str, key: i64| -> Result<usize, OperationError> {
        let written = db.conn.prepare_cached(sql)?.execute(params![
            key,
            n,
            one.id.as_str(),
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
    // The row at the hash of its id is nearly always free, and need not be read first.
    if write(INSERT, session.hashed_key(one.id.as_str()))? == 0 {
        write(REPLACE, place(&db.conn, session, &one.id)?)?;
    }
    Ok(())
}

const INSERT: &str = "INSERT OR IGNORE INTO checkpoint VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const REPLACE: &str = "INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// The key at which the checkpoint of this id is stored, or is to be stored.
fn place(conn: &Connection, session: OwnerId, id: &CheckpointId) -> Result<i64, OperationError> {
    let mut key = session.hashed_key(id.as_str());
    loop {
        let there: Option<String> = conn
            .prepare_cached("SELECT id FROM checkpoint WHERE at = ?")?
            .query_row([key], |row| row.get(0))
            .optional()?;
        match there {
            // Rows are never removed one by one, so a gap ends the search.
            Some(other) if other != id.as_str() => {
                key = if key == session.last() {
                    session.first()
                } else {
                    key + 1
                };
            }
            _ => return Ok(key),
        }
    }
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
                .query_row([place(conn, owner, &id)?], read)
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
    status: String,
    open_step: Option<String>,
    time: i64,
}

fn read(row: &Row<'_>) -> rusqlite::Result<CheckpointRow> {
    Ok(CheckpointRow {
        id: parse_column(row, 0)?,
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
            status: from_name("status", self.status)?,
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
