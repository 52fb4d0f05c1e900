//! A reader: from any sequence, in any process, without loss and without repetition.

use std::collections::VecDeque;

use super::{Sequence, StoredChunk, StreamError, StreamInfo, StreamManager, StreamStatus};
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
}

/// Reads a stream from a sequence on, as long as it goes.
#[derive(Debug)]
pub struct StreamReader<'a> {
    streams: &'a dyn StreamManager,
    root: SessionId,
    cursor: Sequence,
    buffer: VecDeque<StoredChunk>,
    /// Whether there was a stream.
    found: bool,
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
            buffer: VecDeque::new(),
            found: after > Sequence::START,
            ended: false,
        }
    }

    /// The sequence of the last chunk that was given.
    #[must_use]
    pub fn cursor(&self) -> Sequence {
        self.cursor
    }

    /// How many chunks the next calls of [`StreamReader::next`] give without reading the stream.
    #[must_use]
    pub fn fetched(&self) -> usize {
        self.buffer.len()
    }

    /// The next item; `None` after the end, and when the stream was removed. Safe to drop while it waits: nothing is lost.
    ///
    /// # Errors
    /// When the stream cannot be read. The reader can be asked again.
    pub async fn next(&mut self) -> Result<Option<StreamItem>, StreamError> {
        loop {
            if let Some(stored) = self.buffer.pop_front() {
                self.cursor = stored.sequence;
                return Ok(Some(StreamItem::Chunk(stored)));
            }
            if self.ended {
                return Ok(None);
            }
            // The status is read before the chunks: what is written between the two is seen.
            let info = self.streams.info(&self.root).await?;
            if info.is_none() && self.found {
                self.ended = true;
                return Ok(None);
            }
            self.found = info.is_some();
            if let Some(StreamInfo { trimmed, .. }) = info
                && self.cursor < trimmed
            {
                self.cursor = trimmed;
                return Ok(Some(StreamItem::Trimmed { up_to: trimmed }));
            }
            let chunks = self.streams.read(&self.root, self.cursor, BATCH).await?;
            if self.may_have_missed(info, &chunks).await? {
                continue;
            }
            if !chunks.is_empty() {
                self.buffer.extend(chunks);
                continue;
            }
            match info {
                Some(info) if info.status != StreamStatus::Active => {
                    self.ended = true;
                    return Ok(Some(StreamItem::End(info.status)));
                }
                info => {
                    let status = info.map_or(StreamStatus::Active, |info| info.status);
                    self.streams
                        .changed(&self.root, self.cursor, status)
                        .await?;
                }
            }
        }
    }

    /// Whether chunks were removed by retention between looking at the stream and reading it. The
    /// next look tells.
    async fn may_have_missed(
        &self,
        seen: Option<StreamInfo>,
        chunks: &[StoredChunk],
    ) -> Result<bool, StreamError> {
        let is_gap = match chunks.first() {
            Some(first) => first.sequence != self.cursor.next(),
            None => seen.is_some_and(|info| info.last > self.cursor),
        };
        if !is_gap {
            return Ok(false);
        }
        // Thrown-away deltas leave a gap too.
        let now = self.streams.info(&self.root).await?;
        Ok(now.is_some_and(|info| self.cursor < info.trimmed))
    }
}
