//! The one error that users meet.

use std::error::Error as StdError;
use std::fmt;

use super::{Coded, ErrorCode, ErrorRecord};
use crate::id::{RunId, SessionId};

/// Why something did not happen: one type for everything that users call.
///
/// It says what went wrong in a machine-readable [`code`](Error::code), whether trying again may help,
/// and which session and run it is about. The error that caused it is kept: [`Error::get_ref`] gives it
/// to those who need more than the code.
///
/// ```
/// use helix_agents_core::{Error, ErrorCode, SessionId};
///
/// let error = Error::from(SessionId::new("two words").unwrap_err());
/// assert_eq!(error.code(), ErrorCode::ValidationError);
/// assert!(!error.is_retryable());
/// ```
pub struct Error {
    // Boxed, so that a `Result` of it stays small.
    inner: Box<Inner>,
}

struct Inner {
    record: ErrorRecord,
    session: Option<SessionId>,
    run: Option<RunId>,
    cause: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// The error that this cause makes.
    #[must_use]
    pub fn new(cause: impl Coded + Send + Sync + 'static) -> Self {
        Self {
            inner: Box::new(Inner {
                record: cause.to_record(),
                session: None,
                run: None,
                cause: Box::new(cause),
            }),
        }
    }

    /// Says which session it is about, unless that is known already.
    #[must_use]
    pub fn in_session(mut self, session: &SessionId) -> Self {
        self.inner.session.get_or_insert_with(|| session.clone());
        self
    }

    /// Says which run it is about, unless that is known already.
    #[must_use]
    pub(crate) fn of_run(mut self, run: &RunId) -> Self {
        self.inner.run.get_or_insert_with(|| run.clone());
        self
    }

    pub(crate) fn about(mut self, session: Option<&SessionId>, run: Option<&RunId>) -> Self {
        self.inner.session = self.inner.session.or_else(|| session.cloned());
        self.inner.run = self.inner.run.or_else(|| run.cloned());
        self
    }

    /// The machine-readable name of what went wrong.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.inner.record.code
    }

    /// Whether trying again, unchanged, may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.inner.record.retryable
    }

    /// A sentence that can be shown to anyone. It holds no detail.
    #[must_use]
    pub fn user_message(&self) -> &str {
        &self.inner.record.message
    }

    /// The session it is about.
    #[must_use]
    pub fn session_id(&self) -> Option<&SessionId> {
        self.inner.session.as_ref()
    }

    /// The run it is about.
    #[must_use]
    pub fn run_id(&self) -> Option<&RunId> {
        self.inner.run.as_ref()
    }

    /// The error as data, as runs and chunks have it.
    #[must_use]
    pub fn record(&self) -> &ErrorRecord {
        &self.inner.record
    }

    /// The error that caused it.
    #[must_use]
    pub fn get_ref(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self.inner.cause.as_ref()
    }

    /// The error that caused it, if it is of this type.
    #[must_use]
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.inner.cause.downcast_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.cause.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("code", &self.inner.record.code)
            .field("session", &self.inner.session)
            .field("run", &self.inner.run)
            .field("cause", &self.inner.cause)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // It is displayed as its cause, so its source is what caused that.
        self.inner.cause.source()
    }
}

/// Two errors are equal when they say the same about the same session and run.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (&self.inner, &other.inner);
        one.record == other.record && one.session == other.session && one.run == other.run
    }
}

impl Coded for Error {
    fn code(&self) -> ErrorCode {
        Self::code(self)
    }
    fn is_retryable(&self) -> bool {
        Self::is_retryable(self)
    }
    fn user_message(&self) -> String {
        Self::user_message(self).to_owned()
    }
}

macro_rules! causes {
    ($($cause:path),* $(,)?) => {$(
        impl From<$cause> for Error {
            fn from(cause: $cause) -> Self {
                Self::new(cause)
            }
        }
    )*};
}

causes! {
    ErrorRecord,
    crate::agent::AlreadyRegistered,
    crate::agent::DefinitionError,
    crate::agent::ResolveError,
    crate::id::IdError,
    crate::model::ModelError,
    crate::state::StateError,
}
