//! The table `ended_turn`: removes the deltas of turns that ended long ago.

use helix_agents_core::SessionId;
use helix_agents_core::store::StoreError;
use helix_agents_core::stream::Sequence;
use helix_agents_core::time::Timestamp;
use rusqlite::{Connection, params};

use crate::key::{OwnerId, from_name, millis, signed, unsigned, wide};
use crate::operation_error::OperationError;
use crate::streams;
use crate::write_connection::WriteConnection;

/// A turn that has ended and still has its deltas.
#[derive(Debug, Clone)]
pub(crate) struct EndedTurn {
    ended: i64,
    stream: OwnerId,
    up_to: i64,
    /// The root whose turn it was; `None` if the stream is gone.
    root: Option<String>,
}

/// Notes that a turn has ended.
pub(crate) fn turn_ended(
    conn: &Connection,
    at: Timestamp,
    stream: OwnerId,
    last: Sequence,
) -> Result<(), OperationError> {
    conn.prepare_cached(
        "INSERT OR IGNORE INTO ended_turn (ended, stream, up_to) VALUES (?, ?, ?)",
    )?
    .execute(params![millis(at), stream, signed(last.0)])?;
    Ok(())
}

/// Lists turns that ended at this instant or before, the oldest first.
pub(crate) fn ended_turns(
    conn: &Connection,
    until: Timestamp,
    limit: usize,
) -> Result<Vec<EndedTurn>, OperationError> {
    let mut statement = conn.prepare_cached(
        "SELECT ended, stream, up_to, (SELECT root FROM stream WHERE id = ended_turn.stream) \
         FROM ended_turn WHERE ended <= ? ORDER BY ended LIMIT ?",
    )?;
    let turns = statement.query_map(params![millis(until), signed(wide(limit))], |row| {
        Ok(EndedTurn {
            ended: row.get(0)?,
            stream: row.get(1)?,
            up_to: row.get(2)?,
            root: row.get(3)?,
        })
    })?;
    Ok(turns.collect::<Result<_, _>>()?)
}

impl EndedTurn {
    /// The root, and the last sequence of the turn; `None` if the stream is gone.
    pub(crate) fn place(&self) -> Result<Option<(SessionId, Sequence)>, OperationError> {
        let up_to = Sequence(unsigned(self.up_to));
        let root = self.root.clone().map(|root| from_name("session id", root));
        Ok(root.transpose()?.map(|root| (root, up_to)))
    }

    /// Forgets a turn whose deltas are removed.
    pub(crate) fn forget(&self, conn: &Connection) -> Result<(), OperationError> {
        conn.prepare_cached("DELETE FROM ended_turn WHERE ended = ? AND stream = ? AND up_to = ?")?
            .execute(params![self.ended, self.stream, self.up_to])?;
        Ok(())
    }
}

/// Whether a part of the work of condensing a stream was the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The deltas up to this sequence are removed; there are more.
    More(Sequence),
    /// All deltas are removed.
    Done,
}

/// Removes deltas of a stream up to a sequence, after those of the part before.
pub(crate) fn part(
    db: &WriteConnection,
    root: &SessionId,
    begun: Option<Sequence>,
    up_to: Sequence,
) -> Result<Part, OperationError> {
    let Some(mut stream) = streams::take(db, root)? else {
        let session = root.clone();
        return Err(StoreError::NotFound { session }.into());
    };
    let part = stream.condense(&db.conn, begun, up_to)?;
    db.cache.borrow_mut().put_stream(root.clone(), stream);
    Ok(part)
}
