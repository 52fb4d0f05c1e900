//! An answer to a pending call, and its outcome.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::expire::continuation;
use crate::id::{CallId, IdError, SessionId, UserId};
use crate::session::{PendingCall, Submission, SubmissionOutcome};
use crate::store::Snapshot;

/// An answer and the session to which it is submitted.
///
/// ```
/// use helix_agents::prelude::*;
///
/// async fn approve(runtime: &dyn Runtime, call: &helix_agents::PendingCall) -> Result<(), Error> {
///     runtime.submit(call.approve().by("bob")).await?;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolAnswer {
    /// The root, or the session that made the call.
    pub session_id: SessionId,
    /// The result or decision.
    pub submission: Submission,
    /// The user who submits it, if known.
    pub decided_by: Option<UserId>,
    pub(super) mistake: Option<IdError>,
}

impl ToolAnswer {
    /// Creates an answer of an unknown user.
    #[must_use]
    pub fn new(session_id: SessionId, submission: Submission) -> Self {
        Self {
            session_id,
            submission,
            decided_by: None,
            mistake: None,
        }
    }

    /// Sets the user who submits it. A text that is not a user id is reported when it is submitted.
    #[must_use]
    pub fn by(mut self, user: impl AsRef<str>) -> Self {
        match UserId::new(user) {
            Ok(user) => self.decided_by = Some(user),
            Err(error) => self.mistake = Some(error),
        }
        self
    }
}

impl PendingCall {
    /// Approves exactly this call.
    ///
    /// The answer is bound to the pending call: its run, its approval id and the digest of its
    /// arguments. It is refused for a call that waits for a client.
    #[must_use]
    pub fn approve(&self) -> ToolAnswer {
        self.decide(true, None)
    }

    /// Denies this call with a reason.
    #[must_use]
    pub fn deny(&self, reason: impl Into<String>) -> ToolAnswer {
        self.decide(false, Some(reason.into()))
    }

    fn decide(&self, approved: bool, reason: Option<String>) -> ToolAnswer {
        let call = self.tool_call_id.clone();
        let submission = match self.approval_id.clone() {
            Some(approval) => Submission::decision(call, approval, approved, reason),
            // The call needs no approval, so no id is correct and the answer is refused.
            None => Submission::decision(call, crate::id::ApprovalId::none(), approved, reason),
        };
        self.answer_with(submission)
    }

    /// Submits the result of a call that the client ran.
    #[must_use]
    pub fn result(&self, result: impl Into<Value>) -> ToolAnswer {
        self.answer_with(Submission::result(self.tool_call_id.clone(), result.into()))
    }

    /// Reports that the client failed, or that the call will not be answered.
    #[must_use]
    pub fn error(&self, error: impl Into<String>) -> ToolAnswer {
        self.answer_with(Submission::error(self.tool_call_id.clone(), error))
    }

    fn answer_with(&self, submission: Submission) -> ToolAnswer {
        let bound = submission.bound_to(self.digest.clone(), self.run_id.clone());
        ToolAnswer::new(self.root_session_id.clone(), bound)
    }
}

/// Who continues the run after an answer.
///
/// ```
/// use helix_agents::{Continuation, Submitted};
///
/// fn must_resume(submitted: &Submitted) -> bool {
///     submitted.continuation == Continuation::CallerResumes
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Continuation {
    /// No one needs to: other calls are still pending, it was a repetition, or a running run takes it.
    None,
    /// A new run was started.
    NewRun,
    /// The caller resumes the session.
    CallerResumes,
}

/// The outcome of a submitted answer.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::{Continuation, SubmissionOutcome, ToolAnswer};
///
/// async fn submit(runtime: &dyn Runtime, agent: &Agent, answer: ToolAnswer) -> Result<(), Error> {
///     let submitted = runtime.submit(answer).await?;
///     assert_eq!(submitted.outcome, SubmissionOutcome::Accepted);
///     if submitted.continuation == Continuation::CallerResumes {
///         runtime.resume(agent, &submitted.owner).await?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Submitted {
    /// Whether the answer was stored.
    pub outcome: SubmissionOutcome,
    /// Who continues the run.
    pub continuation: Continuation,
    /// The session that made the call.
    pub owner: SessionId,
}

impl Submitted {
    pub(super) fn with_effect(
        outcome: SubmissionOutcome,
        owner: &Snapshot,
        answered: &[CallId],
    ) -> Self {
        Self {
            outcome,
            continuation: continuation(owner, answered),
            owner: owner.state.session_id.clone(),
        }
    }

    pub(super) fn without_effect(outcome: SubmissionOutcome, owner: &SessionId) -> Self {
        Self {
            outcome,
            continuation: Continuation::None,
            owner: owner.clone(),
        }
    }
}
