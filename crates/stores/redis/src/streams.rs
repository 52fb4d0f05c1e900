//! The stream of a root: a hash with its bounds, a Redis stream of batches, and a hash with what is left of batches of
//! which a part was removed.

use helix_agents_core::SessionId;
use helix_agents_core::store::{Fence, StoreError};
use helix_agents_core::stream::{
    Chunk, Incarnation, Sequence, StoredChunk, StreamInfo, StreamStatus,
};
use redis::Value;

use crate::batches;
use crate::failure::{Failure, Result};
use crate::keys::{Shard, StreamKeys};
use crate::reply;
use crate::script::{Arguments, Transaction, words};
use crate::store::RedisStore;

/// How many batches are read at once.
const BATCHES: usize = 128;

/// The kinds of batches: by `append_deltas`, and by a commit.
pub(crate) const DELTAS: &str = "d";
pub(crate) const COMMITTED: &str = "c";

/// A batch of a stream.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) last: Sequence,
    pub(crate) is_delta: bool,
    /// Whether a part of it was removed.
    is_rest: bool,
    pub(crate) chunks: Vec<StoredChunk>,
}

/// Batches, and the bounds of the stream when they were read.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) entries: Vec<Entry>,
    pub(crate) trimmed: Sequence,
    /// The bounds as they are stored, to be compared.
    last: String,
    edits: String,
    /// Of which stream of that name they are; empty if there is none.
    pub(crate) incarnation: String,
}

fn status_text(status: StreamStatus) -> Result<String> {
    let name =
        serde_json::to_value(status).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(name.as_str().unwrap_or_default().to_owned())
}

/// The bounds of a stream, of the fields that [`INFO`] names.
pub(crate) const INFO: [&str; 5] = ["inc", "status", "last", "trimmed", "condensed"];

/// Takes a description out of these fields.
pub(crate) fn info(fields: Vec<Option<String>>) -> Result<Option<StreamInfo>> {
    let mut fields = fields.into_iter();
    let mut next = || fields.next().flatten();
    let Some(incarnation) = next() else {
        return Ok(None);
    };
    let number = |text: Option<String>| match text {
        None => Ok(0),
        Some(text) => text
            .parse()
            .map_err(|_| Failure::corrupt("stream", "a bound is no number")),
    };
    let status = match next() {
        None => StreamStatus::Active,
        Some(name) => serde_json::from_value(name.into())
            .map_err(|error| Failure::corrupt("stream", error.to_string()))?,
    };
    Ok(Some(StreamInfo {
        incarnation: Incarnation(number(Some(incarnation))?),
        status,
        last: Sequence(number(next())?),
        trimmed: Sequence(number(next())?),
        condensed: Sequence(number(next())?),
    }))
}

fn entry(value: Value, rest: Option<&String>) -> Result<Entry> {
    let mut parts = reply::list(value)?.into_iter();
    let id = reply::text(parts.next().unwrap_or_default())?.unwrap_or_default();
    let fields = reply::pairs(parts.next().unwrap_or_default())?;
    let field = |name: &str| {
        fields
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value)
    };
    let last = id
        .split('-')
        .next()
        .and_then(|last| last.parse::<u64>().ok());
    let count = field("n").and_then(|count| count.parse::<u64>().ok());
    let (Some(last), Some(count), Some(text)) = (last, count, field("d")) else {
        return Err(Failure::corrupt(
            "batch",
            format!("the entry {id} is not complete"),
        ));
    };
    let is_delta = field("k").is_some_and(|kind| kind == DELTAS);
    let text = rest.unwrap_or(text);
    Ok(Entry {
        last: Sequence(last),
        is_delta,
        is_rest: rest.is_some(),
        chunks: batches::unpack(text, (last + 1).saturating_sub(count))?,
        id,
    })
}

impl RedisStore {
    /// Reads batches that end after a sequence, at most so many.
    pub(crate) async fn batches(
        &self,
        shard: Shard,
        keys: &StreamKeys,
        after: Sequence,
        limit: usize,
    ) -> Result<Part> {
        let limit = limit.clamp(1, BATCHES);
        self.some_batches(shard, keys, after, [limit, 0]).await
    }

    /// Reads batches that end after a sequence: about those that have so many chunks after it.
    pub(crate) async fn batches_of(
        &self,
        shard: Shard,
        keys: &StreamKeys,
        after: Sequence,
        chunks: usize,
    ) -> Result<Part> {
        let limits = [BATCHES, chunks.max(1)];
        self.some_batches(shard, keys, after, limits).await
    }

