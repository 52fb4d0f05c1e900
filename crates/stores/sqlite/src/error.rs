//! Why a file cannot be used as a store.

use std::path::PathBuf;

use helix_agents_core::{Coded, ErrorCode};
use rusqlite::ErrorCode as SqliteCode;

/// What this crate's functions give.
pub type Result<T, E = Error> = std::result::Result<T, E>;

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
