//! The failure of an operation, and which error of the ports it is.

use helix_agents_core::id::IdError;
use helix_agents_core::store::StoreError;
use helix_agents_core::stored::StoredError;
use helix_agents_core::stream::StreamError;
use redis::{ErrorKind, RedisError};

/// The name of this store in errors.
pub(crate) const BACKEND: &str = "Redis";

/// A result whose error is [`Failure`] unless another is named.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server could not be asked, or answered with an error.
    Server(RedisError),
    /// The operation was judged, and is not possible.
    Judged(StreamError),
}

impl Failure {
    /// The failure for something that cannot happen unless others write to our keys.
    pub(crate) fn internal(reason: impl Into<String>) -> Self {
        let source = reason.into().into();
        let backend = BACKEND;
        StoreError::Backend { backend, source }.into()
    }

    /// The server cannot be asked now, for another reason than its answer.
    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        let source = reason.into().into();
        let backend = BACKEND;
        StoreError::Unavailable { backend, source }.into()
    }

    /// The failure after many attempts of which another writer was always faster.
    pub(crate) fn busy() -> Self {
        Self::unavailable("others change this session all the time")
    }

    /// The failure for a record that is not there although others name it.
    pub(crate) fn corrupt(kind: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        StoreError::Corrupt(StoredError::Corrupt { kind, reason }).into()
    }
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self::Server(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Judged(error.into())
    }
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Self {
        Self::Judged(error)
    }
}

impl From<StoredError> for Failure {
    fn from(error: StoredError) -> Self {
        StoreError::from(error).into()
    }
}

impl From<IdError> for Failure {
    fn from(error: IdError) -> Self {
        Self::corrupt("id", error.to_string())
    }
}

impl From<Failure> for StreamError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Server(error) => server(error).into(),
            Failure::Judged(error) => error,
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Server(error) => server(error),
            Failure::Judged(StreamError::Store(error)) => error,
            Failure::Judged(other) => Self::Backend {
                backend: BACKEND,
                source: other.into(),
            },
        }
    }
}

/// The codes of errors that pass: the server starts, fails over, is read-only or cannot save, or a cluster is
/// changed. It did nothing then.
const PASSING: [&str; 10] = [
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "BUSY",
    "TRYAGAIN",
    "MOVED",
    "ASK",
];

/// Whether the connection is of no more use. A timeout counts: the answer may come when nobody waits for it.
pub(crate) fn is_lost(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Io | ErrorKind::Parse | ErrorKind::Client => true,
        _ => error.is_connection_dropped() || error.is_unrecoverable_error(),
    }
}

/// Whether the server takes no writes any more, because another one does: it refused this, and did nothing. Its
/// address may lead to the other one by now.
pub(crate) fn is_demoted(error: &RedisError) -> bool {
    matches!(error.code(), Some("READONLY" | "MASTERDOWN"))
}

fn server(error: RedisError) -> StoreError {
    let backend = BACKEND;
    let code = error.code().map(str::to_owned);
    let lost = is_lost(&error);
    let source = error.into();
    match code.as_deref() {
        Some("OOM") => StoreError::Full { backend, source },
        Some(code) if PASSING.contains(&code) => StoreError::Unavailable { backend, source },
        _ if lost => StoreError::Unavailable { backend, source },
        _ => StoreError::Backend { backend, source },
    }
}
