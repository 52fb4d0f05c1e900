//! The error of a read or a write, and its conversion to the errors of the ports.

use std::time::Duration;

use deadpool_postgres::PoolError;
use helix_agents_core::store::StoreError;
use helix_agents_core::stored::StoredError;
use helix_agents_core::stream::StreamError;
use tokio_postgres::error::SqlState;

/// The name under which the store appears in errors.
pub(crate) const BACKEND: &str = "postgres";

/// Why a read or a write failed.
#[derive(Debug)]
pub(crate) enum OperationError {
    /// PostgreSQL failed, or the connection to it.
    Postgres(tokio_postgres::Error),
    /// There is no connection. Nothing was sent.
    Pool(PoolError),
    /// The server did not answer in this time. What it was asked to write may have been written.
    Silent(Duration),
    /// The operation was refused.
    Refused(StoreError),
    /// An operation on a stream was refused.
    Stream(StreamError),
}

/// The source of an error about a transaction that others always preceded.
#[derive(Debug, thiserror::Error)]
#[error("other writers changed the sessions {attempts} times in a row; nothing was written")]
struct Overtaken {
    attempts: usize,
}

/// The source of an error about a server that does not answer.
#[derive(Debug, thiserror::Error)]
#[error("the server did not answer within {0:?}")]
struct NoAnswer(Duration);

impl OperationError {
    /// The sessions of a commit were changed by others before each attempt.
    pub(crate) fn overtaken(attempts: usize) -> Self {
        Self::Refused(StoreError::Unavailable {
            backend: BACKEND,
            source: Box::new(Overtaken { attempts }),
        })
    }

    /// An internal invariant does not hold.
    pub(crate) fn internal(reason: impl Into<String>) -> Self {
        let source = reason.into().into();
        let backend = BACKEND;
        Self::Refused(StoreError::Backend { backend, source })
    }

    /// Whether the connection is at fault, so that another may do better.
    pub(crate) fn is_of_connection(&self) -> bool {
        match self {
            Self::Postgres(error) => match error.code() {
                Some(code) => is_passing(code),
                None => is_io(error),
            },
            Self::Pool(_) | Self::Silent(_) | Self::Refused(_) | Self::Stream(_) => false,
        }
    }

    /// Whether what was sent may have been carried out, or may still be.
    pub(crate) fn is_unsure(&self) -> bool {
        match self {
            // A server that ends may do so after it has written.
            Self::Postgres(error) => error.code().is_none_or(|code| {
                let code = code.code();
                code.starts_with("08") || code.starts_with("57")
            }),
            Self::Silent(_) => true,
            Self::Pool(_) | Self::Refused(_) | Self::Stream(_) => false,
        }
    }

    /// Whether PostgreSQL undid the transaction because of another one: it was certainly not made.
    pub(crate) fn is_conflict(&self) -> bool {
        let Self::Postgres(error) = self else {
            return false;
        };
        let conflicts = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::UNIQUE_VIOLATION,
        ];
        error.code().is_some_and(|code| conflicts.contains(code))
    }
}

/// Whether the connection was lost.
fn is_io(error: &tokio_postgres::Error) -> bool {
    let source = std::error::Error::source(error);
    error.is_closed() || source.is_some_and(|source| source.is::<std::io::Error>())
}

/// Whether a failure of this code passes: the server ends, starts, is read-only or has no connection left.
fn is_passing(code: &SqlState) -> bool {
    // 08 connection, 53 resources, 57 operator intervention, 25006 read-only, 40 transaction rollback, 55P03 lock.
    let code = code.code();
    ["08", "53", "57", "40"]
        .iter()
        .any(|class| code.starts_with(class))
        || ["25006", "55P03"].contains(&code)
}

fn store_error(error: tokio_postgres::Error) -> StoreError {
    let backend = BACKEND;
    let code = error.code().cloned();
    let is_lost = is_io(&error);
    let source = Box::new(error);
    match code {
        Some(code) if code == SqlState::DISK_FULL => StoreError::Full { backend, source },
        Some(code) if is_passing(&code) => StoreError::Unavailable { backend, source },
        None if is_lost => StoreError::Unavailable { backend, source },
        _ => StoreError::Backend { backend, source },
    }
}

impl From<tokio_postgres::Error> for OperationError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<PoolError> for OperationError {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl From<StoreError> for OperationError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<StoredError> for OperationError {
    fn from(error: StoredError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<StreamError> for OperationError {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

impl From<OperationError> for StoreError {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::Postgres(error) => store_error(error),
            OperationError::Pool(error) => Self::Unavailable {
                backend: BACKEND,
                source: Box::new(error),
            },
            OperationError::Silent(time) => Self::Unavailable {
                backend: BACKEND,
                source: Box::new(NoAnswer(time)),
            },
            OperationError::Refused(error) | OperationError::Stream(StreamError::Store(error)) => {
                error
            }
            OperationError::Stream(error) => Self::Backend {
                backend: BACKEND,
                source: Box::new(error),
            },
        }
    }
}

impl From<OperationError> for StreamError {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::Stream(error) => error,
            other => Self::Store(other.into()),
        }
    }
}
