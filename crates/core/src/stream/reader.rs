//! A stream reader: from any sequence, in any process, without loss and without repetition.

use std::collections::VecDeque;
use std::sync::Arc;

use super::replay::Replay;
use super::{
    Incarnation, Sequence, StoredChunk, StreamError, StreamInfo, StreamManager, StreamStatus,
};
use crate::id::SessionId;
use crate::store::SessionStore;

/// The number of chunks fetched at once; it bounds the memory of a slow reader.
const BATCH: usize = 256;

/// An item that a reader returns.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StreamItem {
    /// The next chunk of the stream.
    Chunk(StoredChunk),
    /// Chunks up to this sequence were removed by retention.
    Trimmed {
        /// The last sequence that is missing.
        up_to: Sequence,
    },
    /// No more chunks follow for now: the turn has ended or failed, or the run is suspended.
    End(StreamStatus),
    /// The stream was deleted with its session. No item follows. To read the stream that has its
    /// name now, create a new reader that begins at the start.
    Gone {
        /// The incarnation of the stream that has its name now, if there is one.
        now: Option<Incarnation>,
    },
}

/// The result of one reading of a stream.
pub(crate) enum ReadOutcome {
    /// An item for the caller.
    Item(StreamItem),
    /// The stream has nothing more to read, and this description.
    Drained(Option<StreamInfo>),
}

/// Reads a stream from a sequence on, until it ends. It owns what it needs.
///
/// Where the stream is condensed, it makes the removed deltas again from the messages: each text, each
/// block of thinking and the arguments of each call as one piece, before the chunks that followed them.
/// All other chunks are those that were written, with the same sequences.
#[derive(Debug)]
pub struct StreamReader {
    streams: Arc<dyn StreamManager>,
    root: SessionId,
    cursor: Sequence,
    /// The incarnation that is read, once it is known.
    incarnation: Option<Incarnation>,
    buffer: VecDeque<StoredChunk>,
    /// The chunks of a removed reply, made from the messages. They come before those of the buffer.
    made: VecDeque<StoredChunk>,
    replay: Replay,
    /// The part of the stream that is condensed, as of the chunks in the buffer.
    condensed: Sequence,
    /// The stream's description after the last reading, used as the one before the next reading.
    last_info: Option<StreamInfo>,
    ended: bool,
}

impl StreamReader {
    /// Creates a reader of the chunks after a sequence. The stream need not exist yet.
    #[must_use]
    pub fn new(
        streams: Arc<dyn StreamManager>,
        store: Arc<dyn SessionStore>,
        root: SessionId,
        after: Sequence,
    ) -> Self {
        Self {
            streams,
            root,
            cursor: after,
            incarnation: None,
            buffer: VecDeque::new(),
            made: VecDeque::new(),
            replay: Replay::new(store),
            condensed: Sequence::START,
            last_info: None,
            ended: false,
        }
    }

    /// Sets the incarnation in which the sequence was read, for a reader that resumes. If another
    /// stream has the name by now, the reader returns [`StreamItem::Gone`] instead of chunks of
    /// that one. Without it, only a sequence beyond the end of the stream reveals the change.
    #[must_use]
    pub fn of(mut self, incarnation: Incarnation) -> Self {
        self.incarnation = Some(incarnation);
        self
    }

    /// The root whose stream is read.
    pub(crate) fn root(&self) -> &SessionId {
        &self.root
    }

    /// Begins after this sequence instead, before anything was read.
    pub(crate) fn skip_to(&mut self, after: Sequence) {
        self.cursor = after;
    }

    /// Returns the sequence of the last chunk that was returned.
    #[must_use]
    pub fn cursor(&self) -> Sequence {
        self.cursor
    }

