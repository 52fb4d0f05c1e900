//! Why an effect has no event.

use crate::agent::ResolveError;
use crate::error::{Coded, ErrorCode};
use crate::id::{CallId, IdError, SessionId};
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
    /// Another attempt at this effect was committed and the run has gone on, or another attempt has
    /// begun since: this one has nothing to add. Its event, if it is still asked for, comes from the
    /// other.
    #[error("session {session} has gone on without this attempt at an effect; drop it")]
    Overtaken {
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
    /// The stored session lacks something that the effect refers to.
    #[error("session {session} does not have {what}; the effect belongs to another run")]
    Missing {
        /// The session.
        session: SessionId,
        /// The missing part.
        what: &'static str,
    },
    /// The outcome of a child was asked for while it runs: its host has to wait for its end first.
    #[error(
        "session {session} still runs; wait for the end of its run before its outcome is taken"
    )]
    ChildRuns {
        /// The session of the child.
        session: SessionId,
    },
    /// This version cannot do it.
    #[error("this version cannot perform {what}; update it")]
    NotBuilt {
        /// The unsupported effect or part.
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
            StreamError::Overtaken { session } => Self::Overtaken { session },
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

    /// Whether no further try can help: the run has to end.
    pub(super) fn is_permanent(&self) -> bool {
        match self {
            Self::Store(error) => matches!(
                error,
                StoreError::Invalid { .. } | StoreError::State { .. } | StoreError::Corrupt(_)
            ),
            Self::Stream(_)
            | Self::Pairing(_)
            | Self::State(_)
            | Self::Missing { .. }
            | Self::NotBuilt { .. } => true,
            Self::Superseded { .. }
            | Self::Overtaken { .. }
            | Self::ChildRuns { .. }
            | Self::Agent(_)
            | Self::Id(_) => false,
        }
    }

    /// Whether somebody asked the run to stop between reading and writing.
    pub(super) fn is_stopped(&self) -> bool {
        let Self::Store(StoreError::Refused { expected, .. }) = self else {
            return false;
        };
        matches!(expected, Precondition::Stop(_, false))
    }

    /// The id of a question for which another session of the tree waits, too.
    pub(super) fn taken_call(&self) -> Option<&CallId> {
        match self {
            Self::Store(StoreError::Refused {
                expected: Precondition::CallFree(call, _),
                ..
            }) => Some(call),
            _ => None,
        }
    }

    /// Whether other sessions of the tree took the tool calls that its budget had left.
    pub(super) fn is_over_budget(&self) -> bool {
        let Self::Store(StoreError::Refused { expected, .. }) = self else {
            return false;
        };
        matches!(expected, Precondition::ToolCallsFit(_))
    }

    /// Whether the state, the open step or a call changed beside the run between reading and writing, or a child was
    /// deleted.
    pub(super) fn is_moved(&self) -> bool {
        matches!(
            self,
            Self::Store(
                StoreError::State { .. }
                    | StoreError::NotFound { .. }
                    | StoreError::Refused {
                        expected: Precondition::Open(_)
                            | Precondition::Call(..)
                            | Precondition::CurrentRun(_)
                            | Precondition::Run(..)
                            | Precondition::Inbox(_)
                            | Precondition::Stop(..)
                            | Precondition::NotAborted(_),
                        ..
                    }
            )
        )
    }
}

impl Coded for PerformError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Superseded { .. } | Self::Overtaken { .. } | Self::Missing { .. } => {
                ErrorCode::StateStale
            }
            Self::Agent(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Stream(error) => error.code(),
            Self::Id(error) => error.code(),
            Self::Pairing(error) => error.code(),
            Self::State(error) => error.code(),
            Self::ChildRuns { .. } | Self::NotBuilt { .. } => ErrorCode::FrameworkInternal,
        }
    }
}