    async fn some_batches(
        &self,
        shard: Shard,
        keys: &StreamKeys,
        after: Sequence,
        limits: [usize; 2],
    ) -> Result<Part> {
        let from = format!("{}-0", after.0.saturating_add(1));
        let [batches, chunks] = limits.map(|limit| limit.to_string());
        let arguments = Arguments::of([from, batches, chunks]);
        let names = [&keys.entries, &keys.rests, &keys.info].map(Clone::clone);
        let script = &self.inner.scripts.batches;
        let answer = self.ask(shard, script, &names, &arguments).await?;
        let mut answer = reply::list(answer)?.into_iter();
        let mut next = || answer.next().unwrap_or_default();
        let mut bounds = reply::texts(next())?.into_iter();
        let mut bound = || bounds.next().flatten().unwrap_or_default();
        let (trimmed, last, edits, incarnation) = (bound(), bound(), bound(), bound());
        let entries = reply::list(next())?;
        let mut rests = reply::texts(next())?.into_iter();
        let entries = entries
            .into_iter()
            .map(|value| entry(value, rests.next().flatten().as_ref()));
        Ok(Part {
            entries: entries.collect::<Result<_>>()?,
            trimmed: Sequence(trimmed.parse().unwrap_or_default()),
            last,
            edits,
            incarnation,
        })
    }

    /// Reads all batches that end after a sequence.
    pub(crate) async fn all_batches(
        &self,
        shard: Shard,
        keys: &StreamKeys,
        after: Sequence,
    ) -> Result<Part> {
        let mut all = self.batches(shard, keys, after, BATCHES).await?;
        let mut is_full = all.entries.len() == BATCHES;
        while is_full && let Some(last) = all.entries.last().map(|entry| entry.last) {
            let more = self.batches(shard, keys, last, BATCHES).await?;
            is_full = more.entries.len() == BATCHES;
            // A removal meanwhile is found by the comparison: what was read first counts.
            all.entries.extend(more.entries);
        }
        Ok(all)
    }

    pub(crate) async fn stream_info(&self, root: &SessionId) -> Result<Option<StreamInfo>> {
        let shard = self.keys().shard(root.as_str());
        let keys = self.keys().stream(shard, root);
        let mut reads = crate::script::Reads::default();
        reads.fields(&keys.info, INFO);
        let mut answers = self.read(shard, reads).await?;
        info(reply::texts(answers.next()?)?)
    }

    /// The bounds of a stream that exists.
    pub(crate) async fn existing_stream(&self, root: &SessionId) -> Result<StreamInfo> {
        let found = self.stream_info(root).await?;
        found.ok_or_else(|| {
            let session = root.clone();
            StoreError::NotFound { session }.into()
        })
    }
}

impl Transaction {
    /// Makes a stream if there is none. It begins at this fence of its root.
    pub(crate) fn open_stream(&mut self, keys: &StreamKeys, fence: Fence) {
        self.on_stream(&keys.info);
        self.begin_stream(keys, fence.0);
    }

    /// Makes a stream of this incarnation if there is none.
    pub(crate) fn begin_stream(&mut self, keys: &StreamKeys, incarnation: u64) {
        let (info, incarnation) = (keys.info.as_str(), incarnation.to_string());
        self.command(words!["HSETNX", info, "inc", incarnation]);
    }

    /// Appends chunks to a stream.
    pub(crate) fn append_chunks(
        &mut self,
        keys: &StreamKeys,
        chunks: &[Chunk],
        kind: &str,
    ) -> Result<()> {
        for batch in batches::divided(chunks) {
            self.append(&keys.entries, batch.len(), kind, batches::pack(batch)?);
        }
        Ok(())
    }

    pub(crate) fn set_status(&mut self, keys: &StreamKeys, status: StreamStatus) -> Result<()> {
        self.set(&keys.info, "status", status_text(status)?);
        Ok(())
    }

    /// The stream must still be as it was read: nothing appended, nothing removed.
    pub(crate) fn expect_stream(&mut self, keys: &StreamKeys, part: &Part) {
        self.expect(&keys.info, "last", &part.last);
        self.expect_edits(keys, part);
    }

    /// Nothing may have been removed since the stream was read, and no other may have its name.
    pub(crate) fn expect_edits(&mut self, keys: &StreamKeys, part: &Part) {
        self.expect(&keys.info, "inc", &part.incarnation);
        self.expect(&keys.info, "e", &part.edits);
        self.command(words!["HINCRBY", keys.info.as_str(), "e", "1"]);
    }

    /// Keeps some chunks of a stream, and removes the others.
    pub(crate) fn retain(
        &mut self,
        keys: &StreamKeys,
        entries: Vec<Entry>,
        keeps: impl Fn(bool, &StoredChunk) -> bool,
    ) -> Result<()> {
        let (mut removed, mut rests) = (Vec::new(), Vec::new());
        for Entry {
            id,
            is_delta,
            is_rest,
            mut chunks,
            ..
        } in entries
        {
            let whole = chunks.len();
            chunks.retain(|stored| keeps(is_delta, stored));
            if chunks.len() == whole {
                continue;
            }
            if !chunks.is_empty() {
                self.set(&keys.rests, &id, batches::pack_rest(chunks)?);
                continue;
            }
            if is_rest {
                rests.push(id.clone());
            }
            removed.push(id);
        }
        self.for_each("XDEL", &keys.entries, removed);
        self.for_each("HDEL", &keys.rests, rests);
        Ok(())
    }
}
