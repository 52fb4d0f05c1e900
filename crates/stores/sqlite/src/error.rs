//! Why a store cannot be opened, and why it did not do what it was asked.

use std::path::PathBuf;

use helix_agents_core::store::StoreError;
use helix_agents_core::stored::StoredError;
use helix_agents_core::stream::StreamError;
use rusqlite::ErrorCode;
use rusqlite::ffi;

/// What this crate's functions give.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The name under which the store appears in errors.
pub(crate) const BACKEND: &str = "sqlite";

/// Why a file cannot be used as a store. The file is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not the address of a SQLite file.
    #[error(
        "`{url}` is not an address of a sqlite store; write `sqlite:PATH` or `sqlite::memory:`"
    )]
    BadUrl {
        /// The text.
        url: String,
    },
    /// There is a folder of that name.
    #[error("{} is a folder; name a file in it", path.display())]
    IsAFolder {
        /// The path.
        path: PathBuf,
    },
    /// The folder of the file does not exist.
    #[error("the folder of {} does not exist; create it first", path.display())]
    NoFolder {
        /// The path.
        path: PathBuf,
    },
    /// The file or its folder cannot be written to.
    #[error("{} or its folder is read-only; give this process the right to write there", path.display())]
    ReadOnly {
        /// The path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is something else, or damaged. It was not touched.
    #[error(
        "{} is not a database, or is damaged; it was not changed: restore it from a backup or choose another path",
        path.display()
    )]
    Corrupt {
        /// The path.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// The database belongs to another program. It was not touched.
    #[error("{} is a database of another program; choose another path", path.display())]
    NotOurs {
        /// The path.
        path: PathBuf,
    },
    /// A newer version of this program made the schema.
    #[error(
        "{} has schema version {found}, this program knows up to {known}; upgrade this program",
        path.display()
    )]
    SchemaTooNew {
        /// The path.
        path: PathBuf,
        /// The file's version.
        found: u32,
        /// The newest version that is known here.
        known: u32,
    },
    /// The schema is not up to date, and migration is switched off.
    #[error(
        "{} has schema version {found}, this program needs {known}; open it once with migration switched on",
        path.display()
    )]
    SchemaTooOld {
        /// The path.
        path: PathBuf,
        /// The file's version.
        found: u32,
        /// The version that is needed.
        known: u32,
    },
    /// Another process holds on to the file.
    #[error("{} is in use by another process; try again", path.display())]
    Busy {
        /// The path.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// There is no room.
    #[error("there is no room for {}; make room and try again", path.display())]
    Full {
        /// The path.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// It failed in another way.
    #[error("{} cannot be opened", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// What a failure of SQLite means while a file is opened.
    pub(crate) fn opening(path: &std::path::Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                Self::Corrupt { path, source }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy { path, source }
            }
            Some(ErrorCode::DiskFull) => Self::Full { path, source },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                let source = Box::new(source);
                Self::ReadOnly { path, source }
            }
            _ => {
                let source = Box::new(source);
                Self::Open { path, source }
            }
        }
    }
}

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

    /// Something that cannot be stored.
    pub(crate) fn not_storable(kind: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        StoredError::NotStorable { kind, reason }.into()
    }
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
