//! The header of a session: what a store needs to judge a commit without reading content.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    CurrentSession, DueKind, DueReason, EffectMark, EffectPosition, Fence, InboxRow, Lease,
    PendingStatus, Precondition, SessionReceipt,
};
use crate::budget::BudgetLedger;
use crate::id::{CallId, RunId};
use crate::message::UserMessage;
use crate::session::{
    PendingKind, RunRecord, RunStatus, SessionState, SessionStatus, StopKind, StopRequest,
};
use crate::shared_str::SharedStr;
use crate::stored::Stored;
use crate::stream::{StreamError, StreamWriter};
use crate::time::Timestamp;

/// A session without its content: messages, state, open step and pending inputs are stored in rows.
///
/// Every backend stores this one value, and only [`super::plan`] changes it, so the rules of a
/// commit are the same everywhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Header {
    /// The session's fields. `custom_state` and `pending_client_tool_calls` are empty here, and so
    /// is `completed_client_tool_calls`, unless an earlier version wrote it: then those calls count
    /// as answered, and the next commit turns them into rows.
    pub session: SessionState,
    /// The current fence of the session.
    pub fence: Fence,
    /// The lease of the process that performs the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// The number of take-overs of the latest run since its own last commit; orderly
    /// hand-overs are not counted, nor are those of a run that only waits for a child at work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub takeovers: u32,
    /// The number of messages in the history.
    pub messages: usize,
    /// How many times the history was truncated. Together with the number of messages it shows
    /// whether a history read earlier has only grown since.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cuts: u32,
    /// The version of the state.
    pub state_version: u64,
    /// The latest run of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<LatestRun>,
    /// The request to stop that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopRequest>,
    /// The pending calls by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<CallId, PendingCallMark>,
    /// Messages that wait for the next run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbox: Vec<InboxRow>,
    /// The progress of the run's effects.
    #[serde(default, skip_serializing_if = "EffectMark::is_empty")]
    pub mark: EffectMark,
    /// Messages for the model that are appended after the next step, or when the run ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<UserMessage>,
    /// What the sessions of the tree have used and reserved, for a root with limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Arc<BudgetLedger>>,
}

/// The latest run of a session, as its header keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LatestRun {
    /// The id of the run.
    pub id: RunId,
    /// The status of the run.
    pub status: RunStatus,
    /// The kind of host that performs the run.
    pub host: SharedStr,
    /// The number of steps of its turn in the history.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps: u32,
}

impl LatestRun {
    pub(super) fn of(run: &RunRecord) -> Self {
        Self {
            id: run.id.clone(),
            status: run.status,
            host: run.host.clone(),
            steps: run.step_count,
        }
    }
}

/// A pending call, as the header keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PendingCallMark {
    /// The kind of answer that it waits for.
    pub kind: PendingKind,
    /// The run that made the call.
    pub run_id: RunId,
    /// Whether the call is answered.
    pub answered: bool,
    /// The instant until which an answer is accepted in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// When readers are warned that the deadline is near, until they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn_at: Option<Timestamp>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Stored for Header {
    const KIND: &'static str = "header";
    const VERSION: u32 = 1;
}

impl Header {
    pub(crate) fn created(session: SessionState, fence: Fence) -> Self {
        Self {
            session,
            fence,
            lease: None,
            takeovers: 0,
            messages: 0,
            cuts: 0,
            state_version: 0,
            run: None,
            stop: None,
            calls: BTreeMap::new(),
            inbox: Vec::new(),
            mark: EffectMark::default(),
            notices: Vec::new(),
            budget: None,
        }
    }

    /// Returns the status and version that a failed precondition reports.
    #[must_use]
    pub(crate) fn current(&self) -> CurrentSession {
        CurrentSession::new(self.session.status, self.session.version)
    }

