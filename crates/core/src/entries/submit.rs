//! The entry that answers a pending call.

use super::expire::{time_out, timed_out_at};
use super::{Entries, EntryError, MAX_ATTEMPTS, Submitted, ToolAnswer, or_not_found};
use crate::id::{CallId, SessionId};
use crate::session::{Answer, AnswerKind, CallBinding, SubmissionError, SubmissionOutcome};
use crate::step::late_answer_message;
use crate::store::{
    AnsweredCall, Change, Commit, Field, Lookup, PendingStatus, Precondition, SessionKey, Snapshot,
};
use crate::time::Timestamp;

/// The session that an answer is about, as it was read.
pub(crate) struct AskedSession {
    /// The root, to which answers are submitted.
    pub(crate) root: Snapshot,
    /// The session that made the call; `None` if it is the root.
    pub(crate) child: Option<Snapshot>,
    /// The record of an earlier answer to the call.
    pub(crate) before: Option<AnsweredCall>,
}

impl AskedSession {
    /// Reads the root of a session, and the owner of a call in it.
    async fn read(
        entries: &Entries,
        session: &SessionId,
        call: &CallId,
    ) -> Result<Self, EntryError> {
        let root = root(entries, session).await?;
        let root_id = root.state.session_id.clone();
        let answered = || async {
            let which = Lookup::One(call.clone());
            let before = entries.store.answered(root_id.as_root(), which).await?;
            Ok::<_, EntryError>(before.items.into_iter().next())
        };
        let mut before = answered().await?;
        let owner = root.state.client_tool_call_ownership.get(call);
        // The ownership ends when a run takes the answer.
        let owner = owner.or(match before.as_ref().map(|before| &before.kind) {
            Some(AnswerKind::TimedOut(asked)) => Some(&asked.session_id),
            _ => None,
        });
        let mut child = None;
        if let Some(owner) = owner.filter(|owner| **owner != root_id) {
            let key = SessionKey::new(&root_id, owner);
            child = entries.store.load(key).await?;
            // Another answer that the child has, and that was not there before, must not make this one unknown.
            before = answered().await?;
        }
        Ok(Self {
            root,
            child,
            before,
        })
    }

    fn owner(&self) -> &Snapshot {
        self.child.as_ref().unwrap_or(&self.root)
    }
}

/// A planned answer.
#[derive(Debug)]
pub(crate) enum Planned {
    /// The answer is in time.
    Stored(Commit),
    /// The answer is late: the commit makes the timeout, and the model is told of the answer.
    TimedOut(Commit),
    /// The call has timed out before, and the model is told of the answer.
    Told(Commit),
    /// Nothing is written.
    Nothing(SubmissionOutcome),
}

/// Plans to store an answer.
///
/// # Errors
/// [`SubmissionError`] for an answer that does not fit the pending call.
pub(crate) fn plan_submit(
    asked: &AskedSession,
    answer: &ToolAnswer,
    at: Timestamp,
) -> Result<Planned, SubmissionError> {
    let owner = asked.owner();
    let call = answer.submission.tool_call_id();
    // A call may be pending twice: for its approval, and for its unknown outcome. Only the
    // current pending entry counts.
    let pending = owner.state.pending_client_tool_calls.get(call);
    let Some(pending) = pending.filter(|pending| pending.answer.is_none()) else {
        return plan_late(asked, answer, at);
    };
    answer.submission.check(pending)?;
    let Some(run) = &owner.run else {
        return Ok(Planned::Nothing(SubmissionOutcome::UnknownToolCall));
    };
    let session = &owner.state.session_id;
    // The run must not end or start unnoticed: who continues depends on it.
    let as_read = Precondition::Run(run.id.clone(), vec![run.status]);
    let commit = Commit::new(asked.root.state.session_id.clone(), at);
    let commit = commit.when_in(session.clone(), as_read);
    if pending.is_overdue(at) {
        let binding = CallBinding::of(pending);
        let notice = late_answer_message(call, &binding, &answer.submission);
        let commit = time_out(commit, pending, AnswerKind::AnsweredLate);
        let commit = commit.then_in(session.clone(), Change::Notice(notice));
        return Ok(Planned::TimedOut(commit));
    }
    let mut kept = Answer::new(answer.submission.clone(), at);
    kept.decided_by.clone_from(&answer.decided_by);
    let open = Precondition::Call(call.clone(), PendingStatus::Open);
    let commit = commit.when_in(session.clone(), open).then_in(
        session.clone(),
        Change::Answer(call.clone(), Box::new(kept)),
    );
    let answered = AnsweredCall::new(call.clone(), at);
    Ok(Planned::Stored(commit.set(Field::CompletedCall(answered))))
}

