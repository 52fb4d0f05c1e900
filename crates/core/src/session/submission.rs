//! Answers to pending calls, and their outcomes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallBinding, PendingCall, PendingKind};
use crate::bounds::{MAX_DEPTH, fits};
use crate::canonical::Digest;
use crate::error::{Coded, ErrorCode};
use crate::id::{ApprovalId, CallId, RunId};

/// The maximum size of a submitted error text, in bytes.
pub const MAX_ERROR_BYTES: usize = 8 * 1024;
/// The maximum size of a submitted result, in bytes of its JSON.
pub const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// The answer to a pending call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum Submission {
    /// The result or error of a call that a client ran.
    ClientToolResult {
        /// The id of the call.
        tool_call_id: CallId,
        /// The result of the call; `null` is a result, too.
        #[serde(
            default,
            deserialize_with = "crate::stored::present",
            skip_serializing_if = "Option::is_none"
        )]
        result: Option<Value>,
        /// The error of the call, or why it will not be answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// The digest of the call, to have it checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
        /// The run that made the call, to have it checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<RunId>,
    },
    /// A person's decision about a call.
    ApprovalResponse {
        /// The id of the call.
        tool_call_id: CallId,
        /// The id of the approval request.
        approval_id: ApprovalId,
        /// Whether the call may be run.
        approved: bool,
        /// The reason for the decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The digest of the call, to have it checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
        /// The run that made the call, to have it checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<RunId>,
    },
    /// The deadline of the call passed before anybody answered it. Only the framework writes this;
    /// nobody can submit it.
    Expired {
        /// The id of the call.
        tool_call_id: CallId,
    },
}