    /// Returns the counters that a receipt reports.
    #[must_use]
    pub(crate) fn committed(&self) -> SessionReceipt {
        let answered = self.calls.iter().filter(|(_, mark)| mark.answered);
        SessionReceipt {
            version: self.session.version,
            fence: self.fence,
            message_count: self.messages,
            cuts: self.cuts,
            state_version: self.state_version,
            stop: self.stop.clone(),
            inbox: self.inbox.clone(),
            answered: answered.map(|(call, _)| call.clone()).collect(),
            budget: self.budget.clone(),
        }
    }

    /// Whether a precondition holds at this instant of the store's clock.
    #[must_use]
    pub fn holds(&self, precondition: &Precondition, now: Timestamp) -> bool {
        match precondition {
            Precondition::Absent => false,
            Precondition::Exists => true,
            Precondition::Status(any) => any.contains(&self.session.status),
            Precondition::MessageCount(count) => self.messages == *count,
            Precondition::Fence(fence) => self.fence == *fence,
            Precondition::CurrentRun(run) => self.run.as_ref().map(|run| &run.id) == run.as_ref(),
            Precondition::Run(id, any) => {
                let run = self.run.as_ref();
                run.is_some_and(|run| run.id == *id && any.contains(&run.status))
            }
            Precondition::Stop(id, present) => {
                self.stop.as_ref().is_some_and(|stop| stop.run_id == *id) == *present
            }
            Precondition::NotAborted(id) => {
                let stop = self.stop.as_ref().filter(|stop| stop.run_id == *id);
                stop.is_none_or(|stop| stop.kind != StopKind::Abort)
            }
            Precondition::Call(call, standing) => self.standing(call) == *standing,
            Precondition::CallFree(call, session) => {
                let owner = self.session.client_tool_call_ownership.get(call);
                owner.is_none_or(|owner| owner == session)
            }
            Precondition::ToolCallsFit(calls) => {
                let ledger = self.budget.as_deref();
                ledger.is_none_or(|ledger| ledger.tree_admits(&self.session.session_id, *calls))
            }
            Precondition::LeaseFree => {
                let lease = self.lease.as_ref();
                lease.is_none_or(|lease| !lease.is_valid(now))
            }
            Precondition::Inbox(count) => self.inbox.len() == *count,
            Precondition::Version(version) => self.session.version == *version,
            Precondition::Effect(effect) => self.is_uncommitted(effect),
            Precondition::Open(open) => self.mark.open == *open,
            Precondition::OpenCall {
                step,
                index,
                attempt,
            } => self.mark.is_unfinished(step, *index, *attempt),
        }
    }

    /// Whether neither this effect nor a later one has been committed, and this attempt
    /// is its current one.
    fn is_uncommitted(&self, effect: &EffectPosition) -> bool {
        let run = self.run.as_ref();
        run.is_some_and(|run| {
            run.id == effect.run
                && run.status == RunStatus::Running
                && run.steps.saturating_add(1) == effect.step
        }) && self.mark.effect < effect.n
            && self.mark.attempt_at(effect.n) == effect.attempt
    }

    /// Checks that a writer of deltas may still write: its run was not taken over, its effect is
    /// not committed, and no later attempt has begun.
    ///
    /// # Errors
    /// [`StreamError::Superseded`] and [`StreamError::Overtaken`].
    pub(crate) fn admit(&self, writer: &StreamWriter) -> Result<(), StreamError> {
        self.mark.admit(self.fence, writer)
    }

    /// Returns the status of a pending call.
    #[must_use]
    pub(crate) fn standing(&self, call: &CallId) -> PendingStatus {
        match self.calls.get(call) {
            None => PendingStatus::Absent,
            Some(mark) if mark.answered => PendingStatus::Answered,
            Some(_) => PendingStatus::Open,
        }
    }

