//! The port to what keeps streams.

use std::fmt;

use async_trait::async_trait;

use super::{Chunk, Sequence, StoredChunk, StreamStatus};
use crate::error::{Coded, ErrorCode};
use crate::id::{SessionId, StepId};
use crate::store::{Fence, StoreError};

/// Who writes to a stream: a session of its root, at a fence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamWriter {
    /// The root; the stream is named after it.
    pub root: SessionId,
    /// The session whose run writes.
    pub session: SessionId,
    /// Its fence.
    pub fence: Fence,
    /// The effect that speaks; `None`: only the fence counts.
    pub by: Option<DeltasOf>,
}

/// Which effect of a run speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeltasOf {
    /// One that nothing goes on beside: a model call.
    Effect {
        /// Its number under the fence.
        n: u32,
        /// Which attempt at it.
        attempt: u32,
    },
    /// A call of the open step.
    Call {
        /// The step.
        step: StepId,
        /// The place of the call in it.
        index: u32,
        /// Which attempt at it.
        attempt: u32,
    },
}

impl StreamWriter {
    /// A writer.
    #[must_use]
    pub fn new(root: SessionId, session: SessionId, fence: Fence) -> Self {
        Self {
            root,
            session,
            fence,
            by: None,
        }
    }

    /// Says which effect speaks. Once that is committed, or begun again, nothing more is taken.
    #[must_use]
    pub fn of(mut self, by: DeltasOf) -> Self {
        self.by = Some(by);
        self
    }
}

/// What a stream takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamLimits {
    /// The largest chunk, in bytes of its JSON.
    pub max_chunk_bytes: usize,
}

impl StreamLimits {
    /// Limits.
    #[must_use]
    pub fn new(max_chunk_bytes: usize) -> Self {
        Self { max_chunk_bytes }
    }

    /// Whether all of these may be written.
    ///
    /// # Errors
    /// [`StreamError::ChunkTooLarge`] for the first that may not.
    pub fn check(&self, chunks: &[Chunk]) -> Result<(), StreamError> {
        let limit = self.max_chunk_bytes;
        for chunk in chunks {
            // What a chunk adds to its content is small; only a large one is written out to be sure.
            if chunk.payload.content_bytes() > limit / 8 {
                let bytes = serde_json::to_string(chunk).map_or(0, |text| text.len());
                if bytes > limit {
                    return Err(StreamError::ChunkTooLarge { bytes, limit });
                }
            }
        }
        Ok(())
    }
}

/// What is known of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfo {
    /// What it is.
    pub status: StreamStatus,
    /// The last sequence that was given out.
    pub last: Sequence,
    /// Everything up to here was removed by retention; a reader that wants it is told.
    pub trimmed: Sequence,
}

impl StreamInfo {
    /// What is known of a stream.
    #[must_use]
    pub fn new(status: StreamStatus, last: Sequence, trimmed: Sequence) -> Self {
        Self {
            status,
            last,
            trimmed,
        }
    }

    /// Whether a stream is another than somebody knows who has seen it up to a sequence: what
    /// [`StreamManager::changed`] waits for.
    #[must_use]
    pub fn differs(now: Option<Self>, after: Sequence, status: StreamStatus) -> bool {
        match now {
            Some(info) => info.last > after || info.status != status,
            // It was removed, or is yet to come.
            None => after > Sequence::START || status != StreamStatus::Active,
        }
    }
}

/// Why a stream did not take or give chunks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Somebody took the run over.
    #[error("session {session} is written by another run now; this one has to end")]
    Superseded {
        /// The session.
        session: SessionId,
    },
    /// The effect that speaks was committed, or another attempt at it has begun.
    #[error("session {session} has gone on without this attempt; it has nothing more to say")]
    Overtaken {
        /// The session.
        session: SessionId,
    },
    /// A chunk is too large. No sequence was given out.
    #[error("a chunk has {bytes} bytes, this stream takes {limit}; split it or leave content out")]
    ChunkTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// What keeps the stream failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Coded for StreamError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Superseded { .. } | Self::Overtaken { .. } => ErrorCode::StateStale,
            Self::ChunkTooLarge { .. } => ErrorCode::ValidationError,
            Self::Store(error) => error.code(),
        }
    }
}

/// What keeps streams.
///
/// One stream per root session, named after it. Sequences begin at 1, grow, and are never used
/// twice, gaps are allowed. No reader sees a chunk before it is durable, and every reader sees
/// chunks in the order of their sequences, whenever and wherever it reads. Chunks of commits enter
/// with [`crate::store::SessionStore::commit`]; only deltas come through here.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait StreamManager: Send + Sync + fmt::Debug {
    /// What it takes.
    fn limits(&self) -> StreamLimits;

    /// Appends deltas, all or none, and gives the sequence of the last.
    ///
    /// # Errors
    /// [`StreamError::Superseded`] when the fence is not the session's, [`StreamError::Overtaken`]
    /// when the effect that speaks was committed or begun again; nothing is written then.
    /// [`Header::admit`](crate::store::Header::admit) tells both.
    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError>;

    /// Removes the deltas of the writer's session that came after a sequence, and says so with a
    /// chunk. Chunks of commits stay, and so does what other sessions of the root say meanwhile.
    /// Gives the sequence of the chunk.
    ///
    /// # Errors
    /// [`StreamError::Superseded`] when the fence is not the session's; nothing is written then.
    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError>;

    /// Up to `limit` chunks after a sequence, oldest first.
    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError>;

    /// What is known of a stream; `None` when nothing was ever written to it.
    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError>;

    /// Returns when the stream may differ from this: something after the sequence, another status, or
    /// it was removed ([`StreamInfo::differs`]). It may return early, and must return within a second of a change in any process.
    async fn changed(
        &self,
        root: &SessionId,
        after: Sequence,
        status: StreamStatus,
    ) -> Result<(), StreamError>;

    /// Removes the chunks up to a sequence. Numbers go on as before.
    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError>;
}
