//! The error of a read or a write inside a transaction, and its conversion to the errors of the ports.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use helix_agents_core::store::StoreError;
use helix_agents_core::stored::StoredError;
use helix_agents_core::stream::StreamError;
use rusqlite::ErrorCode;
use rusqlite::ffi;

/// The name under which the store appears in errors.
pub(crate) const BACKEND: &str = "sqlite";

/// The source of an error about a file that turned out to be damaged after it was opened.
#[derive(Debug, thiserror::Error)]
#[error("the database is damaged; stop writing to it and restore it from a backup")]
struct Damaged(#[source] rusqlite::Error);

/// Why a read or a write inside a transaction failed.
#[derive(Debug)]
pub(crate) enum OperationError {
    /// SQLite failed. The whole transaction must be rolled back.
    Sqlite(rusqlite::Error),
    /// The operation was refused. Other operations in the same transaction are not affected.
    Refused(StoreError),
    /// An operation on a stream was refused. Otherwise as `Refused`.
    Stream(StreamError),
}

impl OperationError {
    /// Whether the whole transaction must be rolled back, not this operation alone.
    pub(crate) fn breaks_transaction(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    /// Stored data of this kind cannot be read.
    pub(crate) fn corrupt(kind: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        StoredError::Corrupt { kind, reason }.into()
    }

    /// An internal invariant does not hold.
    pub(crate) fn internal(reason: impl Into<String>) -> Self {
        let source = reason.into().into();
        let backend = BACKEND;
        Self::Refused(StoreError::Backend { backend, source })
    }

    /// The operation panicked with this payload, which is logged.
    fn panicked(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("no message");
        tracing::error!(event = "sqlite.panicked", text);
        Self::internal(format!(
            "the operation panicked and was rolled back; report this as a defect: {text}"
        ))
    }

    /// A value of this kind cannot be stored.
    pub(crate) fn not_storable(kind: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        StoredError::NotStorable { kind, reason }.into()
    }
}

/// Runs one caller's work on a connection that many share, and turns a panic into a refusal of that
/// caller alone. The calling function undoes what the work had written.
pub(crate) fn catch_panic<T>(
    work: impl FnOnce() -> Result<T, OperationError>,
) -> Result<T, OperationError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(OperationError::panicked(&*panic)))
}

impl From<rusqlite::Error> for OperationError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
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
            OperationError::Sqlite(error) => store_error(error),
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

/// The error of the port that stands for an error of SQLite.
fn store_error(error: rusqlite::Error) -> StoreError {
    let backend = BACKEND;
    let extended = error.sqlite_error().map_or(0, |error| error.extended_code);
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full {
            backend,
            source: Box::new(error),
        },
        Some(ErrorCode::SystemIoFailure) if is_write(extended) => StoreError::Full {
            backend,
            source: Box::new(error),
        },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::CannotOpen) => {
            StoreError::Unavailable {
                backend,
                source: Box::new(error),
            }
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Backend {
            backend,
            source: Box::new(Damaged(error)),
        },
        _ => StoreError::Backend {
            backend,
            source: Box::new(error),
        },
    }
}

fn is_write(extended: std::ffi::c_int) -> bool {
    matches!(
        extended,
        ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_SHMMAP
    )
}

/// A copy of an error of SQLite, one for each write that shared the transaction.
pub(crate) fn duplicate(error: &rusqlite::Error) -> rusqlite::Error {
    let code = error.sqlite_error().copied();
    let code = code.unwrap_or_else(|| ffi::Error::new(ffi::SQLITE_ERROR));
    rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
}