    /// Whether its turn is over.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.may_have_open_step()
    }

    /// Whether its latest run is running or suspended: only then may a step be open.
    pub(super) fn may_have_open_step(&self) -> bool {
        let run = self.run.as_ref();
        run.is_none_or(|run| run.status == RunStatus::Running || run.status.is_suspended())
    }

    pub(crate) fn is_running(&self) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| run.status == RunStatus::Running)
    }

    /// Lists everything that needs attention now or later, each with the instant from which
    /// on it is due.
    pub(crate) fn agenda(&self) -> impl Iterator<Item = (Timestamp, DueReason)> + '_ {
        let mut all = Vec::new();
        self.each_due(|at, kind, call| {
            let run = self.run.as_ref();
            let id = || run.map(|run| run.id.clone());
            let due = match kind {
                DueKind::LapsedLease => run.map(|run| DueReason::LapsedLease {
                    run: run.id.clone(),
                    host: run.host.to_string(),
                }),
                DueKind::Answered => id().map(|run| DueReason::Answered { run }),
                DueKind::OwedStop => id().map(|run| DueReason::OwedStop { run }),
                DueKind::Deadline => call.cloned().map(|call| DueReason::Deadline { call }),
                DueKind::ExpiringSoon => {
                    let call = call.cloned();
                    call.map(|call| DueReason::ExpiringSoon { call })
                }
                DueKind::Inbox => Some(DueReason::Inbox),
                DueKind::Expired => Some(DueReason::Expired),
            };
            all.extend(due.map(|due| (at, due)));
        });
        all.into_iter()
    }

    /// Returns the instant from which on each kind of work is due, for the index of a store.
    #[must_use]
    pub fn due_from(&self) -> BTreeMap<DueKind, Timestamp> {
        let all = DueKind::ALL.into_iter().zip(self.earliest_due());
        all.filter_map(|(kind, at)| Some((kind, at?))).collect()
    }

    /// The same in the order of [`DueKind::ALL`].
    pub(crate) fn earliest_due(&self) -> [Option<Timestamp>; DueKind::ALL.len()] {
        let mut earliest = [None; DueKind::ALL.len()];
        self.each_due(|at, kind, _| {
            if let Some(slot) = earliest.get_mut(kind as usize) {
                *slot = Some(slot.map_or(at, |before: Timestamp| before.min(at)));
            }
        });
        earliest
    }

    /// Whether nothing that the suspended run waited for is still to come: answers, and the ends of children.
    pub(super) fn is_answered(&self) -> bool {
        let waited = !self.calls.is_empty() || self.mark.awaits_child();
        waited
            && self.calls.values().all(|mark| mark.answered)
            && self.session.suspended_awaiting_children.is_empty()
    }

    /// Calls `report` for each piece of due work: from when on, which kind, and for which call.
    fn each_due(&self, mut report: impl FnMut(Timestamp, DueKind, Option<&CallId>)) {
        let now = Timestamp::default();
        if let Some(run) = &self.run {
            if run.status == RunStatus::Running {
                // A host without leases recovers its runs by itself.
                if let Some(lease) = &self.lease {
                    let until = if lease.given_up { now } else { lease.until };
                    report(until, DueKind::LapsedLease, None);
                }
            } else {
                if run.status.is_suspended() && self.is_answered() {
                    report(now, DueKind::Answered, None);
                }
                if self.stop.as_ref().is_some_and(|stop| stop.run_id == run.id) {
                    report(now, DueKind::OwedStop, None);
                }
            }
        }
        for (call, mark) in &self.calls {
            if let Some(deadline) = mark.deadline.filter(|_| !mark.answered) {
                report(deadline, DueKind::Deadline, Some(call));
            }
            if let Some(at) = mark.warn_at.filter(|_| !mark.answered) {
                report(at, DueKind::ExpiringSoon, Some(call));
            }
        }
        if self.is_running() {
            // Waiting messages belong to the run, and nothing is deleted while a run is running.
            return;
        }
        // While a run is suspended, its turn is not over: the messages wait for its end. So they do while
        // a budget pauses the session.
        let may_start = self.session.status != SessionStatus::Paused
            && (self.run.is_none() || self.is_at_rest());
        if !self.inbox.is_empty() && may_start {
            report(now, DueKind::Inbox, None);
        }
        if let Some(at) = self.session.expires_at {
            report(at, DueKind::Expired, None);
        }
    }
}
