//! The tables `stream` and `chunk`: reads and writes of streams inside a transaction.

use helix_agents_core::SessionId;
use helix_agents_core::store::StoreError;
use helix_agents_core::stream::{
    Chunk, Sequence, StoredChunk, StreamInfo, StreamStatus, StreamWriter,
};
use helix_agents_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::config::SqliteConfig;
use crate::content::{self, RowRef, ValueKind};
use crate::headers;
use crate::key::{OwnerId, from_name, millis, signed, unsigned, variant_name, wide};
use crate::operation_error::OperationError;
use crate::packed_chunks;
use crate::write_connection::WriteConnection;

/// The most chunks in one row, so that a reader of a few does not read thousands.
const BATCH: usize = 256;

/// A stream as it is stored.
#[derive(Debug)]
pub(crate) struct Stream {
    id: OwnerId,
    info: StreamInfo,
    /// The status and the trimmed sequence as the row of the stream has them.
    row: (StreamStatus, Sequence),
}

fn find(conn: &Connection, root: &SessionId) -> Result<Option<Stream>, OperationError> {
    // While a stream is active its row is not written with every batch: the last batch says where
    // it ends.
    let row: Option<(OwnerId, i64, i64, String)> = conn
        .prepare_cached(
            "SELECT id, max(last, trimmed, coalesce((SELECT max(at) FROM chunk \
             WHERE at BETWEEN id << 32 AND (id << 32) + 4294967295) - (id << 32), 0)), \
             trimmed, status FROM stream WHERE root = ?",
        )?
        .query_row([root.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    row.map(|(id, last, trimmed, status)| {
        let (last, trimmed) = (Sequence(unsigned(last)), Sequence(unsigned(trimmed)));
        let info = StreamInfo {
            incarnation: id.incarnation(),
            status: from_name("stream status", status)?,
            last,
            trimmed,
        };
        let row = (info.status, info.trimmed);
        Ok(Stream { id, info, row })
    })
    .transpose()
}

/// Takes a stream out of the cache, or reads it. The caller puts it back.
fn take(db: &WriteConnection, root: &SessionId) -> Result<Option<Stream>, OperationError> {
    let known = db.cache.borrow_mut().take_stream(root);
    match known {
        Some(stream) => Ok(Some(stream)),
        None => find(&db.conn, root),
    }
}

/// Takes a stream as [`take`], or creates it.
fn open(db: &WriteConnection, root: &SessionId) -> Result<Stream, OperationError> {
    if let Some(stream) = take(db, root)? {
        return Ok(stream);
    }
    let conn = &db.conn;
    let (status, start) = (StreamStatus::Active, Sequence::START);
    conn.prepare_cached(
        "INSERT INTO stream (root, last, trimmed, status, changed) VALUES (?, 0, 0, ?, 0)",
    )?
    .execute(params![root.as_str(), variant_name("status", status)?])?;
    let id = OwnerId(conn.last_insert_rowid());
    let info = StreamInfo {
        incarnation: id.incarnation(),
        status,
        last: start,
        trimmed: start,
    };
    let row = (info.status, info.trimmed);
    Ok(Stream { id, info, row })
}

impl Stream {
    /// Updates the row of the stream, unless the batches say as much, and returns the last sequence.
    fn save(
        mut self,
        db: &WriteConnection,
        root: &SessionId,
        at: Timestamp,
    ) -> Result<Sequence, OperationError> {
        let StreamInfo {
            status,
            last,
            trimmed,
            ..
        } = self.info;
        if status != StreamStatus::Active || self.row != (status, trimmed) {
            db.conn
                .prepare_cached(
                    "UPDATE stream SET last = ?, trimmed = ?, status = ?, changed = ? \
                     WHERE id = ?",
                )?
                .execute(params![
                    signed(last.0),
                    signed(trimmed.0),
                    variant_name("status", status)?,
                    millis(at),
                    self.id,
                ])?;
            self.row = (status, trimmed);
        }
        db.cache.borrow_mut().put_stream(root.clone(), self);
        Ok(last)
    }

    fn append(
        &mut self,
        conn: &Connection,
        chunks: &[Chunk],
        delta: bool,
    ) -> Result<(), OperationError> {
        for batch in chunks.chunks(BATCH) {
            let first = self.info.last.next();
            self.info.last = Sequence(self.info.last.0 + wide(batch.len()));
            self.insert(conn, first, self.info.last, batch, delta)?;
        }
        Ok(())
    }

    fn insert(
        &self,
        conn: &Connection,
        first: Sequence,
        last: Sequence,
        batch: &[Chunk],
        delta: bool,
    ) -> Result<(), OperationError> {
        let key = self.id.row(last.0)?;
        let time = batch.last().map_or(0, |chunk| millis(chunk.timestamp));
        let holder = RowRef::new(self.id, ValueKind::Chunk, key);
        let cell = content::put(conn, holder, packed_chunks::pack(batch)?)?;
        conn.prepare_cached(
            "INSERT INTO chunk (at, first, delta, time, data) VALUES (?, ?, ?, ?, ?)",
        )?
        .execute(params![key, signed(first.0), delta, time, cell])?;
        Ok(())
    }

    /// Removes chunks from a batch. Each unbroken range of the rest becomes a row.
    fn retain(
        &self,
        conn: &Connection,
        key: i64,
        first: u64,
        kept: impl Fn(u64, &Chunk) -> bool,
    ) -> Result<(), OperationError> {
        let cell = conn
            .prepare_cached("SELECT data FROM chunk WHERE at = ?")?
            .query_row([key], |row| row.get(0))?;
        let batch = packed_chunks::unpack(&content::get(conn, cell)?)?;
        let whole = batch.len();
        let mut rest: Vec<(u64, Chunk)> = (first..).zip(batch).collect();
        rest.retain(|(number, chunk)| kept(*number, chunk));
        if rest.len() == whole {
            return Ok(());
        }
        conn.prepare_cached("DELETE FROM chunk WHERE at = ?")?
            .execute([key])?;
        content::release(conn, RowRef::new(self.id, ValueKind::Chunk, key))?;
        for part in rest.chunk_by(|one, next| one.0 + 1 == next.0) {
            let (Some((first, _)), Some((last, _))) = (part.first(), part.last()) else {
                continue;
            };
            let chunks: Vec<Chunk> = part.iter().map(|(_, chunk)| chunk.clone()).collect();
            self.insert(conn, Sequence(*first), Sequence(*last), &chunks, true)?;
        }
        Ok(())
    }

    /// Removes the chunks up to a sequence. A batch that ends after it stays whole, and readers skip its
    /// beginning.
    fn trim(&mut self, conn: &Connection, up_to: Sequence) -> Result<(), OperationError> {
        let up_to = up_to.min(self.info.last);
        let (from, to) = (self.id.first(), self.id.bound(up_to.0));
        conn.prepare_cached("DELETE FROM chunk WHERE at BETWEEN ? AND ?")?
            .execute([from, to])?;
        content::release_range(conn, self.id, ValueKind::Chunk, from, to)?;
        self.info.trimmed = self.info.trimmed.max(up_to);
        Ok(())
    }

    /// Removes the chunks that were written before an instant.
    fn trim_before(&mut self, conn: &Connection, instant: i64) -> Result<(), OperationError> {
        let last: Option<i64> = conn
            .prepare_cached(
                "SELECT at FROM chunk WHERE at BETWEEN ? AND ? AND time < ? \
                 ORDER BY at DESC LIMIT 1",
            )?
            .query_row(params![self.id.first(), self.id.last(), instant], |row| {
                row.get(0)
            })
            .optional()?;
        match last {
            Some(key) => self.trim(conn, Sequence(self.id.number(key))),
            None => Ok(()),
        }
    }
}

/// Appends the chunks of a commit, sets the status, and returns the last sequence of the stream.
pub(crate) fn append_committed(
    db: &WriteConnection,
    config: &SqliteConfig,
    root: &SessionId,
    at: Timestamp,
    chunks: &[Chunk],
    status: Option<StreamStatus>,
) -> Result<Sequence, OperationError> {
    if chunks.is_empty() && status.is_none() {
        let Some(stream) = take(db, root)? else {
            return Ok(Sequence::START);
        };
        let last = stream.info.last;
        db.cache.borrow_mut().put_stream(root.clone(), stream);
        return Ok(last);
    }
    let conn = &db.conn;
    let mut stream = open(db, root)?;
    let was = stream.info.status;
    if let Some(window) = config.keep_chunks
        && status == Some(StreamStatus::Active)
        && matches!(was, StreamStatus::Ended | StreamStatus::Failed)
    {
        stream.trim_before(conn, before(at, window))?;
    }
    stream.append(conn, chunks, false)?;
    stream.info.status = status.unwrap_or(was);
    stream.save(db, root, at)
}

/// The instant that lies this long before `at`.
fn before(at: Timestamp, window: std::time::Duration) -> i64 {
    let window = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
    millis(at).saturating_sub(window)
}

/// Refuses a writer whose run was taken over, whose effect was committed, or whose root was deleted.
fn admit(db: &WriteConnection, writer: &StreamWriter) -> Result<(), OperationError> {
    let StreamWriter { root, session, .. } = writer;
    let own = headers::take(db, session)?;
    let header = own.as_ref().map(|found| &*found.header);
    if root == session {
        writer.admit(header, header)?;
    } else {
        let roots = headers::take(db, root)?;
        writer.admit(header, roots.as_ref().map(|found| &*found.header))?;
        if let Some(found) = roots {
            headers::give_back(db, root.clone(), found);
        }
    }
    if let Some(found) = own {
        headers::give_back(db, session.clone(), found);
    }
    Ok(())
}

/// Appends deltas, and returns the last sequence of the stream.
pub(crate) fn append_deltas(
    db: &WriteConnection,
    writer: &StreamWriter,
    chunks: &[Chunk],
) -> Result<Sequence, OperationError> {
    admit(db, writer)?;
    let mut stream = open(db, &writer.root)?;
    stream.append(&db.conn, chunks, true)?;
    let at = chunks.last().map(|chunk| chunk.timestamp);
    stream.save(db, &writer.root, at.unwrap_or_default())
}

/// Removes the writer's own deltas after a sequence, and appends the chunk that tells readers.
pub(crate) fn discard_deltas(
    db: &WriteConnection,
    writer: &StreamWriter,
    after: Sequence,
    say: &Chunk,
) -> Result<Sequence, OperationError> {
    admit(db, writer)?;
    let conn = &db.conn;
    let mut stream = open(db, &writer.root)?;
    let batches: Vec<(i64, i64)> = conn
        .prepare_cached("SELECT at, first FROM chunk WHERE at > ? AND at <= ? AND delta = 1")?
        .query_map([stream.id.bound(after.0), stream.id.last()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect::<Result<_, _>>()?;
    for (key, first) in batches {
        let kept = |number: u64, chunk: &Chunk| {
            number <= after.0 || chunk.base.session_id != writer.session
        };
        stream.retain(conn, key, unsigned(first), kept)?;
    }
    stream.append(conn, std::slice::from_ref(say), false)?;
    stream.save(db, &writer.root, say.timestamp)
}

/// Reads the status and the bounds of a stream.
pub(crate) fn info(
    conn: &Connection,
    root: &SessionId,
) -> Result<Option<StreamInfo>, OperationError> {
    Ok(find(conn, root)?.map(|stream| stream.info))
}

/// Reads up to `limit` chunks after a sequence.
pub(crate) fn read(
    conn: &Connection,
    root: &SessionId,
    after: Sequence,
    limit: usize,
) -> Result<Vec<StoredChunk>, OperationError> {
    let mut read = Vec::new();
    let Some(stream) = find(conn, root)? else {
        return Ok(read);
    };
    let after = after.max(stream.info.trimmed);
    let mut statement =
        conn.prepare_cached("SELECT first, data FROM chunk WHERE at > ? AND at <= ? ORDER BY at")?;
    let mut rows = statement.query([stream.id.bound(after.0), stream.id.last()])?;
    while read.len() < limit
        && let Some(row) = rows.next()?
    {
        let first = unsigned(row.get(0)?);
        let batch = packed_chunks::unpack(&content::get(conn, row.get(1)?)?)?;
        let numbered = batch.into_iter().zip(first..);
        let wanted = numbered.filter(|(_, number)| *number > after.0);
        let wanted = wanted.take(limit - read.len());
        read.extend(wanted.map(|(chunk, number)| StoredChunk::new(Sequence(number), chunk)));
    }
    Ok(read)
}

/// Removes the chunks up to a sequence.
pub(crate) fn trim(
    db: &WriteConnection,
    root: &SessionId,
    up_to: Sequence,
) -> Result<(), OperationError> {
    let conn = &db.conn;
    let Some(mut stream) = take(db, root)? else {
        let session = root.clone();
        return Err(StoreError::NotFound { session }.into());
    };
    stream.trim(conn, up_to)?;
    conn.prepare_cached("UPDATE stream SET last = ?, trimmed = ? WHERE id = ?")?
        .execute(params![
            signed(stream.info.last.0),
            signed(stream.info.trimmed.0),
            stream.id
        ])?;
    stream.row.1 = stream.info.trimmed;
    db.cache.borrow_mut().put_stream(root.clone(), stream);
    Ok(())
}

/// Removes the chunks of up to `limit` streams that ended longer ago than the window. Returns the number
/// of streams.
pub(crate) fn trim_ended(
    db: &WriteConnection,
    at: Timestamp,
    window: std::time::Duration,
    limit: usize,
) -> Result<usize, OperationError> {
    let roots: Vec<String> = db
        .conn
        .prepare_cached(
            "SELECT root FROM stream WHERE changed < ? \
             AND status IN ('ended', 'failed') AND last > trimmed ORDER BY changed LIMIT ?",
        )?
        .query_map(params![before(at, window), signed(wide(limit))], |row| {
            row.get(0)
        })?
        .collect::<Result<_, _>>()?;
    let count = roots.len();
    for root in roots {
        trim(db, &from_name("session id", root)?, Sequence(u64::MAX))?;
    }
    Ok(count)
}
