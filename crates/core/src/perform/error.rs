//! Why an effect has no event.

use crate::agent::ResolveError;
use crate::error::{Coded, ErrorCode};
use crate::id::{IdError, SessionId};
use crate::state::StateError;
use crate::store::{Precondition, StoreError};
use crate::stream::StreamError;
use crate::transcript::PairingError;

/// Why an effect has no event. The run is as its last commit left it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerformError {
    /// Another process took the run over, or its session was removed.
    #[error("session {session} was taken over by another process, or removed; this one stops")]
    Superseded {
        /// The session.
        session: SessionId,
    },
    /// The agent is not there.
    #[error(transparent)]
    Agent(#[from] ResolveError),
    /// The store refused or failed.
    #[error(transparent)]
    Store(StoreError),
    /// The stream refused or failed.
    #[error(transparent)]
    Stream(StreamError),
    /// An id could not be made.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A step could not be put together.
    #[error(transparent)]
    Pairing(#[from] PairingError),
    /// A state could not be put together.
    #[error(transparent)]
    State(#[from] StateError),
    /// What is stored does not have what the effect names.
    #[error("session {session} does not have {what}; the effect belongs to another run")]
    Missing {
        /// The session.
        session: SessionId,
        /// What is not there.
        what: &'static str,
    },
    /// This version cannot do it.
    #[error("this version cannot perform {what}; update it")]
    NotBuilt {
        /// What it is.
        what: &'static str,
    },
}

impl From<StoreError> for PerformError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused {
                session,
                expected: Precondition::Fence(_),
                ..
            }
            | StoreError::NotFound { session } => Self::Superseded { session },
            other => Self::Store(other),
        }
    }
}

impl From<StreamError> for PerformError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Superseded { session } => Self::Superseded { session },
            StreamError::Store(error) => error.into(),
            other => Self::Stream(other),
        }
    }
}

impl PerformError {
    /// Whether the run is over here: another process took it over, or its session was removed.
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        matches!(self, Self::Superseded { .. })
    }

    /// Whether the history, the state or a call changed beside the run between reading and writing.
    pub(super) fn is_moved(&self) -> bool {
        matches!(
            self,
            Self::Store(
                StoreError::State { .. }
                    | StoreError::Refused {
                        expected: Precondition::MessageCount(_) | Precondition::Call(..),
                        ..
                    }
            )
        )
    }
}

impl Coded for PerformError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Superseded { .. } | Self::Missing { .. } => ErrorCode::StateStale,
            Self::Agent(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Stream(error) => error.code(),
            Self::Id(error) => error.code(),
            Self::Pairing(error) => error.code(),
            Self::State(error) => error.code(),
            Self::NotBuilt { .. } => ErrorCode::FrameworkInternal,
        }
    }
}
