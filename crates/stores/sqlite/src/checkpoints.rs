//! Checkpoints, in the order in which they were written.

use helix_agents_core::session::Checkpoint;
use helix_agents_core::store::{Lookup, Paged};
use helix_agents_core::{CheckpointId, SessionId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Fail;
use crate::headers;
use crate::key::{Owner, millis, name_of, named, parsed, signed, size, time, unsigned, wide};
use crate::records::{self, RunNumber, Runs, next_key, one};

/// Writes a checkpoint. It is now the one that was written last.
pub(crate) fn put(conn: &Connection, session: Owner, one: &Checkpoint) -> Result<(), Fail> {
    let mark = session.mark(one.id.as_str());
    conn.prepare_cached("DELETE FROM checkpoint WHERE mark = ? AND id = ?")?
        .execute(params![mark, one.id.as_str()])?;
    let key = next_key(
        conn,
        session,
        "SELECT max(at) FROM checkpoint WHERE at BETWEEN ? AND ?",
    )?;
    conn.prepare_cached("INSERT INTO checkpoint VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?
        .execute(params![
            key,
            mark,
            one.id.as_str(),
            records::run_number(conn, session, &one.run_id)?,
            one.step_count,
            signed(wide(one.message_count)),
            signed(one.state_version),
            name_of("status", one.status)?,
            one.open_step.as_ref().map(AsRef::<str>::as_ref),
            millis(one.timestamp),
        ])?;
    Ok(())
}

const COLUMNS: &str = "id, run, step, messages, state, status, open_step, time";

/// Checkpoints, the one that was written last first.
pub(crate) fn find(
    conn: &Connection,
    session: &SessionId,
    which: Lookup<CheckpointId>,
) -> Result<Paged<Checkpoint>, Fail> {
    let Some(owner) = headers::owner(conn, session)? else {
        return Ok(one(None));
    };
    let mut runs = Runs::new(conn, owner);
    match which {
        Lookup::One(id) => {
            let sql = format!("SELECT {COLUMNS} FROM checkpoint WHERE mark = ? AND id = ?");
            let found = conn
                .prepare_cached(&sql)?
                .query_row(params![owner.mark(id.as_str()), id.as_str()], read)
                .optional()?;
            let found = found.map(|raw| raw.finish(session, &mut runs));
            Ok(one(found.transpose()?))
        }
        Lookup::Page(page) => {
            let total: i64 = conn
                .prepare_cached("SELECT count(*) FROM checkpoint WHERE at BETWEEN ? AND ?")?
                .query_row([owner.first(), owner.last()], |row| row.get(0))?;
            let sql = format!(
                "SELECT {COLUMNS} FROM checkpoint WHERE at BETWEEN ? AND ? \
                 ORDER BY at DESC LIMIT ? OFFSET ?"
            );
            let found: Vec<Raw> = conn
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
            let items = found.into_iter().map(|raw| raw.finish(session, &mut runs));
            let items = items.collect::<Result<_, _>>()?;
            Ok(Paged::new(items, size(unsigned(total)), page))
        }
        other => {
            let reason = format!("this store does not know {other:?}");
            Err(Fail::corrupt("lookup", reason))
        }
    }
}

/// A row whose run is still a number.
struct Raw {
    id: CheckpointId,
    run: RunNumber,
    step: u32,
    messages: i64,
    state: i64,
    status: String,
    open_step: Option<String>,
    time: i64,
}

fn read(row: &Row<'_>) -> rusqlite::Result<Raw> {
    Ok(Raw {
        id: parsed(row, 0)?,
        run: row.get(1)?,
        step: row.get(2)?,
        messages: row.get(3)?,
        state: row.get(4)?,
        status: row.get(5)?,
        open_step: row.get(6)?,
        time: row.get(7)?,
    })
}

impl Raw {
    fn finish(self, session: &SessionId, runs: &mut Runs<'_>) -> Result<Checkpoint, Fail> {
        let mut one = Checkpoint::new(
            self.id,
            session.clone(),
            runs.id(self.run)?,
            named("status", self.status)?,
            time(self.time),
        );
        one.step_count = self.step;
        one.message_count = size(unsigned(self.messages));
        one.state_version = unsigned(self.state);
        one.open_step = match self.open_step {
            Some(id) => Some(named("step id", id)?),
            None => None,
        };
        Ok(one)
    }
}
