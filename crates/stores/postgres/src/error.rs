//! The errors of opening a store.

use helix_agents_core::{Coded, ErrorCode};

/// A result whose error is [`Error`] unless another is named.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The boxed cause of an error.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// An error of opening a store. The database was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not the URL of a PostgreSQL database.
    #[error(
        "the URL is not one of a PostgreSQL database: {reason}; write `postgres://user:password@host:port/database`"
    )]
    BadUrl {
        /// What is wrong with it. It does not contain the URL, which may have a password.
        reason: String,
    },
    /// The name of the schema cannot be used.
    #[error("`{schema}` is no name for a schema; use 1 to 40 letters, digits or `_`")]
    BadSchema {
        /// The name that was given.
        schema: String,
    },
    /// The certificates for TLS cannot be read.
    #[error("the certificates for TLS cannot be used: {reason}; check `sslrootcert`")]
    Certificates {
        /// What is wrong with them.
        reason: String,
    },
    /// The store was opened outside of a tokio runtime.
    #[error("the PostgreSQL store needs a tokio runtime; open it inside of one")]
    NoRuntime,
    /// The server cannot be reached, or did not answer in time.
    #[error(
        "PostgreSQL at {address} cannot be reached; check that it runs, that the address is right, and that this host may connect"
    )]
    Unreachable {
        /// The host, the port and the database, without user and password.
        address: String,
        /// The error of the connection.
        #[source]
        source: Source,
    },
    /// The server refused the connection.
    #[error("PostgreSQL at {address} refuses the connection; check user, password and database")]
    Denied {
        /// The host, the port and the database, without user and password.
        address: String,
        /// The error of the server.
        #[source]
        source: Source,
    },
    /// A newer version of this program made the schema.
    #[error(
        "schema `{schema}` has version {found}, this program knows up to {known}; upgrade this program"
    )]
    SchemaTooNew {
        /// The name of the schema.
        schema: String,
        /// The version that was found.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// The schema is not up to date, and migration is switched off.
    #[error(
        "schema `{schema}` has version {found}, this program needs {known}; open it once with migration switched on"
    )]
    SchemaTooOld {
        /// The name of the schema.
        schema: String,
        /// The version that was found; 0 if there is no such schema.
        found: u32,
        /// The version that this program needs.
        known: u32,
    },
    /// The chunks of the schema go to an outbox, and the store was to be opened without one.
    #[error(
        "the streams of schema `{schema}` are elsewhere; name the Redis that has them, with `[stream]` or `--stream` of \
         `helix`, or open the store with an outbox"
    )]
    StreamsElsewhere {
        /// The name of the schema.
        schema: String,
    },
    /// The schema cannot be read or made.
    #[error("schema `{schema}` cannot be opened; check that the user may create and use it")]
    Schema {
        /// The name of the schema.
        schema: String,
        /// The error of the server.
        #[source]
        source: Source,
    },
}

impl From<Error> for helix_agents_core::Error {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

impl Coded for Error {
    fn code(&self) -> ErrorCode {
        match self {
            Self::BadUrl { .. }
            | Self::BadSchema { .. }
            | Self::Certificates { .. }
            | Self::StreamsElsewhere { .. }
            | Self::NoRuntime => ErrorCode::ValidationError,
            Self::SchemaTooNew { .. } | Self::SchemaTooOld { .. } => {
                ErrorCode::StateUnsupportedVersion
            }
            Self::Unreachable { .. } | Self::Denied { .. } | Self::Schema { .. } => {
                ErrorCode::StoreUnavailable
            }
        }
    }
}
