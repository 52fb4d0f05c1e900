//! Answers from outside, and what becomes of them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{PendingCall, PendingKind};
use crate::bounds::{MAX_DEPTH, fits};
use crate::canonical::Digest;
use crate::error::{Coded, ErrorCode};
use crate::id::{ApprovalId, CallId, RunId};

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
        /// What it gave; `null` is a result, too.
        #[serde(
            default,
            deserialize_with = "crate::stored::present",
            skip_serializing_if = "Option::is_none"
        )]
        result: Option<Value>,
        /// Why it failed, or why nobody will answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// What was asked, when the sender wants that checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
        /// Which run asked, when the sender wants that checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<RunId>,
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
        /// What was asked, when the sender wants that checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
        /// Which run asked, when the sender wants that checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<RunId>,
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
    /// A result that is nested too deep.
    #[error("the result of call {call} is nested deeper than {MAX_DEPTH} levels; flatten it")]
    ResultTooDeep {
        /// The call.
        call: CallId,
    },
    /// An answer of the wrong kind.
    #[error("call {call} waits for {}; send that kind of answer", wanted(*.waits_for))]
    WrongKind {
        /// The call.
        call: CallId,
        /// What it waits for.
        waits_for: PendingKind,
    },
    /// An answer to another question.
    #[error(
        "the answer to call {call} names another {what}; read the pending call again and answer that"
    )]
    Mismatch {
        /// The call.
        call: CallId,
        /// What does not agree: approval id, digest or run.
        what: &'static str,
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

    /// A client's result.
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

    /// A client's failure, or the word that nobody will answer.
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

    /// A person's decision.
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

    /// The same answer, good for one question only.
    #[must_use]
    pub fn bound_to(mut self, digest_of_call: Digest, run: RunId) -> Self {
        match &mut self {
            Self::ClientToolResult { digest, run_id, .. }
            | Self::ApprovalResponse { digest, run_id, .. } => {
                *digest = Some(digest_of_call);
                *run_id = Some(run);
            }
        }
        self
    }

    /// Checks the limits, and that the answer is one to this very question: its kind, its approval
    /// id, and the digest and run where the sender names them.
    ///
    /// An error without a result answers both kinds: it says that the call is given up.
    ///
    /// # Errors
    /// [`SubmissionError`].
    pub fn check(&self, pending: &PendingCall) -> Result<(), SubmissionError> {
        let call = self.tool_call_id().clone();
        let waits_for = pending.kind;
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
                if pending.approval_id.as_ref() != Some(approval_id) {
                    let what = "approval id";
                    return Err(SubmissionError::Mismatch { call, what });
                }
                (digest, run_id)
            }
        };
        if digest
            .as_ref()
            .is_some_and(|digest| *digest != pending.digest)
        {
            let what = "digest";
            return Err(SubmissionError::Mismatch { call, what });
        }
        if run_id.as_ref().is_some_and(|run| *run != pending.run_id) {
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
    // What is stored is counted: a text as it is, anything else as JSON.
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
