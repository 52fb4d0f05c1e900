//! What is answered instead, and why a server was not built.

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

/// Why a server was not built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Nobody says who a caller is.
    #[error(
        "the server has no authentication; give it some with `authenticate`, or say \
         `allow_unauthenticated` if everybody who can reach it may use it"
    )]
    NoAuthentication,
    /// Both were said.
    #[error(
        "the server has authentication and is told to allow unauthenticated use; choose one of them"
    )]
    BothWays,
    /// An origin that no browser sends.
    #[error("{origin:?} is not an origin; write it like `https://example.com`, without a path")]
    NotAnOrigin {
        /// What was given.
        origin: String,
    },
}

/// The machine-readable name of an error, and with it its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ApiCode {
    /// What was sent cannot be used: 400.
    ValidationError,
    /// Nobody knows who asks: 401.
    Unauthenticated,
    /// Who asks may not: 403.
    Forbidden,
    /// There is no such thing, or it is somebody else's: 404.
    NotFound,
    /// A run goes on: 409.
    AlreadyRunning,
    /// The last turn is over: 409.
    AlreadyCompleted,
    /// Calls wait for answers: 409.
    AwaitingAnswers,
    /// It is not, or no longer, in a state for this: 409.
    Stale,
    /// The body is too large: 413.
    PayloadTooLarge,
    /// It is asked too often: 429.
    RateLimited,
    /// Our own fault: 500.
    Internal,
    /// Something that is needed cannot be reached: 503.
    Unavailable,
}

impl ApiCode {
    /// Every code, by status.
    pub const ALL: &'static [Self] = &[
        Self::ValidationError,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::AlreadyRunning,
        Self::AlreadyCompleted,
        Self::AwaitingAnswers,
        Self::Stale,
        Self::PayloadTooLarge,
        Self::RateLimited,
        Self::Internal,
        Self::Unavailable,
    ];

    /// The status it is answered with.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::ValidationError => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyRunning | Self::AlreadyCompleted | Self::AwaitingAnswers | Self::Stale => {
                StatusCode::CONFLICT
            }
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The one mapping of core's errors.
    fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::ValidationError | ErrorCode::StateInvalid => Self::ValidationError,
            ErrorCode::AgentNotFound | ErrorCode::SessionNotFound => Self::NotFound,
            ErrorCode::StateStale => Self::Stale,
            ErrorCode::SessionRunning => Self::AlreadyRunning,
            ErrorCode::SessionAwaitingAnswers => Self::AwaitingAnswers,
            ErrorCode::SessionCompleted => Self::AlreadyCompleted,
            ErrorCode::StoreFull | ErrorCode::StoreUnavailable => Self::Unavailable,
            _ => Self::Internal,
        }
    }
}

/// What is answered instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema, thiserror::Error)]
#[error("{detail}")]
#[non_exhaustive]
pub struct ApiError {
    /// A sentence for anyone.
    pub error: String,
    /// What a developer needs to know.
    pub detail: String,
    /// The machine-readable name.
    pub code: ApiCode,
    /// After how many seconds the same request may fare better.
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

    /// There is more to do than the server can.
    pub(crate) fn overloaded(detail: impl Into<String>) -> Self {
        let error = ErrorCode::StoreUnavailable.user_message();
        Self::new(ApiCode::Unavailable, error, detail).retry_after(1)
    }

    /// The caller asks for too much at once.
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

    /// What was sent cannot be used.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        let error = ErrorCode::ValidationError.user_message();
        Self::new(ApiCode::ValidationError, error, detail)
    }

    /// There is no such thing.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(ApiCode::NotFound, "There is no such thing here.", detail)
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

    /// A session of that id exists.
    pub(crate) fn taken(detail: impl Into<String>) -> Self {
        let error = "There is a conversation of that name already.";
        Self::new(ApiCode::Stale, error, detail)
    }

    /// What the caller knows is not true any more.
    pub(crate) fn stale(detail: impl Into<String>) -> Self {
        let error = ErrorCode::StateStale.user_message();
        Self::new(ApiCode::Stale, error, detail)
    }

    pub(crate) fn completed(detail: impl Into<String>) -> Self {
        let error = ErrorCode::SessionCompleted.user_message();
        Self::new(ApiCode::AlreadyCompleted, error, detail)
    }

    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        let error = ErrorCode::FrameworkInternal.user_message();
        Self::new(ApiCode::Internal, error, detail)
    }

    /// Tells whoever looks after the server that somebody was not let in.
    pub(crate) fn log_refusal(&self) {
        if matches!(self.code, ApiCode::Unauthenticated | ApiCode::Forbidden) {
            tracing::warn!(event = "auth.refused", detail = self.detail);
        }
    }

    /// The answer for an error of core. What is our own fault is logged with its causes, which the
    /// caller does not see.
    pub(crate) fn of(error: &dyn Coded) -> Self {
        let code = ApiCode::of(error.code());
        if code.status().is_server_error() {
            let detail = error.to_record().detail;
            tracing::error!(event = "http.failed", code = %error.code(), detail);
        }
        Self::new(code, error.user_message(), error.to_string())
    }
}

/// At most as long as an error text may be, cut between characters.
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
    EntryError,
    IdError,
    ResolveError,
    RuntimeError,
    StoreError,
    StreamError
);
