//! Reads of streams, and the writes to them that are no commits.

use std::sync::Arc;
use std::time::Instant;

use helix_agents_core::SessionId;
use helix_agents_core::store::{Fence, Header, StoreError};
use helix_agents_core::stream::{
    Chunk, Incarnation, Sequence, StoredChunk, StreamInfo, StreamWriter,
};
use tokio_postgres::types::Type;

use crate::convert;
use crate::database::Transaction;
use crate::headers::{self, ReadHeaders};
use crate::operation_error::OperationError;
use crate::remembered::Known;
use crate::store::Inner;
use crate::stream_rows::{self, Rest};
use crate::write::{Written, written};

/// How often deltas are judged again because the headers of their writer changed.
const ATTEMPTS: usize = 200;

/// The most rows that are changed in one transaction, so that other writers do not wait for long.
const ROWS: i64 = 512;

/// The number of the stream of a root that exists.
const KEY: &str = "(SELECT key FROM @session WHERE name = $1 AND root IS NULL)";

/// Reads the status and the bounds of a stream.
pub(crate) async fn info(
    on: &Inner,
    root: &SessionId,
) -> Result<Option<StreamInfo>, OperationError> {
    let sql =
        format!("SELECT key, status, last, trimmed, condensed FROM @stream WHERE key = {KEY}");
    let name = root.as_str().as_bytes();
    let rows = on.database.read(&sql, &[(&name, Type::BYTEA)]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let sequence = |column| -> Result<Sequence, OperationError> {
        Ok(Sequence(convert::unsigned(row.try_get(column)?)))
    };
    Ok(Some(StreamInfo {
        incarnation: Incarnation(convert::unsigned(row.try_get(0)?)),
        status: convert::from_name("stream status", row.try_get(1)?)?,
        last: sequence(2)?,
        trimmed: sequence(3)?,
        condensed: sequence(4)?,
    }))
}

/// Reads up to `limit` chunks after a sequence.
pub(crate) async fn read(
    on: &Inner,
    root: &SessionId,
    after: Sequence,
    limit: usize,
) -> Result<Vec<StoredChunk>, OperationError> {
    let sql = format!(
        "SELECT c.last, c.first, c.data, t.trimmed FROM @stream t \
         JOIN @chunk c ON c.stream = t.key AND c.last > greatest($2, t.trimmed) \
         WHERE t.key = {KEY} ORDER BY c.last LIMIT $3"
    );
    let name = root.as_str().as_bytes();
    let (mut read, mut place) = (Vec::new(), after);
    // Nearly every row has a chunk to read, so `limit` rows are enough at once.
    while read.len() < limit {
        let most = convert::count(limit - read.len()).min(ROWS);
        let from = convert::signed(place.0);
        let rows = on
            .database
            .read(
                &sql,
                &[
                    (&name, Type::BYTEA),
                    (&from, Type::INT8),
                    (&most, Type::INT8),
                ],
            )
            .await?;
        for row in &rows {
            let (last, batch) = stream_rows::columns(row)?;
            let trimmed = Sequence(convert::unsigned(row.try_get(3)?));
            for stored in batch.after(place.max(trimmed)) {
                if read.len() < limit {
                    read.push(stored?);
                }
            }
            place = Sequence(convert::unsigned(last));
        }
        if convert::count(rows.len()) < most {
            break;
        }
    }
    Ok(read)
}

/// Appends deltas in one round trip, and returns the last sequence of the stream.
pub(crate) async fn append_deltas(
    on: &Inner,
    writer: &StreamWriter,
    chunks: &[Chunk],
) -> Result<Sequence, OperationError> {
    let _turn = on.turns.of(&writer.root).await;
    let batches = stream_rows::batches(chunks)?;
    let (counts, texts): (Vec<i64>, Vec<Vec<u8>>) = batches.into_iter().unzip();
    let added = convert::count(chunks.len());
    let mut is_fresh = false;
    for _ in 0..ATTEMPTS {
        let known = match is_fresh {
            true => None,
            false => remembered(on, writer),
        };
        is_fresh = known.is_none();
        let read = match known {
            Some(read) => read,
            None => headers::read(on, &sessions(writer)).await?,
        };
        if let Err(error) = admit(writer, &read) {
            if is_fresh {
                return Err(error);
            }
            is_fresh = true;
            continue;
        }
        let (keys, versions) = places(writer, &read);
        let asked = Instant::now();
        let rows = on
            .database
            .write(
                "SELECT @append($1, $2, $3, $4, $5, $6)",
                &[
                    (&keys, Type::INT8_ARRAY),
                    (&versions, Type::INT8_ARRAY),
                    (&read.keys.get(&writer.root), Type::INT8),
                    (&counts, Type::INT8_ARRAY),
                    (&texts, Type::BYTEA_ARRAY),
                    (&added, Type::INT8),
                ],
            )
            .await;
        let done = match rows {
            Err(error) if error.is_conflict() => Written::Conflict,
            rows => written(on, asked, &rows?)?,
        };
        match done {
            Written::Done(sequence) => {
                remember(on, &read);
                return Ok(sequence);
            }
            Written::Conflict => is_fresh = true,
        }
    }
    Err(OperationError::overtaken(ATTEMPTS))
}

/// The sessions whose headers judge a writer.
fn sessions(writer: &StreamWriter) -> Vec<SessionId> {
    let mut sessions = vec![writer.root.clone()];
    if writer.session != writer.root {
        sessions.push(writer.session.clone());
    }
    sessions
}

/// The headers that judge a writer, if they are remembered.
fn remembered(on: &Inner, writer: &StreamWriter) -> Option<ReadHeaders> {
    let mut read = ReadHeaders::default();
    for session in sessions(writer) {
        let (key, header) = on.remembered.header(&session)?;
        read.keys.insert(session.clone(), key);
        read.headers.insert(session, header);
    }
    Some(read)
}

/// Remembers headers that are not known yet.
fn remember(on: &Inner, read: &ReadHeaders) {
    for (session, header) in read.headers.iter() {
        let is_known = on.remembered.header(session);
        let is_known = is_known.is_some_and(|(_, known)| Arc::ptr_eq(&known, header));
        if let Some(key) = read.keys.get(session).filter(|_| !is_known) {
            let known = Known {
                key: *key,
                header: Arc::clone(header),
                state: None,
            };
            on.remembered.put(session.clone(), known);
        }
    }
}

/// Refuses a writer whose run was taken over, whose effect was committed, or whose root was deleted.
fn admit(writer: &StreamWriter, read: &ReadHeaders) -> Result<(), OperationError> {
    let header = |session: &SessionId| read.headers.get(session).map(|header| &**header);
    Ok(writer.admit(header(&writer.session), header(&writer.root))?)
}

/// The numbers and versions of the headers that judge a writer, in the order of their names. Of a root that is not
/// the writer only its existence matters.
fn places(writer: &StreamWriter, read: &ReadHeaders) -> (Vec<i64>, Vec<i64>) {
    let mut sessions = sessions(writer);
    sessions.sort();
    let places = sessions.iter().filter_map(|session| {
        let version = match *session == writer.session {
            true => convert::signed(read.headers.get(session)?.session.version),
            false => -1,
        };
        Some((*read.keys.get(session)?, version))
    });
    places.unzip()
}

/// Removes the writer's own deltas after a sequence, and appends the chunk that tells readers.
pub(crate) async fn discard_deltas(
    on: &Inner,
    writer: &StreamWriter,
    after: Sequence,
    say: &Chunk,
) -> Result<Sequence, OperationError> {
    let _turn = on.turns.of(&writer.root).await;
    let transaction = on.database.transaction().await?;
    let read = locked(&transaction, writer).await?;
    if let Err(error) = admit(writer, &read) {
        transaction.undo().await?;
        return Err(error);
    }
    let key = read.keys.get(&writer.root).copied().unwrap_or_default();
    // The stream is locked first: nobody changes its rows meanwhile.
    let begin = "SELECT @advance($1, 1, NULL, 1)";
    let rows = transaction.rows(begin, &[(&key, Type::INT8)]).await?;
    let before: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?;
    let place = before.unwrap_or_default() + 1;
    let rows = transaction
        .rows(
            "SELECT last, first, data FROM @chunk WHERE stream = $1 AND last > $2 AND delta",
            &[(&key, Type::INT8), (&convert::signed(after.0), Type::INT8)],
        )
        .await?;
    for row in &rows {
        let (last, batch) = stream_rows::columns(row)?;
        let rest = batch.without(|stored| {
            stored.sequence > after && stored.chunk.base.session_id == writer.session
        })?;
        replace(&transaction, key, last, rest).await?;
    }
    let said = convert::document(say)?;
    transaction
        .rows(
            "INSERT INTO @chunk VALUES ($1, $2, $2, false, $3)",
            &[
                (&key, Type::INT8),
                (&place, Type::INT8),
                (&said, Type::BYTEA),
            ],
        )
        .await?;
    transaction.commit().await?;
    Ok(Sequence(convert::unsigned(place)))
}

/// Reads the headers that judge a writer, in the order of their names, and keeps them from changing.
async fn locked(
    transaction: &Transaction,
    writer: &StreamWriter,
) -> Result<ReadHeaders, OperationError> {
    let mut sessions = sessions(writer);
    sessions.sort();
    let mut read = ReadHeaders {
        floor: Fence::default(),
        ..ReadHeaders::default()
    };
    for session in sessions {
        let rows = transaction
            .rows(
                "SELECT key, header FROM @session WHERE name = $1 FOR SHARE",
                &[(&session.as_str().as_bytes(), Type::BYTEA)],
            )
            .await?;
        if let Some(row) = rows.first() {
            let header: Header = convert::parse(row.try_get(1)?)?;
            read.keys.insert(session.clone(), row.try_get(0)?);
            read.headers.insert(session, Arc::new(header));
        }
    }
    Ok(read)
}

/// Writes what is left of a row.
async fn replace(
    transaction: &Transaction,
    key: i64,
    last: i64,
    rest: Rest,
) -> Result<(), OperationError> {
    match rest {
        Rest::All => {}
        Rest::Some(data) => {
            let sql = "UPDATE @chunk SET data = $3 WHERE stream = $1 AND last = $2";
            let params = [
                (&key as _, Type::INT8),
                (&last as _, Type::INT8),
                (&data as _, Type::BYTEA),
            ];
            transaction.rows(sql, &params).await?;
        }
        Rest::Nothing => {
            let sql = "DELETE FROM @chunk WHERE stream = $1 AND last = $2";
            let params = [(&key as _, Type::INT8), (&last as _, Type::INT8)];
            transaction.rows(sql, &params).await?;
        }
    }
    Ok(())
}

/// Removes the deltas up to a sequence whose content is in the messages, a part of the rows at a time.
pub(crate) async fn condense(
    on: &Inner,
    root: &SessionId,
    up_to: Sequence,
) -> Result<(), OperationError> {
    let up_to = convert::signed(up_to.0);
    let mut place = 0;
    loop {
        let transaction = on.database.transaction().await?;
        let sql = format!(
            "UPDATE @stream SET condensed = greatest(condensed, least($2, last)), edits = edits + 1 \
             WHERE key = {KEY} RETURNING key, condensed"
        );
        let name = root.as_str().as_bytes();
        let params = [(&name as _, Type::BYTEA), (&up_to as _, Type::INT8)];
        let found = transaction.rows(&sql, &params).await?;
        let Some(row) = found.first() else {
            transaction.undo().await?;
            return Err(not_found(root));
        };
        let (key, condensed): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let rows = transaction
            .rows(
                "SELECT last, first, data FROM @chunk WHERE stream = $1 AND last > $2 AND first <= $3 \
                 ORDER BY last LIMIT $4",
                &[
                    (&key, Type::INT8),
                    (&place, Type::INT8),
                    (&condensed, Type::INT8),
                    (&ROWS, Type::INT8),
                ],
            )
            .await?;
        let end = Sequence(convert::unsigned(condensed));
        for row in &rows {
            let (last, batch) = stream_rows::columns(row)?;
            let rest = batch.without(|stored| {
                stored.sequence <= end && stored.chunk.payload.is_in_messages()
            })?;
            replace(&transaction, key, last, rest).await?;
            place = last;
        }
        transaction.commit().await?;
        if convert::count(rows.len()) < ROWS {
            return Ok(());
        }
    }
}

/// Removes the chunks up to a sequence. A row that ends after it stays, and readers skip its beginning.
pub(crate) async fn trim(
    on: &Inner,
    root: &SessionId,
    up_to: Sequence,
) -> Result<(), OperationError> {
    let sql = format!(
        "WITH trimmed AS (UPDATE @stream SET trimmed = greatest(trimmed, least($2, last)), \
           edits = edits + 1 WHERE key = {KEY} RETURNING key, trimmed), \
         removed AS (DELETE FROM @chunk c USING trimmed t \
           WHERE c.stream = t.key AND c.last <= t.trimmed) \
         SELECT key FROM trimmed"
    );
    let name = root.as_str().as_bytes();
    let up_to = convert::signed(up_to.0);
    let params = [(&name as _, Type::BYTEA), (&up_to as _, Type::INT8)];
    match on.database.write(&sql, &params).await?.is_empty() {
        true => Err(not_found(root)),
        false => Ok(()),
    }
}

fn not_found(root: &SessionId) -> OperationError {
    let session = root.clone();
    StoreError::NotFound { session }.into()
}
