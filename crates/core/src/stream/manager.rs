//! The port to what keeps streams.

use std::fmt;

use async_trait::async_trait;

use super::{Chunk, Sequence, StoredChunk, StreamInfo, StreamLimits};
use crate::error::{Coded, ErrorCode};
use crate::id::{SessionId, StepId};
use crate::store::{Fence, Header, StoreError};

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

    /// Judges whether it may write, by the headers of its session and of its root as they are at
    /// that moment. Every backend asks this before it writes deltas or throws them away.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the root or the session under it does not exist,
    /// [`StreamError::Superseded`] when the fence is not the session's, and [`StreamError::Overtaken`] when the effect that speaks has nothing more to say.
    /// Nothing is to be written then, and no stream to be made.
    pub fn admit(
        &self,
        session: Option<&Header>,
        root: Option<&Header>,
    ) -> Result<(), StreamError> {
        let missing = |session: &SessionId| StoreError::NotFound {
            session: session.clone(),
        };
        if root.is_none() {
            return Err(missing(&self.root).into());
        }
        let is_ours = |header: &&Header| *header.session.root() == self.root;
        let header = session.filter(is_ours);
        header.ok_or_else(|| missing(&self.session))?.admit(self)
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
/// One stream per root session, named after it; it ends with its session. Sequences begin at 1, grow,
/// and are never used twice, gaps are allowed. A stream that is made under the name of one that was
/// removed has another [`Incarnation`](super::Incarnation). No reader sees a chunk before it is durable, and every reader sees
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
    /// What [`StreamWriter::admit`] says, like [`StreamError::Superseded`] when the fence is not the
    /// session's and [`StreamError::Overtaken`] when the effect that speaks was committed or begun
    /// again, and [`StreamError::ChunkTooLarge`]; nothing is written then.
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
    /// As [`StreamManager::append_deltas`].
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

    /// Returns when the stream may differ from what [`StreamManager::info`] said of it: something
    /// was written, it has another status, it was removed, or another has its name
    /// ([`StreamInfo::differs`]). It may return early, and must return within a second of a change in
    /// any process.
    async fn changed(&self, root: &SessionId, known: Option<StreamInfo>)
    -> Result<(), StreamError>;

    /// Removes the chunks up to a sequence. Numbers go on as before.
    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError>;
}
