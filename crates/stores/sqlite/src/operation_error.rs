//! Why a read or a write inside a transaction ended, and what that means outside.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use helix_agents_core::store::StoreError;
use helix_agents_core::stored::StoredError;
use helix_agents_core::stream::StreamError;
use rusqlite::ErrorCode;
use rusqlite::ffi;

/// The name under which the store appears in errors.
pub(crate) const BACKEND: &str = "sqlite";

/// A damaged file, met after it was opened.
#[derive(Debug, thiserror::Error)]
#[error("the database is damaged; stop writing to it and restore it from a backup")]
struct Damaged(#[source] rusqlite::Error);

/// Why a read or a write inside a transaction ends.
#[derive(Debug)]
pub(crate) enum Fail {
    /// SQLite failed: the whole transaction is in doubt.
    Sqlite(rusqlite::Error),
    /// It does not fit; the rest of the transaction is fine.
    Refused(StoreError),
    /// The same, of a stream.
    Stream(StreamError),
}

impl Fail {
    /// Whether the transaction cannot go on.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    /// Something stored that cannot be read.
    pub(crate) fn corrupt(kind: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        StoredError::Corrupt { kind, reason }.into()
    }

    /// Something that cannot happen, or that only a newer version of this crate knows.
    pub(crate) fn internal(reason: impl Into<String>) -> Self {
        let source = reason.into().into();
        let backend = BACKEND;
        Self::Refused(StoreError::Backend { backend, source })
    }

    /// Something that panicked.
    fn panicked(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("without a word");
        tracing::error!(event = "sqlite.panicked", text);
        Self::internal(format!(
            "it panicked and left nothing behind; report this as a defect: {text}"
        ))
    }

    /// Something that cannot be stored.
    pub(crate) fn not_storable(kind: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        StoredError::NotStorable { kind, reason }.into()
    }
}

/// Does something of one caller with what many share: when it panics, that caller is refused, and the
/// others are served. Whatever it had begun must be undone or discarded by who calls this.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, Fail>) -> Result<T, Fail> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Fail::panicked(&*panic)))
}

impl From<rusqlite::Error> for Fail {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<StoredError> for Fail {
    fn from(error: StoredError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<StreamError> for Fail {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

impl From<Fail> for StoreError {
    fn from(fail: Fail) -> Self {
        match fail {
            Fail::Sqlite(error) => failure(error),
            Fail::Refused(error) | Fail::Stream(StreamError::Store(error)) => error,
            Fail::Stream(error) => Self::Backend {
                backend: BACKEND,
                source: Box::new(error),
            },
        }
    }
}

impl From<Fail> for StreamError {
    fn from(fail: Fail) -> Self {
        match fail {
            Fail::Stream(error) => error,
            other => Self::Store(other.into()),
        }
    }
}

/// What a failure of SQLite means to who uses the store.
fn failure(error: rusqlite::Error) -> StoreError {
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

/// The same failure once more, for each of those who shared a transaction.
pub(crate) fn again(error: &rusqlite::Error) -> rusqlite::Error {
    let code = error.sqlite_error().copied();
    let code = code.unwrap_or_else(|| ffi::Error::new(ffi::SQLITE_ERROR));
    rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
}
