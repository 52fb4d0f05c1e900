//! The entry that times out calls whose deadline has passed.

use super::{Continuation, Entries, EntryError, MAX_ATTEMPTS};
use crate::id::CallId;
use crate::session::{Answer, AnswerKind, CallBinding, PendingCall, Submission};
use crate::store::{
    AnsweredCall, Change, Commit, Field, PendingStatus, Precondition, SessionKey, Snapshot,
};
use crate::time::Timestamp;

/// The calls of a session that timed out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired {
    /// The calls that timed out with this commit. Others were answered, or timed out before.
    pub calls: Vec<CallId>,
    /// Who continues the run.
    pub continuation: Continuation,
}

impl Expired {
    fn nothing() -> Self {
        Self {
            calls: Vec::new(),
            continuation: Continuation::None,
        }
    }
}

/// Adds the timeout of an open call to a commit: its answer, and the record of it. The commit is refused if
/// the call is answered meanwhile.
pub(super) fn time_out(commit: Commit, pending: &PendingCall, kind: AnswerKind) -> Commit {
    let (session, call) = (&pending.session_id, &pending.tool_call_id);
    let at = commit.at;
    let tool_call_id = call.clone();
    let answer = Answer::new(Submission::Expired { tool_call_id }, at);
    let answered = AnsweredCall::new(call.clone(), at).with_kind(kind);
    let open = Precondition::Call(call.clone(), PendingStatus::Open);
    commit
        .when_in(session.clone(), open)
        .then_in(
            session.clone(),
            Change::Answer(call.clone(), Box::new(answer)),
        )
        .set(Field::CompletedCall(answered))
}

/// Plans to time out every open call whose deadline has passed; `None` if there is none.
pub(crate) fn plan_expire(found: &Snapshot, at: Timestamp) -> Option<(Commit, Vec<CallId>)> {
    let run = found.run.as_ref()?;
    let session = &found.state.session_id;
    // The run must not end or start unnoticed: who continues depends on it.
    let as_read = Precondition::Run(run.id.clone(), vec![run.status]);
    let mut commit = Commit::new(found.state.root().clone(), at).when_in(session.clone(), as_read);
    let mut calls = Vec::new();
    for pending in found.state.overdue_calls(at) {
        let kind = AnswerKind::TimedOut(Box::new(CallBinding::of(pending)));
        commit = time_out(commit, pending, kind);
        calls.push(pending.tool_call_id.clone());
    }
    (!calls.is_empty()).then_some((commit, calls))
}

/// Whether a call was timed out at this instant, and no run has used that yet.
pub(super) fn timed_out_at(owner: &Snapshot, call: &CallId, at: Timestamp) -> bool {
    let pending = owner.state.pending_client_tool_calls.get(call);
    let answer = pending.and_then(|pending| pending.answer.as_ref());
    answer.is_some_and(|answer| {
        matches!(answer.submission, Submission::Expired { .. }) && answer.submitted_at == at
    })
}

/// Returns who continues a run, once these calls are answered.
pub(super) fn continuation(owner: &Snapshot, answered: &[CallId]) -> Continuation {
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

pub(super) async fn expire(
    entries: &Entries,
    session: SessionKey<'_>,
) -> Result<Expired, EntryError> {
    let mut attempts = 0;
    // When calls were timed out without an acknowledgement, and which.
    let mut unsure: Option<(Timestamp, Vec<CallId>)> = None;
    loop {
        let Some(found) = entries.store.load(session).await? else {
            return Ok(Expired::nothing());
        };
        if let Some((at, mut calls)) = unsure.clone() {
            calls.retain(|call| timed_out_at(&found, call, at));
            if !calls.is_empty() {
                return Ok(expired(&found, calls));
            }
        }
        let now = entries.clock.now();
        let Some((commit, calls)) = plan_expire(&found, now) else {
            return Ok(Expired::nothing());
        };
        attempts += 1;
        match entries.store.commit(commit).await {
            Ok(_) => return Ok(expired(&found, calls)),
            Err(error) if error.is_conflict() && attempts < MAX_ATTEMPTS => {
                tracing::debug!(event = "client_tool.timeout_retry", session = %session.session, %error);
            }
            Err(error) if error.may_pass() && unsure.is_none() => {
                tracing::warn!(event = "client_tool.unacknowledged", session = %session.session, %error);
                unsure = Some((now, calls));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Logs calls that have timed out, and returns the outcome.
fn expired(found: &Snapshot, calls: Vec<CallId>) -> Expired {
    let session = &found.state.session_id;
    for call in &calls {
        tracing::info!(event = "client_tool.timeout", %session, %call);
    }
    let pending = found.state.pending_client_tool_calls.values();
    let before = pending.filter(|call| call.answer.is_some());
    let before = before.map(|call| call.tool_call_id.clone());
    let answered: Vec<_> = calls.iter().cloned().chain(before).collect();
    Expired {
        continuation: continuation(found, &answered),
        calls,
    }
}
