//! The tables `stream` and `chunk`: reads and writes of streams inside a transaction.

mod rewind;

use helix_agents_core::SessionId;
use helix_agents_core::store::{Plan, StoreError};
use helix_agents_core::stream::{
    Chunk, Sequence, StoredChunk, StreamInfo, StreamStatus, StreamWriter,
};
use helix_agents_core::time::Timestamp;
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OptionalExtension, params};

use crate::condense::{self, Part};
use crate::content::{self, RowRef, ValueKind};
use crate::headers;
use crate::key::{self, OwnerId, from_name, millis, signed, unsigned, variant_name, wide};
use crate::operation_error::OperationError;
use crate::origins::{AuthorReader, Authors};
use crate::packed_chunks::{self, Batch};
use crate::write_connection::WriteConnection;

/// The most chunks in one row, so that a reader of a few does not read thousands.
const BATCH: usize = 256;

/// The most rows that are condensed in one transaction, so that other writers do not wait for long.
const CONDENSED_ROWS: usize = 512;

/// The size up to which rows are joined when they are condensed, so that a reader of a few chunks does not
/// read much.
const JOINED_BYTES: usize = 64 * 1024;

/// A stream as it is stored.
#[derive(Debug)]
pub(crate) struct Stream {
    id: OwnerId,
    info: StreamInfo,
    /// The status and the trimmed sequence as the row of the stream has them.
    row: (StreamStatus, Sequence),
    authors: Authors,
}

impl Stream {
    /// A stream whose row says this.
    fn stored(id: OwnerId, info: StreamInfo) -> Self {
        let row = (info.status, info.trimmed);
        let authors = Authors::default();
        Self {
            id,
            info,
            row,
            authors,
        }
    }
}

fn find(conn: &Connection, root: &SessionId) -> Result<Option<Stream>, OperationError> {
    // While a stream is active its row is not written with every batch: the last batch says where
    // it ends.
    let row: Option<(OwnerId, [i64; 3], String)> = conn
        .prepare_cached(
            "SELECT id, max(last, trimmed, coalesce((SELECT max(at) FROM chunk \
             WHERE at BETWEEN id << 32 AND (id << 32) + 4294967295) - (id << 32), 0)), \
             trimmed, condensed, status FROM stream WHERE root = ?",
        )?
        .query_row([root.as_str()], |row| {
            let bounds = [row.get(1)?, row.get(2)?, row.get(3)?];
            Ok((row.get(0)?, bounds, row.get(4)?))
        })
        .optional()?;
    row.map(|(id, bounds, status)| {
        let [last, trimmed, condensed] = bounds.map(|number| Sequence(unsigned(number)));
        let info = StreamInfo {
            incarnation: id.incarnation(),
            status: from_name("stream status", status)?,
            last,
            trimmed,
            condensed,
        };
        Ok(Stream::stored(id, info))
    })
    .transpose()
}

