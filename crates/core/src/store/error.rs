//! Why a store did not do what it was asked.

use crate::error::{Coded, ErrorCode};
use crate::id::SessionId;
use crate::session::SessionStatus;
use crate::state::StateError;
use crate::store::Precondition;
use crate::stored::StoredError;

/// A boxed cause.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// What a store answers instead of doing it. Nothing is written then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A precondition did not hold.
    #[error("session {session} has changed: not true any more that {expected}; read it again")]
    Refused {
        /// The session.
        session: SessionId,
        /// What did not hold.
        expected: Precondition,
        /// What the session is.
        current: Current,
    },
    /// There is no such session.
    #[error("there is no session {session}; check the id, or create it first")]
    NotFound {
        /// The session.
        session: SessionId,
    },
    /// There is a session of that id.
    #[error("there is a session {session} already; choose another id, or continue it")]
    AlreadyExists {
        /// The session.
        session: SessionId,
    },
    /// A change is not one that can be made.
    #[error("session {session} cannot be changed that way: {reason}")]
    Invalid {
        /// The session.
        session: SessionId,
        /// Why not.
        reason: String,
    },
    /// The state cannot be changed that way.
    #[error("the state of session {session} cannot be changed that way")]
    State {
        /// The session.
        session: SessionId,
        /// Why not.
        #[source]
        source: StateError,
    },
    /// A chunk of a commit is larger than the stream takes.
    #[error(
        "a chunk has {bytes} bytes, the stream of session {session} takes {limit}; \
         make it fit with `Commit::fitting`"
    )]
    ChunkTooLarge {
        /// The root, whose stream it is.
        session: SessionId,
        /// The size of the chunk.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// What is stored cannot be read.
    #[error(transparent)]
    Corrupt(#[from] StoredError),
    /// There is no room.
    #[error("the {backend} store is full; make room and try again, nothing was lost")]
    Full {
        /// Which store.
        backend: &'static str,
        /// Why.
        #[source]
        source: Source,
    },
    /// It cannot be reached, for now.
    #[error("the {backend} store cannot be reached; try again")]
    Unavailable {
        /// Which store.
        backend: &'static str,
        /// Why.
        #[source]
        source: Source,
    },
    /// It failed.
    #[error("the {backend} store failed")]
    Backend {
        /// Which store.
        backend: &'static str,
        /// Why.
        #[source]
        source: Source,
    },
}

/// What a session was when a precondition failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Current {
    /// Its status; `None`: it does not exist.
    pub status: Option<SessionStatus>,
    /// Its version.
    pub version: u64,
}

impl Current {
    /// An existing session.
    #[must_use]
    pub fn new(status: SessionStatus, version: u64) -> Self {
        Self {
            status: Some(status),
            version,
        }
    }
}

impl StoreError {
    /// Whether the same may succeed a moment later. A write that failed so may have been made.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Full { .. })
    }

    /// Whether a precondition did not hold: somebody was faster.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::AlreadyExists { .. })
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
