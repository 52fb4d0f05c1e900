//! Removals from streams that are no commits.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::store::{Fence, Header, StoreError};
use helix_agents_core::stream::{Chunk, Sequence, StreamWriter};
use tokio_postgres::types::Type;

use crate::convert;
use crate::database::Transaction;
use crate::headers::ReadHeaders;
use crate::operation_error::OperationError;
use crate::store::Inner;
use crate::stream_rows::{self, BATCH, Rest};
use crate::streams::{KEY, admit, sessions};

/// The most rows that are changed in one transaction, so that other writers do not wait for long.
const ROWS: i64 = 512;

/// What is left of rows from which chunks were removed.
#[derive(Debug, Default)]
struct Left {
    /// Of these nothing.
    dropped: Vec<i64>,
    /// Of these some chunks, in the lines of the same place in `data`.
    changed: Vec<i64>,
    data: Vec<Vec<u8>>,
}

impl Left {
    fn push(&mut self, last: i64, rest: Rest) {
        match rest {
            Rest::All => {}
            Rest::Nothing => self.dropped.push(last),
            Rest::Some(data) => {
                self.changed.push(last);
                self.data.push(data);
            }
        }
    }

    /// Writes all of it at once. The stream is swept up to a sequence, if one is given.
    async fn write(
        &self,
        transaction: &Transaction,
        key: i64,
        swept: Option<i64>,
    ) -> Result<(), OperationError> {
        let sql = "WITH dropped AS (DELETE FROM @chunk WHERE stream = $1 AND last = ANY($2)), \
             changed AS (UPDATE @chunk c SET data = n.data FROM unnest($3, $4) AS n(last, data) \
               WHERE c.stream = $1 AND c.last = n.last) \
             UPDATE @stream SET swept = $5 WHERE key = $1 AND swept < $5";
        let params = [
            (&key as _, Type::INT8),
            (&self.dropped as _, Type::INT8_ARRAY),
            (&self.changed as _, Type::INT8_ARRAY),
            (&self.data as _, Type::BYTEA_ARRAY),
            (&swept as _, Type::INT8),
        ];
        transaction.rows(sql, &params).await?;
        Ok(())
    }
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
    let mut left = Left::default();
    for row in &rows {
        let (last, batch) = stream_rows::columns(row)?;
        left.push(
            last,
            batch.without(|stored| {
                stored.sequence > after && stored.chunk.base.session_id == writer.session
            })?,
        );
    }
    if !rows.is_empty() {
        left.write(&transaction, key, None).await?;
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

/// Removes the deltas up to a sequence whose content is in the messages, a part of the rows at a time. It begins where
/// it ended the last time, also when that was cut short.
pub(crate) async fn condense(
    on: &Inner,
    root: &SessionId,
    up_to: Sequence,
) -> Result<(), OperationError> {
    let up_to = convert::signed(up_to.0);
    loop {
        let transaction = on.database.transaction().await?;
        let sql = format!(
            "UPDATE @stream SET condensed = greatest(condensed, least($2, last)), edits = edits + 1 \
             WHERE key = {KEY} RETURNING key, condensed, swept"
        );
        let name = root.as_str().as_bytes();
        let params = [(&name as _, Type::BYTEA), (&up_to as _, Type::INT8)];
        let found = transaction.rows(&sql, &params).await?;
        let Some(row) = found.first() else {
            transaction.undo().await?;
            return Err(not_found(root));
        };
        let (key, condensed, swept): (i64, i64, i64) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        // No row that has one of these chunks ends later.
        let sql = format!(
            "SELECT last, first, data FROM @chunk WHERE stream = $1 AND last > $2 \
             AND last < $3 + {BATCH} AND first <= $3 ORDER BY last LIMIT $4"
        );
        let params = [
            (&key as _, Type::INT8),
            (&swept as _, Type::INT8),
            (&condensed as _, Type::INT8),
            (&ROWS as _, Type::INT8),
        ];
        let rows = transaction.rows(&sql, &params).await?;
        let end = Sequence(convert::unsigned(condensed));
        let (mut left, mut place) = (Left::default(), swept);
        for row in &rows {
            let (last, batch) = stream_rows::columns(row)?;
            let rest = batch.without(|stored| {
                stored.sequence <= end && stored.chunk.payload.is_in_messages()
            })?;
            left.push(last, rest);
            place = last;
        }
        let is_done = convert::count(rows.len()) < ROWS;
        // The last row may go on after the end.
        let swept = if is_done {
            condensed
        } else {
            place.min(condensed)
        };
        left.write(&transaction, key, Some(swept)).await?;
        transaction.commit().await?;
        if is_done {
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