    /// Returns the incarnation of the stream, once it is known: store it with the cursor, and pass
    /// it to [`StreamReader::of`] to resume.
    #[must_use]
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation
    }

    /// Returns how many chunks the next calls of [`StreamReader::next`] return
    /// without reading the stream.
    #[must_use]
    pub fn fetched(&self) -> usize {
        self.made.len() + self.buffer.len()
    }

    /// Returns the next item; `None` after the end, and after [`StreamItem::Gone`]. Safe to drop
    /// while it waits: nothing is lost.
    ///
    /// # Errors
    /// If the stream cannot be read. The call can be repeated.
    pub async fn next(&mut self) -> Result<Option<StreamItem>, StreamError> {
        while !self.ended {
            if let Some(info) = self.read_up_to() {
                self.last_info = None;
                self.wait(Some(info)).await?;
            }
            match self.step().await? {
                ReadOutcome::Item(item) => return Ok(Some(item)),
                ReadOutcome::Drained(Some(info)) if info.status != StreamStatus::Active => {
                    self.ended = true;
                    return Ok(Some(StreamItem::End(info.status)));
                }
                ReadOutcome::Drained(info) => self.wait(info).await?,
            }
        }
        Ok(None)
    }

    /// The stream as it was after the last reading, if that was all of it and more may come.
    fn read_up_to(&self) -> Option<StreamInfo> {
        let info = self.last_info.filter(|_| self.buffer.is_empty());
        info.filter(|info| info.status == StreamStatus::Active && info.last == self.cursor)
    }

    /// Returns the current description of the stream.
    pub(crate) async fn info(&self) -> Result<Option<StreamInfo>, StreamError> {
        self.streams.info(&self.root).await
    }

    /// Waits until the stream differs from this description.
    pub(crate) async fn wait(&mut self, known: Option<StreamInfo>) -> Result<(), StreamError> {
        self.streams.changed(&self.root, known).await
    }

    /// Returns the next item, or the stream's description if there is none. Does not wait for one.
    pub(crate) async fn step(&mut self) -> Result<ReadOutcome, StreamError> {
        loop {
            if let Some(stored) = self.next_fetched().await? {
                self.cursor = stored.sequence;
                return Ok(ReadOutcome::Item(StreamItem::Chunk(stored)));
            }
            // A stream that was read before is read at once: its description afterwards tells whether it
            // is still the same stream.
            let mut before = self.last_info.take();
            if before.is_none() && self.incarnation.is_none() {
                before = self.streams.info(&self.root).await?;
                if self.is_gone(before) {
                    return Ok(self.gone(before));
                }
                if before.is_none() {
                    return Ok(ReadOutcome::Drained(None));
                }
            }
            if let Some(info) = before {
                self.incarnation = Some(info.incarnation);
                if self.cursor < info.trimmed {
                    self.cursor = info.trimmed;
                    let up_to = info.trimmed;
                    return Ok(ReadOutcome::Item(StreamItem::Trimmed { up_to }));
                }
            }
            let chunks = self.streams.read(&self.root, self.cursor, BATCH).await?;
            let after = self.streams.info(&self.root).await?;
            if self.is_gone(after) {
                return Ok(self.gone(after));
            }
            if let Some(info) = after {
                self.heed_condensed(info.condensed).await?;
            }
            // What was read is complete only if nothing was removed from the stream before the cursor.
            let is_whole = after.is_some_and(|after| after.trimmed <= self.cursor);
            if is_whole && !chunks.is_empty() {
                self.buffer.extend(chunks);
            } else if after == before {
                // Nothing was written between the two looks: what is read is all there is.
                return Ok(ReadOutcome::Drained(after));
            }
            self.last_info = after;
        }
    }

    /// Notes up to where the stream is condensed. Where that is ahead, the chunks of the replies that the
    /// reader has in part are looked up.
    async fn heed_condensed(&mut self, condensed: Sequence) -> Result<(), StreamError> {
        if condensed > self.cursor && self.condensed <= self.cursor {
            let (streams, root) = (&*self.streams, &self.root);
            self.replay.begin(streams, root, self.cursor).await?;
        }
        self.condensed = condensed;
        Ok(())
    }

    /// Takes the next chunk of those that were read, or that are made before it. Safe to drop while it
    /// waits.
    async fn next_fetched(&mut self) -> Result<Option<StoredChunk>, StreamError> {
        if let Some(made) = self.made.pop_front() {
            return Ok(Some(made));
        }
        while let Some(next) = self.buffer.front()
            && next.sequence <= self.condensed
        {
            if next.chunk.payload.is_in_messages() {
                // A store may still have it.
                self.buffer.pop_front();
                continue;
            }
            if self.replay.is_missing(&next.chunk) {
                let (streams, root) = (&*self.streams, &self.root);
                let (cursor, fetched) = (self.cursor, &self.buffer);
                let made = self.replay.reply(streams, root, cursor, fetched).await?;
                self.made.extend(made);
            }
            self.replay.note(&next.chunk);
            break;
        }
        Ok(self.made.pop_front().or_else(|| self.buffer.pop_front()))
    }

    /// Ends with what has the name of the stream now.
    fn gone(&mut self, now: Option<StreamInfo>) -> ReadOutcome {
        self.ended = true;
        let now = now.map(|info| info.incarnation);
        ReadOutcome::Item(StreamItem::Gone { now })
    }

    /// Whether what is read is not this stream: it was removed, another has its name, or it never
    /// had as many chunks as were read.
    fn is_gone(&self, now: Option<StreamInfo>) -> bool {
        match now {
            None => self.incarnation.is_some() || self.cursor > Sequence::START,
            Some(info) => {
                info.last < self.cursor
                    || self
                        .incarnation
                        .is_some_and(|known| known != info.incarnation)
            }
        }
    }
}
