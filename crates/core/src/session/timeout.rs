//! Calls whose deadline has passed, and answers that come after it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Answer, PendingCall, PendingKind, SessionState, Submission};
use crate::canonical::Digest;
use crate::id::{ApprovalId, RunId, SessionId};
use crate::shared_str::SharedStr;
use crate::stored::Stored;
use crate::time::Timestamp;

/// The parts of a pending call against which an answer is checked. They are kept when the call has timed
/// out, so that an answer that comes later is checked in the same way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallBinding {
    /// The kind of answer that the call waited for.
    pub kind: PendingKind,
    /// The name of the tool.
    pub tool_name: SharedStr,
    /// The id of the approval request, for approvals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// The digest of the tool and the arguments.
    pub digest: Digest,
    /// The run that made the call.
    pub run_id: RunId,
    /// The session that made the call.
    pub session_id: SessionId,
}

impl CallBinding {
    /// Returns the binding of a pending call.
    #[must_use]
    pub fn of(pending: &PendingCall) -> Self {
        Self {
            kind: pending.kind,
            tool_name: pending.tool_name.clone(),
            approval_id: pending.approval_id.clone(),
            digest: pending.digest.clone(),
            run_id: pending.run_id.clone(),
            session_id: pending.session_id.clone(),
        }
    }
}

/// How a call was answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerKind {
    /// A client or a person answered it.
    #[default]
    Submitted,
    /// Its deadline passed first. An answer that comes later is checked against the binding.
    TimedOut(Box<CallBinding>),
    /// Its deadline passed first, and the model was told of an answer that came later.
    AnsweredLate,
}

impl Stored for AnswerKind {
    const KIND: &'static str = "answer_kind";
    const VERSION: u32 = 1;
}

impl AnswerKind {
    /// Whether a client or a person answered the call before its deadline.
    #[must_use]
    pub fn is_submitted(&self) -> bool {
        *self == Self::Submitted
    }
}

impl PendingCall {
    /// Whether nobody has answered the call, and its deadline has passed at this instant.
    #[must_use]
    pub fn is_overdue(&self, at: Timestamp) -> bool {
        let is_past = self.deadline.is_some_and(|deadline| deadline <= at);
        self.answer.is_none() && is_past
    }

    /// Whether the call waits for an answer at this instant: nobody has answered it, and its deadline has
    /// not passed.
    #[must_use]
    pub fn waits_at(&self, at: Timestamp) -> bool {
        self.answer.is_none() && !self.is_overdue(at)
    }

    /// Asks for a warning to readers when a tenth of the time is left: at least a second, at most a minute.
    /// A call that has no more time than that is not warned about.
    pub(crate) fn warned(mut self) -> Self {
        self.warn_at = self.deadline.and_then(|deadline| {
            let left = deadline.since(self.created_at) / 10;
            let left = left.clamp(Duration::from_secs(1), Duration::from_secs(60));
            let at = deadline.saturating_sub(left);
            (at > self.created_at).then_some(at)
        });
        self
    }

    /// Returns the answer of the call at this instant: the submitted one, or a timeout if its deadline has
    /// passed.
    pub(crate) fn answer_at(&self, at: Timestamp) -> Option<Answer> {
        let tool_call_id = self.tool_call_id.clone();
        let timeout = || Answer::new(Submission::Expired { tool_call_id }, at);
        let is_overdue = self.is_overdue(at);
        self.answer.clone().or_else(|| is_overdue.then(timeout))
    }
}

impl SessionState {
    /// Returns the calls that nobody has answered and whose deadline has passed at this instant.
    pub(crate) fn overdue_calls(&self, at: Timestamp) -> impl Iterator<Item = &PendingCall> {
        let pending = self.pending_client_tool_calls.values();
        pending.filter(move |call| call.is_overdue(at))
    }

    /// Whether a call is pending that waits for its answer also at this instant.
    pub(crate) fn awaits_answers(&self, at: Timestamp) -> bool {
        let mut pending = self.pending_client_tool_calls.values();
        pending.any(|call| call.waits_at(at))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::CallId;

    #[test]
    fn a_warning_comes_when_a_tenth_of_the_time_is_left() {
        let (created, session) = (Timestamp::from_millis(5_000), SessionId::new("s").unwrap());
        let warned = |wait_ms| {
            let (run, call) = (RunId::new("r").unwrap(), CallId::new("c").unwrap());
            let mut pending =
                PendingCall::client(session.clone(), run, call, "t", json!({}), created);
            pending.deadline = Some(created.saturating_add(Duration::from_millis(wait_ms)));
            let at = pending.warned().warn_at;
            at.map(|at| at.since(created).as_millis())
        };
        assert_eq!(warned(1_000), None);
        assert_eq!(warned(1_001), Some(1));
        assert_eq!(warned(5_000), Some(4_000));
        assert_eq!(warned(100_000), Some(90_000));
        assert_eq!(warned(3_600_000), Some(3_540_000));
    }
}
