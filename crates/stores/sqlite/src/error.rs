//! The errors of opening a store.

use std::path::PathBuf;

use helix_agents_core::{Coded, ErrorCode};
use rusqlite::ErrorCode as SqliteCode;

/// A result whose error is [`Error`] unless another is named.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of opening a store. The file was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not the address of a SQLite file.
    #[error(
        "`{url}` is not an address of a sqlite store; write `sqlite:PATH` or `sqlite::memory:`"
    )]
    BadUrl {
        /// The text that was given.
        url: String,
    },
    /// The path names a folder.
    #[error("{} is a folder; name a file in it", path.display())]
    IsAFolder {
        /// The path that was given.
        path: PathBuf,
    },
    /// The folder of the file does not exist.
    #[error("the folder of {} does not exist; create it first", path.display())]
    NoFolder {
        /// The path that was given.
        path: PathBuf,
    },
    /// The file or its folder cannot be written to.
    #[error("{} or its folder is read-only; give this process the right to write there", path.display())]
    ReadOnly {
        /// The path that was given.
        path: PathBuf,
        /// The error of the operating system or of SQLite.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is not a database, or is damaged. It was not changed.
    #[error(
        "{} is not a database, or is damaged; it was not changed: restore it from a backup or choose another path",
        path.display()
    )]
    Corrupt {
        /// The path that was given.
        path: PathBuf,
        /// The error of SQLite.
        #[source]
        source: rusqlite::Error,
    },
    /// The database belongs to another program. It was not changed.
    #[error("{} is a database of another program; choose another path", path.display())]
    NotOurs {
        /// The path that was given.
        path: PathBuf,
    },
    /// A newer version of this program made the schema.
    #[error(
        "{} has schema version {found}, this program knows up to {known}; upgrade this program",
        path.display()
    )]
    SchemaTooNew {
        /// The path that was given.
        path: PathBuf,
        /// The schema version of the file.
        found: u32,
        /// The newest schema version that this program knows.
        known: u32,
    },
    /// The schema is not up to date, and migration is switched off.
    #[error(
        "{} has schema version {found}, this program needs {known}; open it once with migration switched on",
        path.display()
    )]
    SchemaTooOld {
        /// The path that was given.
        path: PathBuf,
        /// The schema version of the file.
        found: u32,
        /// The schema version that this program needs.
        known: u32,
    },
    /// Another process has locked the file.
    #[error("{} is in use by another process; try again", path.display())]
    Busy {
        /// The path that was given.
        path: PathBuf,
        /// The error of SQLite.
        #[source]
        source: rusqlite::Error,
    },
    /// The disk is full.
    #[error("the disk of {} is full; free some space and try again", path.display())]
    Full {
        /// The path that was given.
        path: PathBuf,
        /// The error of SQLite.
        #[source]
        source: rusqlite::Error,
    },
    /// The file cannot be opened for another reason, which is the source.
    #[error("{} cannot be opened", path.display())]
    Open {
        /// The path that was given.
        path: PathBuf,
        /// The error of the operating system or of SQLite.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// The error that stands for an error of SQLite while a file is opened.
    pub(crate) fn opening(path: &std::path::Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(SqliteCode::NotADatabase | SqliteCode::DatabaseCorrupt) => {
                Self::Corrupt { path, source }
            }
            Some(SqliteCode::DatabaseBusy | SqliteCode::DatabaseLocked) => {
                Self::Busy { path, source }
            }
            Some(SqliteCode::DiskFull) => Self::Full { path, source },
            Some(SqliteCode::ReadOnly | SqliteCode::PermissionDenied | SqliteCode::CannotOpen) => {
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

impl From<Error> for helix_agents_core::Error {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

impl Coded for Error {
    fn code(&self) -> ErrorCode {
        match self {
            Self::BadUrl { .. } | Self::IsAFolder { .. } | Self::NoFolder { .. } => {
                ErrorCode::ValidationError
            }
            Self::Corrupt { .. } | Self::NotOurs { .. } => ErrorCode::StateCorrupt,
            Self::SchemaTooNew { .. } | Self::SchemaTooOld { .. } => {
                ErrorCode::StateUnsupportedVersion
            }
            Self::Full { .. } => ErrorCode::StoreFull,
            Self::Busy { .. } | Self::ReadOnly { .. } | Self::Open { .. } => {
                ErrorCode::StoreUnavailable
            }
        }
    }
}