/// Takes a stream out of the cache, or reads it. The caller puts it back.
pub(crate) fn take(
    db: &WriteConnection,
    root: &SessionId,
) -> Result<Option<Stream>, OperationError> {
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
        condensed: start,
    };
    Ok(Stream::stored(id, info))
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
            self.insert(conn, (first, self.info.last), batch, &[], delta)?;
        }
        Ok(())
    }

    fn insert(
        &mut self,
        conn: &Connection,
        (first, last): (Sequence, Sequence),
        batch: &[Chunk],
        gaps: &[u64],
        delta: bool,
    ) -> Result<(), OperationError> {
        let key = self.id.row(last.0)?;
        let time = batch.last().map_or(0, |chunk| millis(chunk.timestamp));
        let packed = packed_chunks::pack(&Batch {
            chunks: batch,
            authors: self.authors.numbers(conn, self.id, batch)?,
            gaps,
            time: key::time(time),
        })?;
        let holder = RowRef::new(self.id, ValueKind::Chunk, key);
        let cell = content::put(conn, holder, packed)?;
        conn.prepare_cached(
            "INSERT INTO chunk (at, first, delta, time, data) VALUES (?, ?, ?, ?, ?)",
        )?
        .execute(params![key, signed(first.0), delta, time, cell])?;
        Ok(())
    }

    /// Removes chunks from a batch.
    fn retain(
        &mut self,
        conn: &Connection,
        key: i64,
        kept: impl Fn(&StoredChunk) -> bool,
    ) -> Result<(), OperationError> {
        let ((first, time), cell, delta) = conn
            .prepare_cached("SELECT first, time, data, delta FROM chunk WHERE at = ?")?
            .query_row([key], |row| {
                Ok(((row.get(0)?, row.get(1)?), row.get(2)?, row.get(3)?))
            })?;
        let mut authors = AuthorReader::new(conn, self.id);
        let mut rest = unpack(conn, first, time, cell, &mut authors)?;
        let whole = rest.len();
        rest.retain(kept);
        if rest.len() == whole {
            return Ok(());
        }
        conn.prepare_cached("DELETE FROM chunk WHERE at = ?")?
            .execute([key])?;
        content::release(conn, RowRef::new(self.id, ValueKind::Chunk, key))?;
        self.insert_rest(conn, rest, delta)
    }

    /// Inserts what is left of batches, as many chunks in a row as it takes.
    fn insert_rest(
        &mut self,
        conn: &Connection,
        rest: Vec<StoredChunk>,
        delta: bool,
    ) -> Result<(), OperationError> {
        let (numbers, chunks): (Vec<Sequence>, Vec<Chunk>) = rest
            .into_iter()
            .map(|stored| (stored.sequence, stored.chunk))
            .unzip();
        for (numbers, chunks) in numbers.chunks(BATCH).zip(chunks.chunks(BATCH)) {
            let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
                continue;
            };
            let mut next = *first;
            let gaps: Vec<u64> = numbers
                .iter()
                .map(|number| {
                    let gap = number.0 - next.0;
                    next = number.next();
                    gap
                })
                .collect();
            self.insert(conn, (*first, *last), chunks, &gaps, delta)?;
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
        if up_to == self.info.last {
            self.authors.clear(conn, self.id)?;
        }
        self.info.trimmed = self.info.trimmed.max(up_to);
        Ok(())
    }

    /// Removes the deltas of past turns up to a sequence, at most so many rows at once. Begins after the last
    /// row of the part before. What remains of several rows is joined in fewer.
    pub(crate) fn condense(
        &mut self,
        conn: &Connection,
        begun: Option<Sequence>,
        up_to: Sequence,
    ) -> Result<Part, OperationError> {
        let up_to = up_to.min(self.info.last);
        // A process that was killed may have left some of what is condensed already.
        let known = Some(self.info.condensed).filter(|known| *known < up_to);
        let after = begun.or(known).unwrap_or(Sequence::START);
        if self.info.condensed < up_to {
            self.info.condensed = up_to;
            conn.prepare_cached("UPDATE stream SET condensed = ? WHERE id = ?")?
                .execute(params![signed(up_to.0), self.id])?;
        }
        let (from, to) = (self.id.bound(after.0) + 1, self.id.bound(up_to.0));
        let rows = conn
            .prepare_cached(
                "SELECT at, first, time, data FROM chunk WHERE at BETWEEN ? AND ? ORDER BY at \
                 LIMIT ?",
            )?
            .query_map([from, to, signed(wide(CONDENSED_ROWS))], |row| {
                Ok((row.get(0)?, (row.get(1)?, row.get(2)?), row.get(3)?))
            })?
            .collect::<Result<Vec<(i64, (i64, i64), SqlValue)>, _>>()?;
        let Some(last) = rows.last().map(|(key, ..)| *key) else {
            return Ok(Part::Done);
        };
        let count = rows.len();
        let mut groups = vec![Vec::new()];
        let mut bytes = 0;
        let mut authors = AuthorReader::new(conn, self.id);
        for (_, (first, time), cell) in rows {
            bytes += cell_bytes(&cell);
            let mut batch = unpack(conn, first, time, cell, &mut authors)?;
            batch.retain(|stored| !stored.chunk.payload.is_in_messages());
            if bytes > JOINED_BYTES {
                groups.push(Vec::new());
                bytes = 0;
            }
            if let Some(group) = groups.last_mut() {
                group.extend(batch);
            }
        }
        conn.prepare_cached("DELETE FROM chunk WHERE at BETWEEN ? AND ?")?
            .execute([from, last])?;
        content::release_range(conn, self.id, ValueKind::Chunk, from, last)?;
        for group in groups {
            self.insert_rest(conn, group, false)?;
        }
        Ok(match count < CONDENSED_ROWS {
            true => Part::Done,
            false => Part::More(Sequence(self.id.number(last))),
        })
    }
}

