//! The error responses, and the errors of building a server.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use helix_agents_core::agent::ResolveError;
use helix_agents_core::entries::EntryError;
use helix_agents_core::runtime::RuntimeError;
use helix_agents_core::session::MAX_ERROR_BYTES;
use helix_agents_core::store::StoreError;
use helix_agents_core::stream::StreamError;
use helix_agents_core::{Coded, ErrorCode, IdError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::Refusal;

/// The reason why a server cannot be built.
///
/// ```
/// use helix_agents_server::{BuildError, Server};
/// # use helix_agents_core::memory::MemoryStore;
/// # use helix_agents_runtime_local::LocalRuntime;
/// # let runtime = LocalRuntime::new(MemoryStore::new());
///
/// // Nobody said who may use it.
/// assert_eq!(Server::builder(runtime).build().unwrap_err(), BuildError::NoAuthentication);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No authentication was given, and unauthenticated use was not allowed.
    #[error(
        "the server has no authentication; call `authenticate`, or say \
         `allow_unauthenticated` if every client that can reach it may use it"
    )]
    NoAuthentication,
    /// Both authentication and unauthenticated use were given.
    #[error("the server has both authentication and `allow_unauthenticated`; choose one of them")]
    BothWays,
    /// The text is not an origin.
    #[error("{origin:?} is not an origin; write it like `https://example.com`, without a path")]
    NotAnOrigin {
        /// The text that was given.
        origin: String,
    },
}

/// The machine-readable code of an error, which determines the HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ApiCode {
    /// The request is invalid: 400.
    ValidationError,
    /// The caller could not be identified: 401.
    Unauthenticated,
    /// The caller is not allowed to do this: 403.
    Forbidden,
    /// The resource does not exist, or belongs to another user: 404.
    NotFound,
    /// A run is running: 409.
    AlreadyRunning,
    /// The last turn of the session has ended: 409.
    AlreadyCompleted,
    /// Calls are pending: 409.
    AwaitingAnswers,
    /// The session is not, or no longer, in a state for this: 409.
    Stale,
    /// A budget has paused the session, and the request does not raise it: 409.
    BudgetExhausted,
    /// The body is too large: 413.
    PayloadTooLarge,
    /// The caller sends too many requests: 429.
    RateLimited,
    /// An internal error: 500.
    Internal,
    /// A dependency cannot be reached: 503.
    Unavailable,
}

impl ApiCode {
    /// Every code, ordered by status.
    pub const ALL: &'static [Self] = &[
        Self::ValidationError,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::AlreadyRunning,
        Self::AlreadyCompleted,
        Self::AwaitingAnswers,
        Self::Stale,
        Self::BudgetExhausted,
        Self::PayloadTooLarge,
        Self::RateLimited,
        Self::Internal,
        Self::Unavailable,
    ];

    /// The HTTP status of the code.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::ValidationError => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyRunning
            | Self::AlreadyCompleted
            | Self::AwaitingAnswers
            | Self::Stale
            | Self::BudgetExhausted => StatusCode::CONFLICT,
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Maps the error codes of core.
    fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::ValidationError | ErrorCode::StateInvalid => Self::ValidationError,
            ErrorCode::AgentNotFound | ErrorCode::SessionNotFound => Self::NotFound,
            ErrorCode::StateStale => Self::Stale,
            ErrorCode::SessionRunning => Self::AlreadyRunning,
            ErrorCode::SessionAwaitingAnswers => Self::AwaitingAnswers,
            ErrorCode::SessionCompleted => Self::AlreadyCompleted,
            ErrorCode::BudgetExhausted => Self::BudgetExhausted,
            ErrorCode::StoreFull | ErrorCode::StoreUnavailable => Self::Unavailable,
            _ => Self::Internal,
        }
    }
}

