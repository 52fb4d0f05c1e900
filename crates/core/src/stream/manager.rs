//! The port for storing and reading streams.

use std::fmt;

use async_trait::async_trait;

use super::{Chunk, Sequence, StoredChunk, StreamInfo, StreamLimits};
use crate::error::{Coded, Error, ErrorCode};
use crate::id::{SessionId, StepId};
use crate::store::{Fence, Header, StoreError};

/// The identity under which deltas are written: a session under the root, at a fence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamWriter {
    /// The root session, after which the stream is named.
    pub root: SessionId,
    /// The session whose run writes.
    pub session: SessionId,
    /// The fence of the run.
    pub fence: Fence,
    /// The effect that writes; `None` if only the fence is checked.
    pub by: Option<DeltaSource>,
}

/// The effect of a run that writes deltas.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeltaSource {
    /// An exclusive effect: a model call.
    Effect {
        /// The number of the effect under its fence.
        n: u32,
        /// The number of the attempt.
        attempt: u32,
    },
    /// A call of the open step.
    Call {
        /// The id of the step.
        step: StepId,
        /// The index of the call in the step.
        index: u32,
        /// The number of the attempt.
        attempt: u32,
    },
}

impl StreamWriter {
    /// Creates a writer that is checked by its fence only.
    #[must_use]
    #[doc(hidden)]
    pub fn new(root: SessionId, session: SessionId, fence: Fence) -> Self {
        Self {
            root,
            session,
            fence,
            by: None,
        }
    }

    /// Sets the effect that writes. Once it is committed, or begun again, its deltas are refused.
    #[must_use]
    #[doc(hidden)]
    pub fn of(mut self, by: DeltaSource) -> Self {
        self.by = Some(by);
        self
    }

    /// Checks whether this writer may write, by the current headers of its session and of its root.
    /// Every backend calls this before it writes or discards deltas.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the root or the session under it does not exist,
    /// [`StreamError::Superseded`] if the fence is not the session's, and
    /// [`StreamError::Overtaken`] if the effect is committed or begun again. Nothing is to be
    /// written then, and no stream to be created.
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

/// The error of a stream operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Another process took the run over.
    #[error("session {session} is written by another run now; end this one")]
    Superseded {
        /// The session that was taken over.
        session: SessionId,
    },
    /// The effect is committed, or another attempt at it has begun.
    #[error("session {session} has moved past this attempt; drop what it still has to write")]
    Overtaken {
        /// The session of the effect.
        session: SessionId,
    },
    /// A chunk is too large. No sequence was assigned.
    #[error("a chunk has {bytes} bytes, this stream takes {limit}; split it or leave content out")]
    ChunkTooLarge {
        /// The size of the chunk, in bytes.
        bytes: usize,
        /// The maximum size, in bytes.
        limit: usize,
    },
    /// The underlying store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StreamError {
    /// The session it is about.
    pub(crate) fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Superseded { session } | Self::Overtaken { session } => Some(session),
            Self::ChunkTooLarge { .. } => None,
            Self::Store(error) => error.session(),
        }
    }
}

impl From<StreamError> for Error {
    fn from(error: StreamError) -> Self {
        let session = error.session().cloned();
        Self::new(error).about(session.as_ref(), None)
    }
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

/// Durable storage of streams.
///
/// Each root session has one stream, named after it and deleted with it. Sequences begin at 1, grow,
/// and are never used twice; gaps are allowed. A stream created under the name of a deleted one has
/// another [`Incarnation`](super::Incarnation). No reader sees a chunk before it is durable, and every
/// reader, at any time and in any process, sees chunks in the order of their sequences. Chunks of
/// commits enter through [`crate::store::SessionStore::commit`]; only deltas enter here.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait StreamManager: Send + Sync + fmt::Debug {
    /// Returns the limits of its streams.
    fn limits(&self) -> StreamLimits;

    /// Appends deltas, all or none, and returns the sequence of the last.
    ///
    /// # Errors
    /// Those of [`StreamWriter::admit`], like [`StreamError::Superseded`] if the fence is not the
    /// session's and [`StreamError::Overtaken`] if the effect is committed or begun again, and
    /// [`StreamError::ChunkTooLarge`]; nothing is written then.
    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError>;

    /// Removes the deltas of the writer's session after a sequence, and appends the notice `say` to report
    /// it, in one atomic step. Chunks of commits stay, and so do chunks that other sessions of the root
    /// write meanwhile. Returns the sequence of the notice.
    ///
    /// The notice is appended even if there was nothing to remove: a reader may have seen deltas that are
    /// gone by now. It is stored as a chunk of a commit, not as a delta, so that a later call leaves it.
    /// A store must remember of every chunk whether [`StreamManager::append_deltas`] wrote it, because
    /// commits contain text, too.
    ///
    /// # Errors
    /// The same as for [`StreamManager::append_deltas`].
    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError>;

    /// Reads up to `limit` chunks after a sequence, oldest first.
    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError>;

    /// Returns the description of a stream; `None` if nothing was ever written to it.
    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError>;

    /// Returns when the stream has the chunks of every commit that was made before this call. Whoever has read a session
    /// in the store, and goes by what its stream says, calls this in between. Only streams that are told of commits
    /// afterwards have something to do.
    async fn catch_up(&self, _root: &SessionId) -> Result<(), StreamError> {
        Ok(())
    }

    /// Returns when the stream may differ from an earlier result of [`StreamManager::info`]: a
    /// chunk was written, its status changed, it was deleted, or another has its name
    /// ([`StreamInfo::differs`]). It may return early, and must return within a second of a
    /// change in any process.
    async fn changed(&self, root: &SessionId, known: Option<StreamInfo>)
    -> Result<(), StreamError>;

    /// Removes the deltas up to a sequence whose content the messages hold, too: those for which
    /// [`ChunkPayload::is_in_messages`](super::ChunkPayload::is_in_messages) is true, also if a commit wrote them.
    /// All other chunks stay, with their sequences. `up_to` is the end of a turn that has ended.
    ///
    /// [`StreamInfo::condensed`] is set first: from then on readers leave out such deltas, so that a store may
    /// remove them in several parts.
    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError>;

    /// Removes the chunks up to a sequence. Sequences continue as before.
    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError>;
}
