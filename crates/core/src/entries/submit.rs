//! An answer to a pending call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Entries, EntryError, MAX_ATTEMPTS, there};
use crate::id::{CallId, SessionId, UserId};
use crate::session::{Answer, PendingCall, Submission, SubmissionError, SubmissionOutcome};
use crate::store::{
    CallStanding, Change, Commit, Field, Lookup, Precondition, SessionKey, Snapshot,
};
use crate::time::Timestamp;

/// An answer and where it goes: to the session that asked, or to its root.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolAnswer {
    /// The root, or the session that asked.
    pub session_id: SessionId,
    /// The answer.
    pub submission: Submission,
    /// Who gives it, where that is known.
    pub decided_by: Option<UserId>,
}

impl ToolAnswer {
    /// An answer.
    #[must_use]
    pub fn new(session_id: SessionId, submission: Submission) -> Self {
        Self {
            session_id,
            submission,
            decided_by: None,
        }
    }

    /// Says who gives it.
    #[must_use]
    pub fn decided_by(mut self, user: UserId) -> Self {
        self.decided_by = Some(user);
        self
    }
}

impl PendingCall {
    /// Agrees that this very call is run.
    ///
    /// The answer is bound to the question: its run, its approval id and the digest of its
    /// arguments. To a call that waits for a client it does not fit.
    #[must_use]
    pub fn approve(&self) -> ToolAnswer {
        self.decide(true, None)
    }

    /// Refuses that this call is run.
    #[must_use]
    pub fn deny(&self, reason: impl Into<String>) -> ToolAnswer {
        self.decide(false, Some(reason.into()))
    }

    fn decide(&self, approved: bool, reason: Option<String>) -> ToolAnswer {
        let call = self.tool_call_id.clone();
        let submission = match self.approval_id.clone() {
            Some(approval) => Submission::decision(call, approval, approved, reason),
            // No approval is asked for, so no id fits: the run's own is as wrong as any other.
            None => Submission::decision(call, crate::id::ApprovalId::none(), approved, reason),
        };
        self.answer_with(submission)
    }

    /// Gives the result of a call that the client ran.
    #[must_use]
    pub fn result(&self, result: impl Into<Value>) -> ToolAnswer {
        self.answer_with(Submission::result(self.tool_call_id.clone(), result.into()))
    }

    /// Says that the client failed, or that nobody will answer.
    #[must_use]
    pub fn error(&self, error: impl Into<String>) -> ToolAnswer {
        self.answer_with(Submission::error(self.tool_call_id.clone(), error))
    }

    fn answer_with(&self, submission: Submission) -> ToolAnswer {
        let bound = submission.bound_to(self.digest.clone(), self.run_id.clone());
        ToolAnswer::new(self.root_session_id.clone(), bound)
    }
}

/// Who continues after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Continuation {
    /// Nobody needs to: others are still open, it was a repetition, or a run in progress takes it.
    None,
    /// A run was started.
    NewRun,
    /// Whoever answered resumes the session.
    CallerResumes,
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Submitted {
    /// Whether it was taken.
    pub outcome: SubmissionOutcome,
    /// Who continues.
    pub continuation: Continuation,
    /// The session that asked.
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

/// Plans to store an answer. `Err` inside: it is not stored, and why. `answered` is when its call was
/// answered before.
///
/// # Errors
/// [`SubmissionError`] for an answer that does not fit its question.
pub fn plan_submit(
    root: &Snapshot,
    owner: &Snapshot,
    answered: Option<Timestamp>,
    answer: &ToolAnswer,
    at: Timestamp,
) -> Result<Result<Commit, SubmissionOutcome>, SubmissionError> {
    let call = answer.submission.tool_call_id();
    // A call may be asked about twice: for leave to run it, and for what became of it. What counts is
    // whether the present question has its answer.
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
    let open = Precondition::Call(call.clone(), CallStanding::Open);
    // The run must not end, or begin, unseen: who continues depends on it.
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

/// Whether an answer that was given at this instant is stored and nobody has used it yet.
fn is_stored(owner: &Snapshot, answer: &ToolAnswer, at: Timestamp) -> bool {
    let pending = &owner.state.pending_client_tool_calls;
    let pending = pending.get(answer.submission.tool_call_id());
    let stored = pending.and_then(|pending| pending.answer.as_ref());
    stored.is_some_and(|stored| stored.submission == answer.submission && stored.submitted_at == at)
}

/// The pending calls of a session that are answered.
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

/// Who continues, once the answer is stored.
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

/// The root of a session, where answers are given.
async fn root(entries: &Entries, session: &SessionId) -> Result<Snapshot, EntryError> {
    let found = there(entries.store.find(session).await?, session)?;
    if found.state.key().is_root() {
        return Ok(found);
    }
    let root = found.state.root();
    Ok(there(entries.store.load(root.as_root()).await?, root)?)
}

pub(super) async fn submit(
    entries: &Entries,
    answer: &ToolAnswer,
) -> Result<Submitted, EntryError> {
    let call = answer.submission.tool_call_id();
    let mut attempts = 0;
    // An answer whose acknowledgement was lost.
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
