//! The rows of a stream: batches of chunks, one line each.
//!
//! The line of a chunk that was removed is empty, so that the others keep their sequences.

use helix_agents_core::store::Plan;
use helix_agents_core::stored::{StoredError, decode};
use helix_agents_core::stream::{Chunk, Sequence, StoredChunk, StreamRewind};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::convert;
use crate::operation_error::OperationError;
use crate::ops::{self, Op, Ops};
use crate::store::Inner;

/// The most chunks in one row, so that a reader of a few does not read thousands. No version writes longer ones: it
/// tells which rows can have a sequence.
pub(crate) const BATCH: usize = 256;

/// What a commit writes to a stream, beside the chunks in its operations.
#[derive(Debug)]
pub(crate) struct StreamWrite {
    pub(crate) key: i64,
    /// The end of the stream and the number of removals on which a rewind was planned; -1 for no stream.
    pub(crate) expected: Option<[i64; 2]>,
    pub(crate) status: Option<String>,
    /// The number of chunks to append.
    pub(crate) added: i64,
}

/// Prepares what a plan writes to the stream with this number.
pub(crate) async fn prepare(
    on: &Inner,
    key: i64,
    plan: &mut Plan,
    ops: &mut Ops,
) -> Result<StreamWrite, OperationError> {
    let expected = match &plan.rewind {
        Some(rewind) => Some(prepare_rewind(on, key, rewind, ops).await?),
        None => None,
    };
    let chunks = std::mem::take(&mut plan.chunks);
    for (count, data) in batches(&chunks)? {
        ops.push(Op {
            kind: ops::CHUNKS,
            key,
            n: count,
            data: Some(data),
            ..Op::default()
        });
    }
    let status = plan.stream;
    Ok(StreamWrite {
        key,
        expected,
        status: status
            .map(|one| convert::variant_name("stream status", one))
            .transpose()?,
        added: convert::count(chunks.len()),
    })
}

/// Chunks as rows: the number of chunks in each, and their lines.
pub(crate) fn batches(chunks: &[Chunk]) -> Result<Vec<(i64, Vec<u8>)>, StoredError> {
    let batches = chunks.chunks(BATCH);
    batches
        .map(|batch| Ok((convert::count(batch.len()), convert::lines(batch)?)))
        .collect()
}

/// Reads what a rewind removes, and adds the operations that do it.
async fn prepare_rewind(
    on: &Inner,
    key: i64,
    rewind: &StreamRewind,
    ops: &mut Ops,
) -> Result<[i64; 2], OperationError> {
    let sql = "SELECT t.last, t.edits, c.last, c.first, c.data FROM @stream t \
         LEFT JOIN @chunk c ON c.stream = t.key AND c.last > $2 WHERE t.key = $1";
    let to = convert::signed(rewind.to.0);
    let rows = on
        .database
        .read(sql, &[(&key, Type::INT8), (&to, Type::INT8)])
        .await?;
    let mut expected = [-1, 0];
    for row in &rows {
        expected = [row.try_get(0)?, row.try_get(1)?];
        let Some(last) = row.try_get::<_, Option<i64>>(2)? else {
            continue;
        };
        let batch = Batch::read(row.try_get(3)?, row.try_get(4)?)?;
        match batch.without(|stored| !rewind.keeps(stored))? {
            Rest::All => {}
            Rest::Some(data) => ops.push(Op {
                kind: ops::REPLACE_CHUNKS,
                key,
                n: last,
                data: Some(data),
                ..Op::default()
            }),
            Rest::Nothing => ops.push(Op {
                kind: ops::DROP_CHUNKS,
                key,
                n: last,
                ..Op::default()
            }),
        }
    }
    Ok(expected)
}

/// A row of chunks.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    first: Sequence,
    lines: Vec<&'a str>,
}

/// What is left of a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// All of its chunks.
    All,
    /// Some of them, in these lines.
    Some(Vec<u8>),
    /// None.
    Nothing,
}

impl<'a> Batch<'a> {
    pub(crate) fn read(first: i64, data: &'a [u8]) -> Result<Self, StoredError> {
        Ok(Self {
            first: Sequence(convert::unsigned(first)),
            lines: convert::text("chunk", data)?.split('\n').collect(),
        })
    }

    /// Its chunks after a sequence, each with its line.
    fn stored(
        &self,
        after: Sequence,
    ) -> impl Iterator<Item = Result<(&'a str, StoredChunk), StoredError>> + '_ {
        let numbered = (self.first.0..).map(Sequence).zip(&self.lines);
        let there = numbered.filter(move |(at, line)| *at > after && !line.is_empty());
        there.map(|(at, line)| Ok((*line, StoredChunk::new(at, decode(line)?))))
    }

    /// Its chunks after a sequence.
    pub(crate) fn after(
        &self,
        after: Sequence,
    ) -> impl Iterator<Item = Result<StoredChunk, StoredError>> + '_ {
        self.stored(after).map(|stored| Ok(stored?.1))
    }

    /// What is left of it without some chunks.
    pub(crate) fn without(
        &self,
        mut is_removed: impl FnMut(&StoredChunk) -> bool,
    ) -> Result<Rest, StoredError> {
        let mut kept = vec![""; self.lines.len()];
        let (mut count, mut removed) = (0, 0);
        for stored in self.stored(Sequence::START) {
            let (line, stored) = stored?;
            if is_removed(&stored) {
                removed += 1;
                continue;
            }
            count += 1;
            let place = usize::try_from(stored.sequence.0 - self.first.0).unwrap_or(usize::MAX);
            if let Some(slot) = kept.get_mut(place) {
                *slot = line;
            }
        }
        Ok(match (count, removed) {
            (_, 0) => Rest::All,
            (0, _) => Rest::Nothing,
            _ => Rest::Some(kept.join("\n").into_bytes()),
        })
    }
}

/// Reads the columns `last`, `first` and `data` of a row of chunks.
pub(crate) fn columns(row: &Row) -> Result<(i64, Batch<'_>), OperationError> {
    Ok((
        row.try_get(0)?,
        Batch::read(row.try_get(1)?, row.try_get(2)?)?,
    ))
}