/// The body of an error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema, thiserror::Error)]
#[error("{detail}")]
#[non_exhaustive]
pub struct ApiError {
    /// A sentence that can be shown to anyone.
    pub error: String,
    /// The details for a developer.
    pub detail: String,
    /// The machine-readable code; stable across versions, unlike the detail.
    pub code: ApiCode,
    /// The number of seconds after which the request may succeed.
    #[serde(skip)]
    pub(crate) retry_after: Option<u32>,
}

impl ApiError {
    fn new(code: ApiCode, error: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            detail: shortened(detail.into()),
            code,
            retry_after: None,
        }
    }

    /// Creates the error of an overloaded server.
    pub(crate) fn overloaded(detail: impl Into<String>) -> Self {
        let error = ErrorCode::StoreUnavailable.user_message();
        Self::new(ApiCode::Unavailable, error, detail).retry_after(1)
    }

    /// Creates the error of a caller that sends too many requests.
    pub(crate) fn rate_limited(detail: impl Into<String>, seconds: u32) -> Self {
        let error = "Too many requests. Please try again shortly.";
        Self::new(ApiCode::RateLimited, error, detail).retry_after(seconds)
    }

    fn retry_after(self, seconds: u32) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self
        }
    }

    /// Creates the error of an invalid request.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        let error = ErrorCode::ValidationError.user_message();
        Self::new(ApiCode::ValidationError, error, detail)
    }

    /// Creates the error of a missing resource.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(ApiCode::NotFound, "Not found.", detail)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(
            ApiCode::PayloadTooLarge,
            "The request is too large.",
            format!("the body has more than {limit} bytes; send less, or a reference to it"),
        )
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(ApiCode::Forbidden, "You may not do this.", detail)
    }

    /// Creates the error of a session id that is already in use.
    pub(crate) fn taken(detail: impl Into<String>) -> Self {
        let error = "A conversation with this id already exists.";
        Self::new(ApiCode::Stale, error, detail)
    }

    /// Creates the error of a request based on outdated data.
    pub(crate) fn stale(detail: impl Into<String>) -> Self {
        let error = ErrorCode::StateStale.user_message();
        Self::new(ApiCode::Stale, error, detail)
    }

    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        let error = ErrorCode::FrameworkInternal.user_message();
        Self::new(ApiCode::Internal, error, detail)
    }

    /// Logs that a caller was refused, for the operator of the server.
    pub(crate) fn log_refusal(&self) {
        if matches!(self.code, ApiCode::Unauthenticated | ApiCode::Forbidden) {
            tracing::warn!(event = "auth.refused", detail = self.detail);
        }
    }

    /// Creates the response for an error of core. Internal errors are logged with their causes,
    /// which the caller does not see.
    pub(crate) fn of(error: &dyn Coded) -> Self {
        let code = ApiCode::of(error.code());
        if code.status().is_server_error() {
            let detail = error.to_record().detail;
            tracing::error!(event = "http.failed", code = %error.code(), detail);
        }
        Self::new(code, error.user_message(), error.to_string())
    }
}

/// Truncates a text to the maximum length of an error text, at a character boundary.
fn shortened(mut text: String) -> String {
    if text.len() > MAX_ERROR_BYTES {
        let end = (0..=MAX_ERROR_BYTES).rev();
        let end = end.into_iter().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
    }
    text
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.code.status(), Json(&self)).into_response();
        if self.code == ApiCode::Unauthenticated {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unauthenticated(detail) => {
                Self::new(ApiCode::Unauthenticated, "Please sign in.", detail)
            }
            Refusal::Forbidden(detail) => Self::forbidden(detail),
            Refusal::RateLimited(detail) => Self::new(
                ApiCode::RateLimited,
                "Too many requests. Please try again shortly.",
                detail,
            ),
        }
    }
}

macro_rules! coded {
    ($($error:ty),*) => {$(
        impl From<$error> for ApiError {
            fn from(error: $error) -> Self {
                Self::of(&error)
            }
        }
    )*};
}

coded!(
    helix_agents_core::Error,
    EntryError,
    IdError,
    ResolveError,
    RuntimeError,
    StoreError,
    StreamError
);
