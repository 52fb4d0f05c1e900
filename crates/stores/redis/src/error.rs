//! The errors of opening a store.

use helix_agents_core::store::StoreError;
use helix_agents_core::{Coded, ErrorCode};

use crate::config::Durability;

/// A result whose error is [`Error`] unless another is named.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of opening a store. Addresses are shown without passwords.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not the address of a Redis server.
    #[error(
        "`{url}` is not an address of a Redis server; write `redis://HOST:PORT`, `rediss://HOST:PORT` or `unix:PATH`"
    )]
    BadUrl {
        /// The text that was given.
        url: String,
        /// The error of the client.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server cannot be reached, or refuses the connection.
    #[error("{address} cannot be reached; check the address, and that the server is running")]
    Unreachable {
        /// The address.
        address: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server is too old.
    #[error("{address} is Redis {found}; this store needs version 7.0 or later")]
    TooOld {
        /// The address.
        address: String,
        /// The version of the server.
        found: String,
    },
    /// The server removes keys when its memory is full, and would lose sessions.
    #[error(
        "{address} evicts keys when its memory is full; set `maxmemory-policy noeviction` instead of `{policy}`"
    )]
    Evicts {
        /// The address.
        address: String,
        /// The policy of the server.
        policy: String,
    },
    /// The server promises less of a commit than it must.
    #[error(
        "{address} has `appendonly {appendonly}` and `appendfsync {appendfsync}`, which is less than {wanted:?}; \
         change these settings, or open the store with a lower durability"
    )]
    LessDurable {
        /// The address.
        address: String,
        /// The setting of the server.
        appendonly: String,
        /// The setting of the server.
        appendfsync: String,
        /// What it must promise.
        wanted: Durability,
    },
    /// The server does not tell its version or its settings.
    #[error(
        "{address} does not allow `INFO` and `CONFIG GET`; allow them, or open the store with `trust_server` if it evicts nothing \
         and is as durable as you need"
    )]
    SettingsHidden {
        /// The address.
        address: String,
        /// The answer of the server.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The user of the server may not do all that a commit needs.
    #[error(
        "{address} does not allow its user {command} on the keys that begin with `{{{prefix}:`; \
         grant the user all commands on these keys"
    )]
    NotPermitted {
        /// The address.
        address: String,
        /// The first command that is not allowed.
        command: String,
        /// The prefix of the keys.
        prefix: String,
    },
    /// The keys with this prefix have another layout.
    #[error(
        "the keys that begin with `{{{prefix}:` have the layout `{found}`; open them with that, or choose another prefix"
    )]
    OtherLayout {
        /// The prefix of the keys.
        prefix: String,
        /// The layout that is stored: its version and the number of shards.
        found: String,
    },
    /// A prefix has characters that it cannot have.
    #[error("`{prefix}` cannot begin keys; use letters, digits, `-`, `_`, `.` and `:`")]
    BadPrefix {
        /// The prefix that was given.
        prefix: String,
    },
    /// The server can be reached, and opening failed for another reason.
    #[error("{address} cannot be opened")]
    Open {
        /// The address.
        address: String,
        /// What went wrong.
        #[source]
        source: Box<StoreError>,
    },
}

impl Coded for Error {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Unreachable { .. } => ErrorCode::StoreUnavailable,
            Self::Open { source, .. } => source.code(),
            _ => ErrorCode::ValidationError,
        }
    }
}

impl From<Error> for helix_agents_core::Error {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}