/// The size of a value in a row.
fn cell_bytes(cell: &SqlValue) -> usize {
    match cell {
        SqlValue::Text(text) => text.len(),
        SqlValue::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}

/// Unpacks the chunks of a row.
fn unpack(
    conn: &Connection,
    first: i64,
    time: i64,
    cell: SqlValue,
    authors: &mut AuthorReader<'_>,
) -> Result<Vec<StoredChunk>, OperationError> {
    let (first, time) = (Sequence(unsigned(first)), key::time(time));
    let text = content::get(conn, cell)?;
    packed_chunks::unpack(&text, first, time, |number| authors.get(number))
}

/// Removes the chunks that a commit rewinds, appends those of the commit, sets the status, and returns the last sequence of the stream.
pub(crate) fn append_committed(
    db: &WriteConnection,
    root: &SessionId,
    at: Timestamp,
    plan: &Plan,
) -> Result<Sequence, OperationError> {
    let (chunks, status) = (&plan.chunks, plan.stream);
    if chunks.is_empty() && status.is_none() && plan.rewind.is_none() {
        let Some(stream) = take(db, root)? else {
            return Ok(Sequence::START);
        };
        let last = stream.info.last;
        db.cache.borrow_mut().put_stream(root.clone(), stream);
        return Ok(last);
    }
    let conn = &db.conn;
    let mut stream = open(db, root)?;
    if let Some(rewind) = &plan.rewind {
        stream.rewind(conn, rewind)?;
    }
    stream.append(conn, chunks, false)?;
    stream.info.status = status.unwrap_or(stream.info.status);
    if matches!(status, Some(StreamStatus::Ended | StreamStatus::Failed)) {
        condense::turn_ended(conn, at, stream.id, stream.info.last)?;
    }
    stream.save(db, root, at)
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
    let batches: Vec<i64> = conn
        .prepare_cached("SELECT at FROM chunk WHERE at > ? AND at <= ? AND delta = 1")?
        .query_map([stream.id.bound(after.0), stream.id.last()], |row| {
            row.get(0)
        })?
        .collect::<Result<_, _>>()?;
    for key in batches {
        let kept = |stored: &StoredChunk| {
            stored.sequence <= after || stored.chunk.base.session_id != writer.session
        };
        stream.retain(conn, key, kept)?;
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
    let mut statement = conn.prepare_cached(
        "SELECT first, time, data FROM chunk WHERE at > ? AND at <= ? ORDER BY at",
    )?;
    let mut authors = AuthorReader::new(conn, stream.id);
    let mut rows = statement.query([stream.id.bound(after.0), stream.id.last()])?;
    while read.len() < limit
        && let Some(row) = rows.next()?
    {
        let batch = unpack(conn, row.get(0)?, row.get(1)?, row.get(2)?, &mut authors)?;
        let wanted = batch.into_iter().filter(|stored| stored.sequence > after);
        read.extend(wanted.take(limit - read.len()));
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
