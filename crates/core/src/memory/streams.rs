//! Streams in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use crate::id::SessionId;
use crate::store::StoreError;
use crate::stream::{
    Chunk, ChunkOrigin, Incarnation, Retention, Sequence, StoredChunk, StreamError, StreamInfo,
    StreamLimits, StreamManager, StreamRewind, StreamStatus, StreamWriter,
};
use crate::time::Timestamp;

#[derive(Debug)]
pub(super) struct Log {
    incarnation: Incarnation,
    pub(super) status: StreamStatus,
    chunks: Vec<Kept>,
    last: Sequence,
    trimmed: Sequence,
    condensed: Sequence,
}

/// The turns that have ended and still have all their deltas: when, in which stream, and where.
pub(super) type EndedTurns = BTreeSet<(Timestamp, SessionId, Incarnation, Sequence)>;

#[derive(Debug)]
struct Kept {
    stored: StoredChunk,
    is_delta: bool,
}

impl Log {
    pub(super) fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            status: StreamStatus::default(),
            chunks: Vec::new(),
            last: Sequence::START,
            trimmed: Sequence::START,
            condensed: Sequence::START,
        }
    }

    /// Begins after this sequence; everything up to it counts as removed.
    pub(super) fn begin_after(&mut self, sequence: Sequence) {
        self.last = sequence;
        self.trimmed = sequence;
        self.condensed = sequence;
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Removes the deltas up to a sequence that the messages hold, too.
    pub(super) fn condense(&mut self, up_to: Sequence) {
        let up_to = up_to.min(self.last);
        self.chunks.retain(|Kept { stored, .. }| {
            stored.sequence > up_to || !stored.chunk.payload.is_in_messages()
        });
        let past = self.after(up_to);
        let mut base: Option<Arc<ChunkOrigin>> = None;
        for Kept { stored, .. } in self.chunks.iter_mut().take(past) {
            let chunk = &mut stored.chunk;
            chunk.payload.pack();
            if let Some(same) = base.filter(|base| *base == chunk.base) {
                chunk.base = same;
            }
            base = Some(Arc::clone(&chunk.base));
        }
        self.chunks.shrink_to_fit();
        self.condensed = self.condensed.max(up_to);
    }

    /// Removes chunks from the end. Their sequences are not used again.
    pub(super) fn rewind(&mut self, rewind: &StreamRewind) {
        let kept = self.after(rewind.to);
        let mut removable = self.chunks.split_off(kept);
        removable.retain(|kept| rewind.keeps(&kept.stored));
        self.chunks.append(&mut removable);
    }

    pub(super) fn last(&self) -> Sequence {
        self.last
    }

    pub(super) fn append(&mut self, chunks: Vec<Chunk>, is_delta: bool) {
        for chunk in chunks {
            self.last = self.last.next();
            let stored = StoredChunk::new(self.last, chunk);
            self.chunks.push(Kept { stored, is_delta });
        }
    }

    /// Removes the deltas of a session after a sequence, and appends the notice of it.
    pub(super) fn discard(&mut self, session: &SessionId, after: Sequence, say: Chunk) {
        self.chunks.retain(|kept| {
            let is_own = kept.stored.chunk.base.session_id == *session;
            !kept.is_delta || !is_own || kept.stored.sequence <= after
        });
        self.append(vec![say], false);
    }

    pub(super) fn read(&self, after: Sequence, limit: usize) -> Vec<StoredChunk> {
        let rest = self.chunks.iter().skip(self.after(after)).take(limit);
        rest.map(|kept| kept.stored.clone()).collect()
    }

    pub(super) fn info(&self) -> StreamInfo {
        StreamInfo {
            incarnation: self.incarnation,
            status: self.status,
            last: self.last,
            trimmed: self.trimmed,
            condensed: self.condensed,
        }
    }

    /// Removes the chunks up to a sequence.
    pub(super) fn trim(&mut self, up_to: Sequence) {
        let up_to = up_to.min(self.last);
        let keep = self.after(up_to);
        self.chunks.drain(..keep);
        self.trimmed = self.trimmed.max(up_to);
    }

    /// Returns the index of the first chunk after a sequence.
    fn after(&self, sequence: Sequence) -> usize {
        self.chunks
            .partition_point(|kept| kept.stored.sequence <= sequence)
    }
}

impl MemoryStore {
    /// Runs an operation on a stream.
    fn change_stream(
        &self,
        root: &SessionId,
        change: impl FnOnce(&mut Log),
    ) -> Result<(), StreamError> {
        let mut inner = self.lock();
        let Some(log) = inner.streams.get_mut(root) else {
            let session = root.clone();
            return Err(StoreError::NotFound { session }.into());
        };
        change(log);
        Ok(())
    }

    /// Runs an operation on a stream if the writer may write to it.
    fn write_stream<R>(
        &self,
        writer: &StreamWriter,
        write: impl FnOnce(&mut Log) -> R,
    ) -> Result<R, StreamError> {
        let result = {
            let mut inner = self.lock();
            let header = |id| inner.sessions.get(id).map(|record| &*record.header);
            writer.admit(header(&writer.session), header(&writer.root))?;
            write(inner.stream(&writer.root))
        };
        self.notifiers.of(&writer.root).ring();
        Ok(result)
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl StreamManager for MemoryStore {
    fn limits(&self) -> StreamLimits {
        StreamLimits::default()
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        self.limits().check(&chunks)?;
        self.write_stream(writer, |log| {
            log.append(chunks, true);
            log.last
        })
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        self.write_stream(writer, |log| {
            log.discard(&writer.session, after, say);
            log.last
        })
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        let inner = self.lock();
        let log = inner.streams.get(root);
        Ok(log.map_or_else(Vec::new, |log| log.read(after, limit)))
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        let inner = self.lock();
        Ok(inner.streams.get(root).map(Log::info))
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        loop {
            let heard = self.notifiers.of(root).heard();
            let now = self.info(root).await?;
            if StreamInfo::differs(now, known) {
                return Ok(());
            }
            heard.await;
        }
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.change_stream(root, |log| log.condense(up_to))
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.change_stream(root, |log| log.trim(up_to))
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl Retention for MemoryStore {
    /// The window is that of [`MemoryStore::keep_deltas`].
    async fn condense_old_turns(&self, at: Timestamp, limit: usize) -> Result<usize, StreamError> {
        let now = self.now(at);
        let mut inner = self.lock();
        for count in 0..limit {
            let is_over = |ended: Timestamp| now.since(ended) >= self.window;
            let ended = inner.ended.first();
            if !ended.is_some_and(|(ended, ..)| is_over(*ended)) {
                return Ok(count);
            }
            let Some((_, root, incarnation, up_to)) = inner.ended.pop_first() else {
                return Ok(count);
            };
            if let Some(log) = inner.streams.get_mut(&root)
                && log.incarnation == incarnation
            {
                log.condense(up_to);
            }
        }
        Ok(limit)
    }
}