/// Why an answer is refused. Nothing is stored then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmissionError {
    /// The answer has both or neither of result and error.
    #[error("an answer to call {call} needs either a result or an error; send exactly one")]
    ResultOrError {
        /// The id of the call.
        call: CallId,
    },
    /// The result is too large.
    #[error(
        "the result of call {call} has {bytes} bytes; the limit is {MAX_RESULT_BYTES}, so store it elsewhere and send a reference"
    )]
    ResultTooLarge {
        /// The id of the call.
        call: CallId,
        /// The size of the result, in bytes.
        bytes: usize,
    },
    /// The error text is too long.
    #[error("the error of call {call} has {bytes} bytes; shorten it to at most {MAX_ERROR_BYTES}")]
    ErrorTooLong {
        /// The id of the call.
        call: CallId,
        /// The size of the text, in bytes.
        bytes: usize,
    },
    /// The result is nested too deeply.
    #[error("the result of call {call} is nested deeper than {MAX_DEPTH} levels; flatten it")]
    ResultTooDeep {
        /// The id of the call.
        call: CallId,
    },
    /// The answer is of the wrong kind.
    #[error("call {call} waits for {}; send that kind of answer", wanted(*.waits_for))]
    WrongKind {
        /// The id of the call.
        call: CallId,
        /// The kind of answer that it waits for.
        waits_for: PendingKind,
    },
    /// The answer belongs to a different request.
    #[error(
        "the answer to call {call} names another {what}; read the pending call again and answer that"
    )]
    Mismatch {
        /// The id of the call.
        call: CallId,
        /// The part that differs: approval id, digest or run.
        what: &'static str,
    },
    /// The answer is a timeout, which nobody can submit.
    #[error(
        "call {call} times out at its deadline by itself; send a client-tool-result with an error to give it up"
    )]
    Timeout {
        /// The id of the call.
        call: CallId,
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
    /// Returns the id of the call that is answered.
    #[must_use]
    pub fn tool_call_id(&self) -> &CallId {
        match self {
            Self::ClientToolResult { tool_call_id, .. }
            | Self::ApprovalResponse { tool_call_id, .. }
            | Self::Expired { tool_call_id } => tool_call_id,
        }
    }

    /// Creates a client's result.
    #[must_use]
    pub fn result(call: CallId, result: Value) -> Self {
        Self::ClientToolResult {
            tool_call_id: call,
            result: Some(result),
            error: None,
            digest: None,
            run_id: None,
        }
    }

    /// Creates a client's error, or the notice that the call will not be answered.
    #[must_use]
    pub fn error(call: CallId, error: impl Into<String>) -> Self {
        Self::ClientToolResult {
            tool_call_id: call,
            result: None,
            error: Some(error.into()),
            digest: None,
            run_id: None,
        }
    }

    /// Creates a person's decision.
    #[must_use]
    pub fn decision(
        call: CallId,
        approval_id: ApprovalId,
        approved: bool,
        reason: Option<String>,
    ) -> Self {
        Self::ApprovalResponse {
            tool_call_id: call,
            approval_id,
            approved,
            reason,
            digest: None,
            run_id: None,
        }
    }

    /// Binds the answer to one call of one run, which is checked when it is submitted.
    #[must_use]
    #[doc(hidden)]
    pub fn bound_to(mut self, digest_of_call: Digest, run: RunId) -> Self {
        match &mut self {
            Self::ClientToolResult { digest, run_id, .. }
            | Self::ApprovalResponse { digest, run_id, .. } => {
                *digest = Some(digest_of_call);
                *run_id = Some(run);
            }
            Self::Expired { .. } => {}
        }
        self
    }

    /// Checks that a caller may send the answer: a timeout is written by the framework alone.
    ///
    /// # Errors
    /// [`SubmissionError::Timeout`].
    #[doc(hidden)]
    pub fn check_sender(&self) -> Result<(), SubmissionError> {
        match self {
            Self::Expired { tool_call_id } => Err(SubmissionError::Timeout {
                call: tool_call_id.clone(),
            }),
            Self::ClientToolResult { .. } | Self::ApprovalResponse { .. } => Ok(()),
        }
    }

    /// Checks the limits, and that the answer fits this pending call: its kind, its approval id,
    /// and the digest and run if the answer names them.
    ///
    /// An error without a result answers both kinds: the call is given up.
    ///
    /// # Errors
    /// The [`SubmissionError`] of the first check that fails.
    #[doc(hidden)]
    pub fn check(&self, pending: &PendingCall) -> Result<(), SubmissionError> {
        self.check_against(&CallBinding::of(pending))
    }

    /// The same for a call that is no longer pending.
    ///
    /// # Errors
    /// As for [`Submission::check`].
    pub(crate) fn check_against(&self, asked: &CallBinding) -> Result<(), SubmissionError> {
        let call = self.tool_call_id().clone();
        let waits_for = asked.kind;
        let (digest, run_id) = match self {
            Self::ClientToolResult {
                result,
                error,
                digest,
                run_id,
                ..
            } => {
                match (result, error) {
                    (Some(result), None) => check_result(&call, result)?,
                    (None, Some(error)) => check_text(&call, error)?,
                    _ => return Err(SubmissionError::ResultOrError { call }),
                }
                if waits_for == PendingKind::Approval && result.is_some() {
                    return Err(SubmissionError::WrongKind { call, waits_for });
                }
                (digest, run_id)
            }
            Self::ApprovalResponse {
                approval_id,
                reason,
                digest,
                run_id,
                ..
            } => {
                if let Some(reason) = reason {
                    check_text(&call, reason)?;
                }
                if waits_for == PendingKind::Client {
                    return Err(SubmissionError::WrongKind { call, waits_for });
                }
                if asked.approval_id.as_ref() != Some(approval_id) {
                    let what = "approval id";
                    return Err(SubmissionError::Mismatch { call, what });
                }
                (digest, run_id)
            }
            Self::Expired { .. } => return Err(SubmissionError::Timeout { call }),
        };
        if digest
            .as_ref()
            .is_some_and(|digest| *digest != asked.digest)
        {
            let what = "digest";
            return Err(SubmissionError::Mismatch { call, what });
        }
        if run_id.as_ref().is_some_and(|run| *run != asked.run_id) {
            let what = "run";
            return Err(SubmissionError::Mismatch { call, what });
        }
        Ok(())
    }
}

fn check_result(call: &CallId, result: &Value) -> Result<(), SubmissionError> {
    let call = call.clone();
    if !fits(result, MAX_DEPTH) {
        return Err(SubmissionError::ResultTooDeep { call });
    }
    // The stored form is measured: a text as it is, anything else as JSON.
    let bytes = match result {
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    };
    if bytes > MAX_RESULT_BYTES {
        return Err(SubmissionError::ResultTooLarge { call, bytes });
    }
    Ok(())
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

/// The outcome of a submitted answer.
///
/// ```
/// use helix_agents::{SubmissionOutcome, Submitted};
///
/// fn was_too_late(submitted: &Submitted) -> bool {
///     submitted.outcome == SubmissionOutcome::LateAnswerAfterTimeout
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SubmissionOutcome {
    /// The answer is stored.
    Accepted,
    /// The call was answered before.
    AlreadyCompleted,
    /// The call had timed out; the answer is kept and reported to the model.
    LateAnswerAfterTimeout,
    /// No call with this id is pending.
    UnknownToolCall,
}