/// Plans to tell the model of the first answer to a call that has timed out.
fn plan_late(
    asked: &AskedSession,
    answer: &ToolAnswer,
    at: Timestamp,
) -> Result<Planned, SubmissionError> {
    let Some(before) = &asked.before else {
        return Ok(Planned::Nothing(SubmissionOutcome::UnknownToolCall));
    };
    let binding = match &before.kind {
        AnswerKind::Submitted => {
            return Ok(Planned::Nothing(SubmissionOutcome::AlreadyCompleted));
        }
        AnswerKind::AnsweredLate => {
            let outcome = SubmissionOutcome::LateAnswerAfterTimeout;
            return Ok(Planned::Nothing(outcome));
        }
        AnswerKind::TimedOut(binding) => binding,
    };
    answer.submission.check_against(binding)?;
    let session = &binding.session_id;
    if asked.owner().state.session_id != *session {
        // The session that made the call was deleted.
        return Ok(Planned::Nothing(SubmissionOutcome::UnknownToolCall));
    }
    let notice = late_answer_message(&before.call, binding, &answer.submission);
    let mut told = before.clone();
    told.kind = AnswerKind::AnsweredLate;
    let root = &asked.root.state;
    let commit = Commit::new(root.session_id.clone(), at)
        // Of two late answers only one is told.
        .when(Precondition::Version(root.version))
        .then_in(session.clone(), Change::Notice(notice))
        .set(Field::CompletedCall(told));
    Ok(Planned::Told(commit))
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

/// The effect of an answer on its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Stored,
    TimedOut,
    Told,
}

/// Returns the outcome of an answer whose acknowledgement was lost, if its commit was made. That the model
/// was told of an answer needs no look: then it is told of no other.
fn found_stored(
    asked: &AskedSession,
    answer: &ToolAnswer,
    (effect, at): (Effect, Timestamp),
) -> Option<Submitted> {
    let (owner, before) = (asked.owner(), asked.before.as_ref());
    let is_told = before.is_some_and(|before| before.kind == AnswerKind::AnsweredLate);
    let call = answer.submission.tool_call_id();
    let outcome = match effect {
        Effect::Stored if is_stored(owner, answer, at) => SubmissionOutcome::Accepted,
        Effect::TimedOut if is_told && timed_out_at(owner, call, at) => {
            SubmissionOutcome::LateAnswerAfterTimeout
        }
        _ => return None,
    };
    Some(Submitted::with_effect(outcome, owner, &answered(owner)))
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
    let refused = |error: SubmissionError| {
        tracing::warn!(event = "client_tool.validation_failed", %call, %error);
        EntryError::from(error)
    };
    answer.submission.check_sender().map_err(refused)?;
    let mut attempts = 0;
    // The effect of an answer whose acknowledgement was lost, and when it was submitted.
    let mut unsure: Option<(Effect, Timestamp)> = None;
    loop {
        let asked = AskedSession::read(entries, &answer.session_id, call).await?;
        let owner = asked.owner();
        let owner_id = &owner.state.session_id;
        if let Some(stored) = unsure.and_then(|it| found_stored(&asked, answer, it)) {
            return Ok(stored);
        }
        let now = entries.clock.now();
        let (commit, effect) = match plan_submit(&asked, answer, now).map_err(refused)? {
            Planned::Stored(commit) => (commit, Effect::Stored),
            Planned::TimedOut(commit) => (commit, Effect::TimedOut),
            Planned::Told(commit) => (commit, Effect::Told),
            Planned::Nothing(outcome) => return Ok(Submitted::without_effect(outcome, owner_id)),
        };
        attempts += 1;
        let commit = commit.fitting(entries.streams.limits());
        match entries.store.commit(commit).await {
            Ok(mut receipt) => {
                let committed = receipt.sessions.remove(owner_id);
                let answered = committed.map(|committed| committed.answered);
                return Ok(log(owner, call, effect, &answered.unwrap_or_default()));
            }
            Err(error) if error.is_conflict() && attempts < MAX_ATTEMPTS => {
                tracing::debug!(event = "client_tool.ownership_retry", %call, %error);
            }
            Err(error) if error.may_pass() && unsure.is_none() => {
                tracing::warn!(event = "client_tool.unacknowledged", %call, %error);
                unsure = Some((effect, now));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Logs the effect of an answer, and returns its outcome.
fn log(owner: &Snapshot, call: &CallId, effect: Effect, answered: &[CallId]) -> Submitted {
    let session = &owner.state.session_id;
    let late = SubmissionOutcome::LateAnswerAfterTimeout;
    let submitted = match effect {
        Effect::Stored => {
            tracing::info!(event = "client_tool.submitted", %session, %call);
            return Submitted::with_effect(SubmissionOutcome::Accepted, owner, answered);
        }
        Effect::TimedOut => {
            tracing::info!(event = "client_tool.timeout", %session, %call);
            Submitted::with_effect(late, owner, answered)
        }
        Effect::Told => Submitted::without_effect(late, session),
    };
    tracing::info!(event = "client_tool.late_answer", %session, %call);
    submitted
}
