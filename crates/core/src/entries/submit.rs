//! The entry that answers a pending call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Entries, EntryError, MAX_ATTEMPTS, or_not_found};
use crate::id::{CallId, IdError, SessionId, UserId};
use crate::session::{Answer, PendingCall, Submission, SubmissionError, SubmissionOutcome};
use crate::store::{
    Change, Commit, Field, Lookup, PendingStatus, Precondition, SessionKey, Snapshot,
};
use crate::time::Timestamp;

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
    mistake: Option<IdError>,
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
    fn without_effect(outcome: SubmissionOutcome, owner: &SessionId) -> Self {
        Self {
            outcome,
            continuation: Continuation::None,
            owner: owner.clone(),
        }
    }
}

/// Plans to store an answer. An inner `Err` is the reason why it is not stored. `answered` is when
/// its call was answered before.
///
/// # Errors
/// [`SubmissionError`] for an answer that does not fit the pending call.
pub(crate) fn plan_submit(
    root: &Snapshot,
    owner: &Snapshot,
    answered: Option<Timestamp>,
    answer: &ToolAnswer,
    at: Timestamp,
) -> Result<Result<Commit, SubmissionOutcome>, SubmissionError> {
    let call = answer.submission.tool_call_id();
    // A call may be pending twice: for its approval, and for its unknown outcome. Only the
    // current pending entry counts.
    let pending = owner.state.pending_client_tool_calls.get(call);
    let Some(pending) = pending.filter(|pending| pending.answer.is_none()) else {
        return Ok(Err(match answered {
            Some(_) => SubmissionOutcome::AlreadyCompleted,
            None => SubmissionOutcome::UnknownToolCall,
        }));
    };
    answer.submission.check(pending)?;
    let Some(run) = &owner.run else {
        return Ok(Err(SubmissionOutcome::UnknownToolCall));
    };
    let mut kept = Answer::new(answer.submission.clone(), at);
    kept.decided_by.clone_from(&answer.decided_by);
    let session = &owner.state.session_id;
    let open = Precondition::Call(call.clone(), PendingStatus::Open);
    // The run must not end or start unnoticed: who continues depends on it.
    let as_read = Precondition::Run(run.id.clone(), vec![run.status]);
    Ok(Ok(Commit::new(root.state.session_id.clone(), at)
        .when_in(session.clone(), open)
        .when_in(session.clone(), as_read)
        .then_in(
            session.clone(),
            Change::Answer(call.clone(), Box::new(kept)),
        )
        .set(Field::CompletedCall(call.clone(), at))))
}

/// Whether this answer, submitted at this instant, is stored and no run has used it yet.
fn is_stored(owner: &Snapshot, answer: &ToolAnswer, at: Timestamp) -> bool {
    let pending = &owner.state.pending_client_tool_calls;
    let pending = pending.get(answer.submission.tool_call_id());
    let stored = pending.and_then(|pending| pending.answer.as_ref());
    stored.is_some_and(|stored| stored.submission == answer.submission && stored.submitted_at == at)
}

/// Returns the pending calls of a session that are answered.
fn answered(owner: &Snapshot) -> Vec<CallId> {
    let pending = owner.state.pending_client_tool_calls.values();
    let answered = pending.filter(|call| call.answer.is_some());
    answered.map(|call| call.tool_call_id.clone()).collect()
}

fn accepted(owner: &Snapshot, answered: &[CallId]) -> Submitted {
    Submitted {
        outcome: SubmissionOutcome::Accepted,
        continuation: continuation(owner, answered),
        owner: owner.state.session_id.clone(),
    }
}

/// Returns who continues, once the answer is stored.
fn continuation(owner: &Snapshot, answered: &[CallId]) -> Continuation {
    let suspended = owner
        .run
        .as_ref()
        .is_some_and(|run| run.status.is_suspended());
    let pending = &owner.state.pending_client_tool_calls;
    if suspended && pending.keys().all(|call| answered.contains(call)) {
        Continuation::CallerResumes
    } else {
        Continuation::None
    }
}

/// Loads the root of a session, to which answers are submitted.
async fn root(entries: &Entries, session: &SessionId) -> Result<Snapshot, EntryError> {
    let found = or_not_found(entries.store.find(session).await?, session)?;
    if found.state.key().is_root() {
        return Ok(found);
    }
    let root = found.state.root();
    Ok(or_not_found(
        entries.store.load(root.as_root()).await?,
        root,
    )?)
}

pub(super) async fn submit(
    entries: &Entries,
    answer: &ToolAnswer,
) -> Result<Submitted, EntryError> {
    if let Some(mistake) = &answer.mistake {
        return Err(mistake.clone().into());
    }
    let call = answer.submission.tool_call_id();
    let mut attempts = 0;
    // When an answer was submitted whose acknowledgement was lost.
    let mut unsure: Option<Timestamp> = None;
    loop {
        let root = root(entries, &answer.session_id).await?;
        let root_id = &root.state.session_id;
        let owner_id = root.state.client_tool_call_ownership.get(call);
        let owner_id = owner_id.unwrap_or(root_id);
        let child = if owner_id == root_id {
            None
        } else {
            entries
                .store
                .load(SessionKey::new(root_id, owner_id))
                .await?
        };
        let owner = child.as_ref().unwrap_or(&root);
        if let Some(at) = unsure
            && is_stored(owner, answer, at)
        {
            return Ok(accepted(owner, &answered(owner)));
        }
        let now = entries.clock.now();
        let before = entries
            .store
            .answered(root_id.as_root(), Lookup::One(call.clone()));
        let before = before.await?.items.first().map(|before| before.at);
        let planned = plan_submit(&root, owner, before, answer, now);
        let commit = match planned {
            Ok(Ok(commit)) => commit,
            Ok(Err(outcome)) => return Ok(Submitted::without_effect(outcome, owner_id)),
            Err(error) => {
                tracing::warn!(event = "client_tool.validation_failed", %call, %error);
                return Err(error.into());
            }
        };
        attempts += 1;
        let commit = commit.fitting(entries.streams.limits());
        match entries.store.commit(commit).await {
            Ok(receipt) => {
                tracing::info!(event = "client_tool.submitted", session = %owner_id, %call);
                let mut sessions = receipt.sessions;
                let committed = sessions.remove(&owner.state.session_id);
                let answered = committed.map(|committed| committed.answered);
                return Ok(accepted(owner, &answered.unwrap_or_default()));
            }
            Err(error) if error.is_conflict() && attempts < MAX_ATTEMPTS => {
                tracing::debug!(event = "client_tool.ownership_retry", %call, %error);
            }
            Err(error) if error.may_pass() && unsure.is_none() => {
                tracing::warn!(event = "client_tool.unacknowledged", %call, %error);
                unsure = Some(now);
            }
            Err(error) => return Err(error.into()),
        }
    }
}
