//! A reader: from any sequence, in any process, without loss and without repetition.

use std::collections::VecDeque;

use super::{
    Incarnation, Sequence, StoredChunk, StreamError, StreamInfo, StreamManager, StreamStatus,
};
use crate::id::SessionId;

/// Chunks fetched at once; what a slow reader holds in memory is bounded by it.
const BATCH: usize = 256;

/// What a reader gets.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StreamItem {
    /// A chunk.
    Chunk(StoredChunk),
    /// What came before this sequence is not kept any more.
    Trimmed {
        /// The last sequence that is missing.
        up_to: Sequence,
    },
    /// Nothing more comes for now: the turn is over, failed, or waits for somebody.
    End(StreamStatus),
    /// The stream that was read is gone: its session was deleted. Nothing comes after this. Whoever
    /// wants the stream that has its name now begins a new reader, from the start.
    Gone {
        /// The stream that has its name now, if there is one.
        now: Option<Incarnation>,
    },
}

/// What a look at a stream gives.
pub(crate) enum Step {
    /// Something for whoever reads.
    Item(StreamItem),
    /// There is nothing more in the stream, which is this.
    Drained(Option<StreamInfo>),
}

/// Reads a stream from a sequence on, as long as it goes.
#[derive(Debug)]
pub struct StreamReader<'a> {
    streams: &'a dyn StreamManager,
    root: SessionId,
    cursor: Sequence,
    /// The stream that is read, once it was seen.
    incarnation: Option<Incarnation>,
    buffer: VecDeque<StoredChunk>,
    /// The stream as it was after the last reading. It serves as the look before the next one.
    looked: Option<StreamInfo>,
    ended: bool,
}

impl<'a> StreamReader<'a> {
    /// A reader of what comes after a sequence. The stream need not exist yet.
    #[must_use]
    pub fn new(streams: &'a dyn StreamManager, root: SessionId, after: Sequence) -> Self {
        Self {
            streams,
            root,
            cursor: after,
            incarnation: None,
            buffer: VecDeque::new(),
            looked: None,
            ended: false,
        }
    }

    /// Says in which stream the sequence was read, for a reader that resumes. When another has its
    /// name by now, the reader is told so by [`StreamItem::Gone`] instead of being given chunks of
    /// that one. Without it, only a sequence that the stream never had tells.
    #[must_use]
    pub fn of(mut self, incarnation: Incarnation) -> Self {
        self.incarnation = Some(incarnation);
        self
    }

    /// The sequence of the last chunk that was given.
    #[must_use]
    pub fn cursor(&self) -> Sequence {
        self.cursor
    }

    /// The stream that is read, once it was seen: to be kept with the cursor, and given to
    /// [`StreamReader::of`] by whoever resumes.
    #[must_use]
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation
    }

    /// How many chunks the next calls of [`StreamReader::next`] give without reading the stream.
    #[must_use]
    pub fn fetched(&self) -> usize {
        self.buffer.len()
    }

    /// The next item; `None` after the end, and when the stream is gone. Safe to drop while it
    /// waits: nothing is lost.
    ///
    /// # Errors
    /// When the stream cannot be read. The reader can be asked again.
    pub async fn next(&mut self) -> Result<Option<StreamItem>, StreamError> {
        while !self.ended {
            if let Some(info) = self.read_up_to() {
                self.looked = None;
                self.wait(Some(info)).await?;
            }
            match self.step().await? {
                Step::Item(item) => return Ok(Some(item)),
                Step::Drained(Some(info)) if info.status != StreamStatus::Active => {
                    self.ended = true;
                    return Ok(Some(StreamItem::End(info.status)));
                }
                Step::Drained(info) => self.wait(info).await?,
            }
        }
        Ok(None)
    }

    /// The stream as it was after the last reading, if that was all of it and more may come.
    fn read_up_to(&self) -> Option<StreamInfo> {
        let looked = self.looked.filter(|_| self.buffer.is_empty());
        looked.filter(|info| info.status == StreamStatus::Active && info.last == self.cursor)
    }

    /// Waits until the stream is another than this.
    pub(crate) async fn wait(&mut self, known: Option<StreamInfo>) -> Result<(), StreamError> {
        self.streams.changed(&self.root, known).await
    }

    /// The next item, or what the stream is when there is none. Does not wait for one.
    pub(crate) async fn step(&mut self) -> Result<Step, StreamError> {
        loop {
            if let Some(stored) = self.buffer.pop_front() {
                self.cursor = stored.sequence;
                return Ok(Step::Item(StreamItem::Chunk(stored)));
            }
            // A stream that was seen before is read at once: the look after it tells whether it still
            // is that one.
            let mut looked = self.looked.take();
            if looked.is_none() && self.incarnation.is_none() {
                looked = self.streams.info(&self.root).await?;
                if self.is_gone(looked) {
                    return Ok(self.gone(looked));
                }
                if looked.is_none() {
                    return Ok(Step::Drained(None));
                }
            }
            if let Some(info) = looked {
                self.incarnation = Some(info.incarnation);
                if self.cursor < info.trimmed {
                    self.cursor = info.trimmed;
                    let up_to = info.trimmed;
                    return Ok(Step::Item(StreamItem::Trimmed { up_to }));
                }
            }
            let chunks = self.streams.read(&self.root, self.cursor, BATCH).await?;
            let after = self.streams.info(&self.root).await?;
            if self.is_gone(after) {
                return Ok(self.gone(after));
            }
            // What was read is complete only if nothing was removed from the stream before the cursor.
            let is_whole = after.is_some_and(|after| after.trimmed <= self.cursor);
            if is_whole && !chunks.is_empty() {
                self.buffer.extend(chunks);
            } else if after == looked {
                // Nothing was written between the two looks: what is read is all there is.
                return Ok(Step::Drained(after));
            }
            self.looked = after;
        }
    }

    /// Ends with what has the name of the stream now.
    fn gone(&mut self, now: Option<StreamInfo>) -> Step {
        self.ended = true;
        let now = now.map(|info| info.incarnation);
        Step::Item(StreamItem::Gone { now })
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
