//! The common interface of errors: a code, whether a retry may help, a sentence that is safe to show to a
//! user, and the detail that a developer needs.

mod surface;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use surface::Error;

macro_rules! codes {
    ($($variant:ident = $text:literal, $category:ident, $retryable:literal, $user:literal;)*) => {
        /// A stable, machine-readable error code.
        ///
        /// ```
        /// use helix_agents::ErrorCode;
        ///
        /// let code = ErrorCode::StoreUnavailable;
        /// assert_eq!(code.as_str(), "store_unavailable");
        /// assert!(code.is_retryable());
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(
                #[doc = $user]
                #[serde(rename = $text)]
                $variant,
            )*
        }

        impl ErrorCode {
            /// Every code, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the code as it is written on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Returns the part of the system to which the code belongs.
            #[must_use]
            pub const fn category(self) -> Category {
                match self { $(Self::$variant => Category::$category,)* }
            }

            /// Whether the same operation may succeed later, unchanged.
            #[must_use]
            pub const fn is_retryable(self) -> bool {
                match self { $(Self::$variant => $retryable,)* }
            }

            /// Returns a sentence that is safe to show to any user.
            #[must_use]
            pub const fn user_message(self) -> &'static str {
                match self { $(Self::$variant => $user,)* }
            }
        }
    };
}

codes! {
    ValidationError = "validation_error", Validation, false, "The request is not valid.";
    DefinitionInvalid = "definition_invalid", Validation, false, "The agent is not set up correctly.";
    AgentNotFound = "agent_not_found", Validation, false, "The agent was not found.";
    StateInvalid = "state_invalid", State, false, "The agent's data could not be changed that way.";
    StateStale = "state_stale", State, false, "The conversation has changed in the meantime.";
    StateCorrupt = "state_corrupt", State, false, "The stored conversation could not be read.";
    StateUnsupportedVersion = "state_unsupported_version", State, false, "The conversation was stored by a newer version.";
    SessionNotFound = "session_not_found", State, false, "The conversation was not found.";
    SessionRunning = "session_running", State, false, "The conversation is still being worked on.";
    SessionAwaitingAnswers = "session_awaiting_answers", State, false, "The conversation waits for an answer.";
    SessionCompleted = "session_completed", State, false, "The conversation's last turn is completed.";
    BudgetExhausted = "budget_exhausted", State, false, "The budget of the conversation is used up.";
    StoreFull = "store_full", Store, false, "There is no room to store the conversation at the moment.";
    StoreUnavailable = "store_unavailable", Store, true, "The conversation cannot be reached at the moment. Please try again.";
    ProviderRateLimited = "provider_rate_limited", Provider, true, "The model is receiving too many requests. Please try again shortly.";
    ProviderOverloaded = "provider_overloaded", Provider, true, "The model is overloaded. Please try again shortly.";
    ProviderContextLength = "provider_context_length", Provider, false, "The conversation has become too long for the model.";
    ProviderContentFilter = "provider_content_filter", Provider, false, "The model's provider blocked the answer.";
    ProviderRefusal = "provider_refusal", Provider, false, "The model declined to answer.";
    ProviderAuth = "provider_auth", Provider, false, "The model's provider did not accept our credentials.";
    ProviderInvalid = "provider_invalid", Provider, false, "The model's provider did not accept the request.";
    ProviderTransport = "provider_transport", Provider, true, "The connection to the model was lost. Please try again.";
    ProviderError = "provider_error", Provider, false, "The model failed to answer.";
    MaxSteps = "max_steps", Framework, false, "The agent reached its step limit.";
    MaxTokens = "max_tokens", Framework, false, "The answer was cut off because it became too long.";
    OutputInvalid = "output_invalid", Framework, false, "The agent did not produce a valid answer.";
    ToolFatal = "tool_fatal", Framework, false, "A tool failed in a way the agent cannot recover from.";
    FrameworkCancelled = "framework_cancelled", Framework, false, "The run was cancelled.";
    CrashLoop = "crash_loop", Framework, false, "The run crashed repeatedly and was given up.";
    FrameworkInternal = "framework_internal_error", Framework, false, "Something went wrong on our side.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The part of the system to which an error belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Category {
    /// The caller's input is not valid.
    Validation,
    /// A stored session is not in the state the operation needs.
    State,
    /// The store cannot be reached, or is full.
    Store,
    /// The model or its provider failed.
    Provider,
    /// A rule of the framework ended the work.
    Framework,
}

/// An error that can be classified. `Display` is the developer's detail.
pub trait Coded: std::error::Error {
    /// Returns the machine-readable error code.
    fn code(&self) -> ErrorCode;

    /// Whether a retry, unchanged, may succeed.
    fn is_retryable(&self) -> bool {
        self.code().is_retryable()
    }

    /// Returns the sentence to show to a user. It contains no detail.
    fn user_message(&self) -> String {
        self.code().user_message().to_owned()
    }

    /// Returns the error as data, for a run record or a chunk.
    fn to_record(&self) -> ErrorRecord {
        let mut detail = self.to_string();
        let mut source = self.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !detail.contains(&text) {
                detail.push_str(": ");
                detail.push_str(&text);
            }
            source = cause.source();
        }
        ErrorRecord {
            code: self.code(),
            category: self.code().category(),
            retryable: self.is_retryable(),
            message: self.user_message(),
            detail,
        }
    }
}

/// An error as it is recorded in a run and sent to clients.
///
/// ```
/// use helix_agents::{ErrorCode, ErrorRecord};
///
/// let record = ErrorRecord::new(ErrorCode::ProviderOverloaded, "529 from the provider");
/// assert!(record.retryable);
/// assert_eq!(record.message, "The model is overloaded. Please try again shortly.");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{detail}")]
#[non_exhaustive]
pub struct ErrorRecord {
    /// The machine-readable error code.
    pub code: ErrorCode,
    /// The part of the system to which it belongs.
    pub category: Category,
    /// Whether a retry, unchanged, may succeed.
    pub retryable: bool,
    /// A sentence that is safe to show to any user.
    pub message: String,
    /// Details for a developer.
    pub detail: String,
}

impl ErrorRecord {
    /// Creates a record with the code's own classification and user text. A detail longer than
    /// [`MAX_TEXT_BYTES`](crate::bounds::MAX_TEXT_BYTES) is cut off.
    #[must_use]
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            category: code.category(),
            retryable: code.is_retryable(),
            message: code.user_message().to_owned(),
            detail: crate::bounds::shortened(detail.into()),
        }
    }
}

impl Coded for ErrorRecord {
    fn code(&self) -> ErrorCode {
        self.code
    }
    fn is_retryable(&self) -> bool {
        self.retryable
    }
    fn user_message(&self) -> String {
        self.message.clone()
    }
}

impl Coded for crate::state::StateError {
    fn code(&self) -> ErrorCode {
        ErrorCode::StateInvalid
    }
}
