//! Reads of streams, and appends of deltas.

use std::sync::Arc;
use std::time::Instant;

use helix_agents_core::SessionId;
use helix_agents_core::stream::{
    Chunk, Incarnation, Sequence, StoredChunk, StreamInfo, StreamWriter,
};
use tokio_postgres::types::Type;

use crate::convert;
use crate::given_up;
use crate::headers::{self, ReadHeaders};
use crate::operation_error::OperationError;
use crate::remembered::Known;
use crate::store::Inner;
use crate::stream_rows::{self, BATCH};
use crate::write::{Written, written};

/// How often deltas are judged again because the headers of their writer changed.
const ATTEMPTS: usize = 200;

/// The most rows that are fetched at once.
const ROWS: i64 = 512;

/// The most sequences whose rows are fetched at once.
const SPAN: i64 = 4096;

/// As a span, all sequences that follow.
const EVERY: i64 = i64::MAX / 4;

/// The number of rows that are fetched at first where little is left of each.
const FEW: i64 = 8;

/// The number of the stream of a root that exists.
pub(crate) const KEY: &str = "(SELECT key FROM @session WHERE name = $1 AND root IS NULL)";

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
///
/// The rows of so many sequences are asked for, so that little is fetched that is not returned, and the next ones when
/// those did not have enough. Where much was removed the sequences say little: a few rows are asked for then, and more
/// each time.
pub(crate) async fn read(
    on: &Inner,
    root: &SessionId,
    after: Sequence,
    limit: usize,
) -> Result<Vec<StoredChunk>, OperationError> {
    given_up::look(on, root).await?;
    // A row that begins with one of these sequences does not end later than the last one of the longest.
    let sql = format!(
        "SELECT c.last, c.first, c.data, t.last, t.trimmed FROM @stream t \
         LEFT JOIN LATERAL (SELECT last, first, data FROM @chunk \
           WHERE stream = t.key AND last > greatest($2, t.trimmed) \
           AND last < greatest($2, t.trimmed) + $3 + {BATCH} AND first <= greatest($2, t.trimmed) + $3 \
           ORDER BY last LIMIT $4) c ON true \
         WHERE t.key = {KEY} ORDER BY c.last"
    );
    let name = root.as_str().as_bytes();
    let (mut read, mut place) = (Vec::new(), after);
    let (mut is_dense, mut few) = (true, FEW);
    while read.len() < limit {
        let missing = convert::count(limit - read.len());
        let (span, most) = match is_dense {
            true => (missing.min(SPAN), ROWS),
            false => (EVERY, few),
        };
        // What is added to it must not leave the range of the type.
        let from = convert::signed(place.0).min(EVERY);
        let params = [
            (&name as _, Type::BYTEA),
            (&from as _, Type::INT8),
            (&span as _, Type::INT8),
            (&most as _, Type::INT8),
        ];
        let rows = on.database.read(&sql, &params).await?;
        let (mut found, mut end) = (0, Sequence::START);
        let known = read.len();
        for row in &rows {
            end = Sequence(convert::unsigned(row.try_get(3)?));
            // A stream without such rows.
            let Some(last) = row.try_get(0)? else {
                break;
            };
            found += 1;
            let trimmed = Sequence(convert::unsigned(row.try_get(4)?));
            let (_, batch) = stream_rows::columns(row)?;
            let wanted = limit - read.len();
            for stored in batch.after(place.max(trimmed)).take(wanted) {
                read.push(stored?);
            }
            place = Sequence(convert::unsigned(last));
            if read.len() == limit {
                break;
            }
        }
        if place >= end || (!is_dense && found < most) {
            break;
        }
        if !is_dense {
            few = (few * 2).min(ROWS);
        }
        let given = convert::count(read.len() - known);
        is_dense = is_dense && (found == most || given > span / 2);
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
    let append = on.given_up.number();
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
                "SELECT @append($1, $2, $3, $4, $5, $6, $7)",
                &[
                    (&keys, Type::INT8_ARRAY),
                    (&versions, Type::INT8_ARRAY),
                    (&read.keys.get(&writer.root), Type::INT8),
                    (&counts, Type::INT8_ARRAY),
                    (&texts, Type::BYTEA_ARRAY),
                    (&added, Type::INT8),
                    (&append, Type::INT8),
                ],
            )
            .await;
        let done = match rows {
            Err(error) if error.is_conflict() => Written::Conflict,
            Err(error) if error.is_unsure() => {
                on.given_up.add(&writer.root, append);
                return Err(error);
            }
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
pub(crate) fn sessions(writer: &StreamWriter) -> Vec<SessionId> {
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
pub(crate) fn admit(writer: &StreamWriter, read: &ReadHeaders) -> Result<(), OperationError> {
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
