//! The errors of a store.

use crate::error::{Coded, Error, ErrorCode};
use crate::id::SessionId;
use crate::session::SessionStatus;
use crate::state::StateError;
use crate::store::Precondition;
use crate::stored::StoredError;

/// The boxed cause of a backend failure.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// The error of a store operation. Nothing was written unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A precondition did not hold.
    #[error("session {session} has changed: no longer true that {expected}; read it again")]
    Refused {
        /// The session that changed.
        session: SessionId,
        /// The precondition that did not hold.
        expected: Precondition,
        /// The status and version of the session.
        current: CurrentSession,
    },
    /// The session does not exist.
    #[error("session {session} not found; check the id, or create it first")]
    NotFound {
        /// The id that was not found.
        session: SessionId,
    },
    /// A session with this id already exists.
    #[error("session {session} already exists; choose another id, or continue it")]
    AlreadyExists {
        /// The id that is taken.
        session: SessionId,
    },
    /// The change is not possible for this session.
    #[error("session {session} cannot be changed that way: {reason}")]
    Invalid {
        /// The session that was to be changed.
        session: SessionId,
        /// Why the change is not possible.
        reason: String,
    },
    /// The state rejects the change.
    #[error("the state of session {session} cannot be changed that way")]
    State {
        /// The session that was to be changed.
        session: SessionId,
        /// The error of the state operation.
        #[source]
        source: StateError,
    },
    /// A chunk of a commit exceeds the limit of the stream.
    #[error(
        "a chunk has {bytes} bytes, the stream of session {session} takes {limit}; \
         make it fit with `Commit::fitting`"
    )]
    ChunkTooLarge {
        /// The root session that owns the stream.
        session: SessionId,
        /// The size of the chunk.
        bytes: usize,
        /// The limit of the stream.
        limit: usize,
    },
    /// A stored record cannot be read.
    #[error(transparent)]
    Corrupt(#[from] StoredError),
    /// The store has no space left.
    #[error("the {backend} store is full; make room and try again, nothing was lost")]
    Full {
        /// The name of the store backend.
        backend: &'static str,
        /// The error of the backend.
        #[source]
        source: Source,
    },
    /// The store cannot be reached at the moment. A write may have been made.
    #[error("the {backend} store cannot be reached; try again")]
    Unavailable {
        /// The name of the store backend.
        backend: &'static str,
        /// The error of the backend.
        #[source]
        source: Source,
    },
    /// The store failed for another reason.
    #[error("the {backend} store failed")]
    Backend {
        /// The name of the store backend.
        backend: &'static str,
        /// The error of the backend.
        #[source]
        source: Source,
    },
}

/// The status and version of a session when a precondition failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CurrentSession {
    /// The status of the session; `None` if it does not exist.
    pub status: Option<SessionStatus>,
    /// The version of the session.
    pub version: u64,
}

impl CurrentSession {
    /// Creates the value for an existing session.
    #[must_use]
    #[doc(hidden)]
    pub fn new(status: SessionStatus, version: u64) -> Self {
        Self {
            status: Some(status),
            version,
        }
    }
}

impl StoreError {
    /// Whether the same operation may succeed a moment later. The failed write may have been made.
    #[must_use]
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Full { .. })
    }

    /// Whether a precondition did not hold because another writer was faster.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::AlreadyExists { .. })
    }

    /// The session it is about.
    pub(crate) fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Refused { session, .. }
            | Self::NotFound { session }
            | Self::AlreadyExists { session }
            | Self::Invalid { session, .. }
            | Self::State { session, .. }
            | Self::ChunkTooLarge { session, .. } => Some(session),
            Self::Corrupt(_)
            | Self::Full { .. }
            | Self::Unavailable { .. }
            | Self::Backend { .. } => None,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let session = error.session().cloned();
        Self::new(error).about(session.as_ref(), None)
    }
}

impl Coded for StoreError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Refused { .. } | Self::AlreadyExists { .. } => ErrorCode::StateStale,
            Self::NotFound { .. } => ErrorCode::SessionNotFound,
            Self::Invalid { .. } | Self::State { .. } => ErrorCode::StateInvalid,
            Self::ChunkTooLarge { .. } => ErrorCode::ValidationError,
            Self::Corrupt(error) => error.code(),
            Self::Full { .. } => ErrorCode::StoreFull,
            Self::Unavailable { .. } => ErrorCode::StoreUnavailable,
            Self::Backend { .. } => ErrorCode::FrameworkInternal,
        }
    }
}
