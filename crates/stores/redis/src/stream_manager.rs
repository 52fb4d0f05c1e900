//! [`StreamManager`] and [`Retention`] for the store.

use async_trait::async_trait;
use helix_agents_core::SessionId;
use helix_agents_core::store::{Fence, StoreError};
use helix_agents_core::stream::{
    Chunk, Incarnation, Retention, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits,
    StreamManager, StreamWriter,
};
use helix_agents_core::time::Timestamp;

use crate::changes::Topic;
use crate::commit::ATTEMPTS;
use crate::failure::{Failure, Result};
use crate::index::Indexes;
use crate::keys::{Shard, StreamKeys};
use crate::reply;
use crate::script::{Reads, Transaction, words};
use crate::store::{RedisStore, Written};
use crate::streams::{COMMITTED, DELTAS};

/// How many batches one part of a removal reads.
const PART: usize = 128;

impl RedisStore {
    fn stream(&self, root: &SessionId) -> (Shard, StreamKeys) {
        let shard = self.keys().shard(root.as_str());
        (shard, self.keys().stream(shard, root))
    }

    /// Begins a transaction of a writer, which is refused if the writer may not write.
    async fn admitted(&self, writer: &StreamWriter, fresh: bool) -> Result<Transaction> {
        if self.inner.config.streams_only {
            return self.admitted_by_gates(writer, fresh).await;
        }
        let shard = self.keys().shard(writer.root.as_str());
        let mut sessions = vec![writer.session.clone()];
        if writer.root != writer.session {
            sessions.push(writer.root.clone());
        }
        let (places, _, is_remembered) = self.known_places(shard, &sessions, fresh).await?;
        let header = |at: usize| places.get(at).and_then(|place| place.header());
        let (own, root) = (header(0), header(sessions.len() - 1));
        if let Err(refused) = writer.admit(own.map(|own| &**own), root.map(|root| &**root)) {
            // What is remembered may be old.
            if is_remembered {
                return Box::pin(self.admitted(writer, true)).await;
            }
            return Err(refused.into());
        }
        let mut transaction = Transaction::new(shard);
        for (session, place) in sessions.iter().zip(&places) {
            transaction.expect(&self.keys().head(shard, session), "g", &place.generation);
        }
        let fence = root.map_or(Fence::default(), |root| root.fence);
        transaction.open_stream(&self.keys().stream(shard, &writer.root), fence);
        Ok(transaction)
    }

    /// Publishes and notifies that a stream has changed.
    fn tell_stream(&self, transaction: &mut Transaction, root: &SessionId) -> Topic {
        let topic = Topic::Stream(root.clone());
        transaction.command(words!["PUBLISH", self.keys().channel(), topic.message()]);
        topic
    }

    async fn append(&self, writer: &StreamWriter, chunks: &[Chunk]) -> Result<Sequence> {
        let (_, keys) = self.stream(&writer.root);
        let _turn = self.inner.turns.take(&writer.root).await;
        for attempt in 0..ATTEMPTS {
            let mut transaction = self.admitted(writer, attempt > 0).await?;
            transaction.append_chunks(&keys, chunks, DELTAS)?;
            let topic = self.tell_stream(&mut transaction, &writer.root);
            if let Some(last) = self.written(writer, transaction, &topic).await? {
                return Ok(last);
            }
        }
        Err(Failure::busy())
    }

    /// Writes what a writer writes, and returns the end of the stream unless something has changed.
    async fn written(
        &self,
        writer: &StreamWriter,
        transaction: Transaction,
        topic: &Topic,
    ) -> Result<Option<Sequence>> {
        let of = transaction.incarnation;
        match self.write(transaction).await? {
            Written::Done(last) => {
                self.inner.changes.ring(topic);
                if of.is_some() {
                    self.inner.acknowledged.note(&writer.root, of, last);
                }
                Ok(Some(last))
            }
            Written::Changed => {
                if of.is_some() {
                    self.begin_anew_if_short(&writer.root).await?;
                }
                Ok(None)
            }
        }
    }

    async fn discard(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: &Chunk,
    ) -> Result<Sequence> {
        let (shard, keys) = self.stream(&writer.root);
        for attempt in 0..ATTEMPTS {
            let part = self.all_batches(shard, &keys, after).await?;
            let mut transaction = self.admitted(writer, attempt > 0).await?;
            transaction.expect_stream(&keys, &part);
            transaction.retain(&keys, part.entries, |is_delta, stored| {
                let is_own = stored.chunk.base.session_id == writer.session;
                !is_delta || !is_own || stored.sequence <= after
            })?;
            transaction.append_chunks(&keys, std::slice::from_ref(say), COMMITTED)?;
            let topic = self.tell_stream(&mut transaction, &writer.root);
            if let Some(last) = self.written(writer, transaction, &topic).await? {
                return Ok(last);
            }
        }
        Err(Failure::busy())
    }

