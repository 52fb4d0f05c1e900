//! The typed errors of chat routes, and the errors that arrive in a stream.

use helix_agents_core::ErrorCode;
use serde_json::Value;

/// An error that ends a chat request before there is a stream.
///
/// ```
/// use helix_agents_wire::FrontendError;
///
/// let error = FrontendError::Validation("messages is not a list".into());
/// assert_eq!((error.code(), error.status()), ("VALIDATION_ERROR", 400));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrontendError {
    /// A parameter is missing or not valid.
    #[error("{0}")]
    Validation(String),
    /// There is no such stream.
    #[error("stream {0} not found; send a message first")]
    StreamNotFound(String),
    /// The stream has failed.
    #[error("stream {0} has failed; send another message, or retry the session")]
    StreamFailed(String),
    /// Something that the operation needs is not configured.
    #[error("{0}")]
    Configuration(String),
    /// The agent could not be run.
    #[error("{0}")]
    Execution(String),
    /// The stream could not be created.
    #[error("{0}")]
    StreamCreation(String),
}

impl FrontendError {
    /// The machine-readable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Validation(_) => "VALIDATION_ERROR",
            Self::StreamNotFound(_) => "STREAM_NOT_FOUND",
            Self::StreamFailed(_) => "STREAM_FAILED",
            Self::Configuration(_) => "CONFIGURATION_ERROR",
            Self::Execution(_) => "EXECUTION_ERROR",
            Self::StreamCreation(_) => "STREAM_CREATION_ERROR",
        }
    }

    /// The HTTP status.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::Validation(_) => 400,
            Self::StreamNotFound(_) => 404,
            Self::StreamFailed(_) => 410,
            Self::Configuration(_) => 501,
            Self::Execution(_) | Self::StreamCreation(_) => 500,
        }
    }
}

/// An error of the agent that arrived in a stream: the model failed, or a tool did.
///
/// ```
/// use helix_agents_wire::HelixStreamError;
///
/// let event = serde_json::json!({ "errorText": "Busy.", "code": "provider_overloaded", "recoverable": false });
/// let error = HelixStreamError::from_event(&event);
/// assert_eq!(error.to_string(), "Busy.");
/// assert!(error.is_retryable());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
#[non_exhaustive]
pub struct HelixStreamError {
    /// A sentence that is safe to show to any user.
    pub text: String,
    /// The code, where it is one of ours.
    pub code: Option<ErrorCode>,
    /// Whether the run continues.
    pub recoverable: bool,
}

impl HelixStreamError {
    /// Reads the data of a `data-error` chunk, or an `error` chunk, which has the text alone.
    #[must_use]
    pub fn from_event(event: &Value) -> Self {
        let event = event.get("data").unwrap_or(event);
        let text = |key| event.get(key).and_then(Value::as_str);
        let code = event.get("code").cloned();
        Self {
            text: text("errorText").unwrap_or("The agent failed.").to_owned(),
            code: code.and_then(|code| serde_json::from_value(code).ok()),
            recoverable: event.get("recoverable") == Some(&Value::Bool(true)),
        }
    }

    /// Whether the same turn may succeed when it is retried.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.recoverable || self.code.is_some_and(ErrorCode::is_retryable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proves in part: TRN-06
    #[test]
    fn errors_have_the_codes_and_statuses_of_the_seeds() {
        let text = String::new;
        let all = [
            (FrontendError::Validation(text()), "VALIDATION_ERROR", 400),
            (
                FrontendError::StreamNotFound(text()),
                "STREAM_NOT_FOUND",
                404,
            ),
            (FrontendError::StreamFailed(text()), "STREAM_FAILED", 410),
            (
                FrontendError::Configuration(text()),
                "CONFIGURATION_ERROR",
                501,
            ),
            (FrontendError::Execution(text()), "EXECUTION_ERROR", 500),
            (
                FrontendError::StreamCreation(text()),
                "STREAM_CREATION_ERROR",
                500,
            ),
        ];
        for (error, code, status) in all {
            assert_eq!((error.code(), error.status()), (code, status));
        }
    }

    /// proves in part: TRN-06
    #[test]
    fn an_error_of_a_stream_is_read_from_its_event() {
        let event = serde_json::json!({ "type": "error", "errorText": "It broke." });
        let error = HelixStreamError::from_event(&event);
        assert_eq!((error.text.as_str(), error.code), ("It broke.", None));
        assert!(!error.is_retryable());
        let data = serde_json::json!({ "type": "data-error", "transient": true, "data": {
            "errorText": "Slow down.", "code": "provider_rate_limited", "recoverable": false } });
        let error = HelixStreamError::from_event(&data);
        assert_eq!(error.code, Some(ErrorCode::ProviderRateLimited));
        assert!(error.is_retryable());
        let unknown =
            serde_json::json!({ "errorText": "x", "code": "from_the_future", "recoverable": true });
        assert!(HelixStreamError::from_event(&unknown).is_retryable());
    }
}
