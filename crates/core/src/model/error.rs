//! The errors of model calls.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Coded, ErrorCode};
use crate::id::IdError;

/// The kind of a failure, in terms common to all providers.
///
/// ```
/// use helix_agents::ModelErrorKind;
///
/// fn of_status(status: u16) -> ModelErrorKind {
///     match status {
///         401 | 403 => ModelErrorKind::Auth,
///         429 => ModelErrorKind::RateLimited,
///         500.. => ModelErrorKind::Overloaded,
///         _ => ModelErrorKind::Invalid,
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The provider received too many requests.
    RateLimited,
    /// The provider is overloaded at the moment.
    Overloaded,
    /// The conversation exceeds the context length of the model.
    ContextLength,
    /// The provider's content filter intervened.
    ContentFilter,
    /// The model refused to answer.
    Refusal,
    /// The provider rejected the credentials.
    Auth,
    /// The provider rejected the request.
    Invalid,
    /// The connection failed or ended early.
    Transport,
}

impl ModelErrorKind {
    fn code(self) -> ErrorCode {
        match self {
            Self::RateLimited => ErrorCode::ProviderRateLimited,
            Self::Overloaded => ErrorCode::ProviderOverloaded,
            Self::ContextLength => ErrorCode::ProviderContextLength,
            Self::ContentFilter => ErrorCode::ProviderContentFilter,
            Self::Refusal => ErrorCode::ProviderRefusal,
            Self::Auth => ErrorCode::ProviderAuth,
            Self::Invalid => ErrorCode::ProviderInvalid,
            Self::Transport => ErrorCode::ProviderTransport,
        }
    }
}

/// A failed attempt of a model call.
///
/// ```
/// use std::time::Duration;
///
/// use helix_agents::{ModelError, ModelErrorKind};
///
/// let error = ModelError::new(ModelErrorKind::RateLimited, "429").retry_after(Duration::from_secs(2));
/// assert_eq!(error.retry_after, Some(Duration::from_secs(2)));
/// ```
#[derive(Debug, thiserror::Error)]
#[error("the model call failed ({kind:?}): {detail}")]
#[non_exhaustive]
pub struct ModelError {
    /// The kind of the failure.
    pub kind: ModelErrorKind,
    /// Details for a developer.
    pub detail: String,
    /// The wait that the provider asks for.
    pub retry_after: Option<Duration>,
    /// A user-safe sentence that is more specific than that of the kind.
    pub user_message: Option<String>,
    /// The underlying error.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ModelError {
    /// Creates an error of a kind.
    #[must_use]
    pub fn new(kind: ModelErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            retry_after: None,
            user_message: None,
            source: None,
        }
    }

    /// Sets the wait that the provider asks for.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Sets a user-safe sentence.
    #[must_use]
    pub fn with_user_message(mut self, text: impl Into<String>) -> Self {
        self.user_message = Some(text.into());
        self
    }

    /// Sets the underlying error.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }
}

impl Coded for ModelError {
    fn code(&self) -> ErrorCode {
        self.kind.code()
    }

    fn user_message(&self) -> String {
        let own = self.user_message.clone();
        own.unwrap_or_else(|| self.code().user_message().to_owned())
    }
}

impl From<IdError> for ModelError {
    fn from(error: IdError) -> Self {
        Self::new(ModelErrorKind::Invalid, "a call id could not be generated").caused_by(error)
    }
}