    async fn read_chunks(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>> {
        let (shard, keys) = self.stream(root);
        let (mut read, mut after) = (Vec::new(), after);
        while read.len() < limit {
            let part = self
                .batches_of(shard, &keys, after, limit - read.len())
                .await?;
            let Some(last) = part.entries.last().map(|entry| entry.last) else {
                break;
            };
            let from = after.max(part.trimmed);
            let chunks = part.entries.into_iter().flat_map(|entry| entry.chunks);
            let wanted = chunks.filter(|stored| stored.sequence > from);
            read.extend(wanted.take(limit - read.len()));
            after = last;
        }
        Ok(read)
    }

    /// Sets a bound of a stream, which only grows, and returns what it was and is. `of` is the stream that is meant
    /// if there were several of that name.
    async fn raise(
        &self,
        root: &SessionId,
        of: Option<Incarnation>,
        field: &str,
        up_to: Sequence,
    ) -> Result<(Sequence, Sequence, Incarnation)> {
        let (shard, keys) = self.stream(root);
        for _ in 0..ATTEMPTS {
            let info = self.existing_stream(root).await?;
            if of.is_some_and(|of| of != info.incarnation) {
                let session = root.clone();
                return Err(StoreError::NotFound { session }.into());
            }
            let known = if field == "trimmed" {
                info.trimmed
            } else {
                info.condensed
            };
            let bound = known.max(up_to.min(info.last));
            let mut transaction = Transaction::new(shard);
            transaction.makes_room = true;
            transaction.expect(&keys.info, "inc", &info.incarnation.to_string());
            let before = if known.is_start() {
                String::new()
            } else {
                known.to_string()
            };
            transaction.expect(&keys.info, field, &before);
            if bound == known {
                return Ok((known, bound, info.incarnation));
            }
            transaction.set(&keys.info, field, bound.to_string());
            if field == "trimmed" {
                let first = format!("{}-0", bound.next());
                transaction.command(words!["XTRIM", keys.entries.as_str(), "MINID", first]);
            }
            if let Written::Done(_) = self.write(transaction).await? {
                return Ok((known, bound, info.incarnation));
            }
        }
        Err(Failure::busy())
    }

    async fn condense_up_to(
        &self,
        root: &SessionId,
        of: Option<Incarnation>,
        up_to: Sequence,
    ) -> Result<()> {
        let (before, up_to, incarnation) = self.raise(root, of, "condensed", up_to).await?;
        let incarnation = incarnation.to_string();
        let (shard, keys) = self.stream(root);
        // A process that was killed may have left some of what is condensed already.
        let mut after = if before < up_to {
            before
        } else {
            Sequence::START
        };
        let mut attempts = 0;
        while after < up_to {
            let mut part = self.batches(shard, &keys, after, PART).await?;
            let last = part.entries.last().map(|entry| entry.last);
            // Another stream that has the name since then is left alone.
            let Some(last) = last.filter(|_| part.incarnation == incarnation) else {
                break;
            };
            let mut transaction = Transaction::new(shard);
            transaction.makes_room = true;
            transaction.expect_edits(&keys, &part);
            let entries = std::mem::take(&mut part.entries);
            transaction.retain(&keys, entries, |_, stored| {
                stored.sequence > up_to || !stored.chunk.payload.is_in_messages()
            })?;
            match self.write(transaction).await? {
                Written::Done(_) => after = last,
                Written::Changed if attempts < ATTEMPTS => attempts += 1,
                Written::Changed => return Err(Failure::busy()),
            }
        }
        Ok(())
    }

    async fn condense_turns(&self, shard: Shard, until: Timestamp, limit: usize) -> Result<usize> {
        let indexes = Indexes {
            keys: self.keys(),
            shard,
        };
        let ended = indexes.ended();
        let mut reads = Reads::default();
        let (until, count) = (until.as_millis().to_string(), limit.min(PART).to_string());
        let key = ended.as_str();
        reads.ask(words![
            "ZRANGEBYSCORE",
            key,
            "-inf",
            until,
            "LIMIT",
            "0",
            count
        ]);
        let turns = reply::present(self.read(shard, reads).await?.next()?)?;
        for turn in &turns {
            let mut parts = turn.splitn(3, ':');
            let mut number = || parts.next().and_then(|part| part.parse().ok());
            if let (Some(last), Some(of), Some(root)) = (number(), number(), parts.next()) {
                let (root, of) = (SessionId::new(root)?, Some(Incarnation(of)));
                match self.condense_up_to(&root, of, Sequence(last)).await {
                    // It was deleted meanwhile.
                    Err(Failure::Judged(StreamError::Store(StoreError::NotFound { .. }))) => {}
                    done => done?,
                }
            }
            let mut transaction = Transaction::new(shard);
            transaction.makes_room = true;
            transaction.command(words!["ZREM", key, turn.as_str()]);
            self.write(transaction).await?;
        }
        Ok(turns.len())
    }
}

#[async_trait]
impl StreamManager for RedisStore {
    fn limits(&self) -> StreamLimits {
        self.inner.config.limits
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        self.limits().check(&chunks)?;
        Ok(self.append(writer, &chunks).await?)
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        Ok(self.discard(writer, after, &say).await?)
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        Ok(self.read_chunks(root, after, limit).await?)
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        Ok(self.stream_info(root).await?)
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        let waiting = self.wait_for(Topic::Stream(root.clone()));
        loop {
            let heard = waiting.hear();
            if StreamInfo::differs(self.info(root).await?, known) {
                return Ok(());
            }
            waiting.pause(heard).await;
        }
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        Ok(self.condense_up_to(root, None, up_to).await?)
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.raise(root, None, "trimmed", up_to).await?;
        Ok(())
    }
}

#[async_trait]
impl Retention for RedisStore {
    /// The window is that of [`RedisConfig::keep_deltas`](crate::RedisConfig::keep_deltas).
    async fn condense_old_turns(&self, _: Timestamp, limit: usize) -> Result<usize, StreamError> {
        let Some(window) = self.inner.config.keep_deltas else {
            return Ok(0);
        };
        let until = self.now().saturating_sub(window);
        let mut count = 0;
        for shard in self.keys().shards() {
            count += self.condense_turns(shard, until, limit - count).await?;
            if count == limit {
                break;
            }
        }
        Ok(count)
    }
}
