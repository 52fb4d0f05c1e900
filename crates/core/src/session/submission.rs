//! Answers from outside, and what becomes of them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PendingKind;
use crate::error::{Coded, ErrorCode};
use crate::id::{ApprovalId, CallId};

/// The longest error text that is taken, in bytes.
pub const MAX_ERROR_BYTES: usize = 8 * 1024;
/// The largest result that is taken, in bytes of its JSON.
pub const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// An answer to a pending call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum Submission {
    /// A client ran the tool.
    ClientToolResult {
        /// The call.
        tool_call_id: CallId,
        /// What it gave.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        /// Why it failed, or why nobody will answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A person decided.
    ApprovalResponse {
        /// The call.
        tool_call_id: CallId,
        /// Which question is answered.
        approval_id: ApprovalId,
        /// The decision.
        approved: bool,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// Why an answer is not taken. Nothing is stored then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmissionError {
    /// Both or neither of result and error.
    #[error("an answer to call {call} needs either a result or an error; send exactly one")]
    ResultOrError {
        /// The call.
        call: CallId,
    },
    /// A result that is too large.
    #[error(
        "the result of call {call} has {bytes} bytes; at most {MAX_RESULT_BYTES} are taken, so store it elsewhere and send a reference"
    )]
    ResultTooLarge {
        /// The call.
        call: CallId,
        /// Its size.
        bytes: usize,
    },
    /// An error text that is too long.
    #[error("the error of call {call} has {bytes} bytes; shorten it to at most {MAX_ERROR_BYTES}")]
    ErrorTooLong {
        /// The call.
        call: CallId,
        /// Its size.
        bytes: usize,
    },
    /// An answer of the wrong kind.
    #[error("call {call} waits for {}; send that kind of answer", wanted(*.waits_for))]
    WrongKind {
        /// The call.
        call: CallId,
        /// What it waits for.
        waits_for: PendingKind,
    },
}

fn wanted(kind: PendingKind) -> &'static str {
    match kind {
        PendingKind::Client => "a client-tool-result",
        PendingKind::Approval => "an approval-response",
    }
}

impl Coded for SubmissionError {
    fn code(&self) -> ErrorCode {
        ErrorCode::ValidationError
    }
}

impl Submission {
    /// The call that is answered.
    #[must_use]
    pub fn tool_call_id(&self) -> &CallId {
        match self {
            Self::ClientToolResult { tool_call_id, .. }
            | Self::ApprovalResponse { tool_call_id, .. } => tool_call_id,
        }
    }

    /// Checks the limits, and that the answer is of the kind that the call waits for.
    ///
    /// An error without a result answers both kinds: it says that the call is given up.
    ///
    /// # Errors
    /// [`SubmissionError`].
    pub fn check(&self, waits_for: PendingKind) -> Result<(), SubmissionError> {
        let call = self.tool_call_id().clone();
        match self {
            Self::ClientToolResult { result, error, .. } => {
                match (result, error) {
                    (Some(result), None) => {
                        let bytes = result.to_string().len();
                        if bytes > MAX_RESULT_BYTES {
                            return Err(SubmissionError::ResultTooLarge { call, bytes });
                        }
                    }
                    (None, Some(error)) => check_text(&call, error)?,
                    _ => return Err(SubmissionError::ResultOrError { call }),
                }
                if waits_for == PendingKind::Approval && result.is_some() {
                    return Err(SubmissionError::WrongKind { call, waits_for });
                }
            }
            Self::ApprovalResponse { reason, .. } => {
                if let Some(reason) = reason {
                    check_text(&call, reason)?;
                }
                if waits_for == PendingKind::Client {
                    return Err(SubmissionError::WrongKind { call, waits_for });
                }
            }
        }
        Ok(())
    }
}

fn check_text(call: &CallId, text: &str) -> Result<(), SubmissionError> {
    if text.len() > MAX_ERROR_BYTES {
        return Err(SubmissionError::ErrorTooLong {
            call: call.clone(),
            bytes: text.len(),
        });
    }
    Ok(())
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SubmissionOutcome {
    /// It is stored.
    Accepted,
    /// The call was answered before.
    AlreadyCompleted,
    /// The call had timed out; the answer is kept and told to the model.
    LateAnswerAfterTimeout,
    /// No such call waits.
    UnknownToolCall,
}
