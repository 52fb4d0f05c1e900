//! What can go wrong between us and a model.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Coded, ErrorCode};
use crate::id::IdError;

/// What kind of failure it is, in the words of all providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// Too many requests.
    RateLimited,
    /// The provider has no room at the moment.
    Overloaded,
    /// The conversation is longer than the model can read.
    ContextLength,
    /// A filter of the provider cut in.
    ContentFilter,
    /// The model declined.
    Refusal,
    /// The credentials were not accepted.
    Auth,
    /// The request was not accepted.
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
#[derive(Debug, thiserror::Error)]
#[error("the model call failed ({kind:?}): {detail}")]
#[non_exhaustive]
pub struct ModelError {
    /// What kind of failure it is.
    pub kind: ModelErrorKind,
    /// What a developer needs to know.
    pub detail: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// A sentence for users that says more than the kind does.
    pub user_message: Option<String>,
    /// What caused it.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ModelError {
    /// A failure of a kind.
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

    /// Says how long the provider asks to wait.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Gives users a sentence of its own.
    #[must_use]
    pub fn with_user_message(mut self, text: impl Into<String>) -> Self {
        self.user_message = Some(text.into());
        self
    }

    /// Keeps the cause.
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
        Self::new(ModelErrorKind::Invalid, "a call could not be named").caused_by(error)
    }
}
