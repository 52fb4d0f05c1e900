//! Calls that wait for a client or a person.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::canonical::Digest;
use crate::id::{ApprovalId, CallId, RunId, SessionId, UserId};
use crate::json::Json;
use crate::shared_str::SharedStr;
use crate::stored::Stored;
use crate::time::Timestamp;

/// The kind of answer that a call waits for.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::{PendingCall, PendingKind};
///
/// fn for_people(calls: &[PendingCall]) -> impl Iterator<Item = &PendingCall> {
///     calls.iter().filter(|call| call.kind == PendingKind::Approval)
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PendingKind {
    /// A client runs the call and submits the result.
    Client,
    /// A person decides whether the call is run.
    Approval,
}

/// A pending call. It is bound to its arguments: the digest identifies exactly what was requested.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::PendingCall;
///
/// fn question(call: &PendingCall) -> String {
///     format!("May {} run with {}?", call.tool_name, call.input)
/// }
///
/// async fn deny(runtime: &dyn Runtime, call: &PendingCall) -> Result<(), Error> {
///     runtime.submit(call.deny("too expensive").by("bob")).await?;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PendingCall {
    /// The id of the call.
    pub tool_call_id: CallId,
    /// The name of the tool.
    pub tool_name: SharedStr,
    /// The kind of answer that it waits for.
    pub kind: PendingKind,
    /// The arguments of the call.
    pub input: Json,
    /// The single-use id of the approval request, for approvals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// The digest of the tool and the arguments.
    pub digest: Digest,
    /// The run that made the call.
    pub run_id: RunId,
    /// The deadline for an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// When readers are warned that the deadline is near, until they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn_at: Option<Timestamp>,
    /// The session that made the call.
    pub session_id: SessionId,
    /// The session to which the answer is submitted.
    pub root_session_id: SessionId,
    /// The instant since which the call has been pending.
    pub created_at: Timestamp,
    /// The answer, once it was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

impl Stored for PendingCall {
    const KIND: &'static str = "pending";
    const VERSION: u32 = 1;
}

impl PendingCall {
    /// Creates a call of a root session that waits for a client, without a deadline.
    #[must_use]
    #[doc(hidden)]
    pub fn client(
        session_id: SessionId,
        run_id: RunId,
        tool_call_id: CallId,
        tool_name: impl Into<SharedStr>,
        input: impl Into<Json>,
        created_at: Timestamp,
    ) -> Self {
        let (tool_name, input) = (tool_name.into(), input.into());
        Self {
            digest: Digest::of_call(&tool_name, &input),
            tool_call_id,
            tool_name,
            kind: PendingKind::Client,
            input,
            approval_id: None,
            run_id,
            deadline: None,
            warn_at: None,
            root_session_id: session_id.clone(),
            session_id,
            created_at,
            answer: None,
        }
    }

    /// Makes the call wait for a person's decision instead.
    #[must_use]
    #[doc(hidden)]
    pub fn needing_approval(mut self, approval_id: ApprovalId) -> Self {
        self.kind = PendingKind::Approval;
        self.approval_id = Some(approval_id);
        self
    }
}

/// A call that waits for an answer, as an error names it: `refund (call-1)`.
///
/// ```
/// use helix_agents::{PendingCall, WaitingCall};
///
/// fn in_a_sentence(call: &PendingCall) -> String {
///     format!("{} waits for an answer", WaitingCall::from(call))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingCall {
    /// The name of the tool.
    pub tool_name: SharedStr,
    /// The id of the call.
    pub tool_call_id: CallId,
}

impl WaitingCall {
    /// The calls as a list in a sentence.
    pub(crate) fn list(calls: &[Self]) -> String {
        let texts: Vec<_> = calls.iter().map(ToString::to_string).collect();
        texts.join(", ")
    }
}

impl From<&PendingCall> for WaitingCall {
    fn from(call: &PendingCall) -> Self {
        Self {
            tool_name: call.tool_name.clone(),
            tool_call_id: call.tool_call_id.clone(),
        }
    }
}

impl fmt::Display for WaitingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.tool_name, self.tool_call_id)
    }
}

/// The answer to a pending call, and who submitted it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Answer {
    /// The submitted result or decision.
    pub submission: super::Submission,
    /// When the answer was submitted.
    pub submitted_at: Timestamp,
    /// The user who submitted it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<UserId>,
}

impl Answer {
    /// Creates an answer of an unknown user.
    #[must_use]
    #[doc(hidden)]
    pub fn new(submission: super::Submission, submitted_at: Timestamp) -> Self {
        Self {
            submission,
            submitted_at,
            decided_by: None,
        }
    }
}
