//! What a store keeps at hand of each session: enough to judge a commit without reading content.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    CallStanding, Committed, Current, Due, DueKind, EffectMark, EffectPlace, Fence, InboxRow,
    Lease, Precondition,
};
use crate::id::{CallId, RunId, StepId};
use crate::session::{PendingKind, RunRecord, RunStatus, SessionState, StopRequest};
use crate::stored::Stored;
use crate::stream::{DeltasOf, StreamError, StreamWriter};
use crate::time::Timestamp;

/// A session without its content: messages, state, open step and pending inputs are kept elsewhere.
///
/// Every backend stores this one value, and [`super::plan`] is the only thing that changes it, so
/// the rules of a commit are the same everywhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Header {
    /// The session's fields. `custom_state` and `pending_client_tool_calls` are empty here, and so is
    /// `completed_client_tool_calls`, unless an earlier version wrote it: then those calls count as
    /// answered, and the next commit makes rows of them.
    pub session: SessionState,
    /// The fence.
    pub fence: Fence,
    /// Who performs its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// How often its latest run was taken over since it last made a commit of its own; orderly
    /// hand-overs are not counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub takeovers: u32,
    /// How many messages it has.
    pub messages: usize,
    /// How often its history was cut: with the number of messages it tells whether a history that was
    /// read has only grown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cuts: u32,
    /// The version of its state.
    pub state_version: u64,
    /// Its latest run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<LatestRun>,
    /// The request to stop that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopRequest>,
    /// Its pending calls.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<CallId, PendingMark>,
    /// Messages that wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbox: Vec<InboxRow>,
    /// How far the effects of its run have come.
    #[serde(default, skip_serializing_if = "EffectMark::is_empty")]
    pub mark: EffectMark,
}

/// A session's latest run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LatestRun {
    /// Names it.
    pub id: RunId,
    /// Where it stands.
    pub status: RunStatus,
    /// Which kind of host performs it.
    pub host: String,
    /// How many steps of its turn are in the history.
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

/// What a header keeps of a pending call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PendingMark {
    /// What it waits for.
    pub kind: PendingKind,
    /// The run that asked.
    pub run_id: RunId,
    /// Whether it is answered.
    pub answered: bool,
    /// Until when an answer is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
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
        }
    }

    /// What a failed precondition tells of the session.
    #[must_use]
    pub fn current(&self) -> Current {
        Current::new(self.session.status, self.session.version)
    }

    /// What a receipt tells of the session.
    #[must_use]
    pub fn committed(&self) -> Committed {
        let answered = self.calls.iter().filter(|(_, mark)| mark.answered);
        Committed {
            version: self.session.version,
            fence: self.fence,
            message_count: self.messages,
            cuts: self.cuts,
            state_version: self.state_version,
            stop: self.stop.clone(),
            inbox: self.inbox.clone(),
            answered: answered.map(|(call, _)| call.clone()).collect(),
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
            Precondition::Call(call, standing) => self.standing(call) == *standing,
            Precondition::LeaseFree => {
                let lease = self.lease.as_ref();
                lease.is_none_or(|lease| !lease.is_valid(now))
            }
            Precondition::Version(version) => self.session.version == *version,
            Precondition::Effect(effect) => self.awaits(effect),
            Precondition::Open(open) => self.mark.open == *open,
            Precondition::OpenCall {
                step,
                index,
                attempt,
            } => self.is_unfinished(step, *index, *attempt),
        }
    }

    /// Whether an effect was not committed yet, nor a later one, and is this attempt's.
    fn awaits(&self, effect: &EffectPlace) -> bool {
        let run = self.run.as_ref();
        run.is_some_and(|run| {
            run.id == effect.run
                && run.status == RunStatus::Running
                && run.steps.saturating_add(1) == effect.step
        }) && self.mark.effect < effect.n
            && self.mark.attempt_at(effect.n) == effect.attempt
    }

    /// Whether a call of the open step has no result and is this attempt's.
    fn is_unfinished(&self, step: &StepId, index: u32, attempt: u32) -> bool {
        let call = self.mark.call(step, index);
        call.is_some_and(|(standing, at)| standing.is_unfinished() && at == attempt)
    }

    /// Whether a writer of deltas may still write: nobody took its run over, its effect was not
    /// committed, and no later attempt has begun.
    ///
    /// # Errors
    /// [`StreamError::Superseded`] and [`StreamError::Overtaken`].
    pub(crate) fn admit(&self, writer: &StreamWriter) -> Result<(), StreamError> {
        let session = || writer.session.clone();
        if self.fence != writer.fence {
            return Err(StreamError::Superseded { session: session() });
        }
        let is_open = match &writer.by {
            None => true,
            Some(DeltasOf::Effect { n, attempt }) => {
                self.mark.effect < *n && self.mark.attempt_at(*n) == *attempt
            }
            Some(DeltasOf::Call {
                step,
                index,
                attempt,
            }) => self.is_unfinished(step, *index, *attempt),
        };
        if is_open {
            Ok(())
        } else {
            Err(StreamError::Overtaken { session: session() })
        }
    }

    /// Where a pending call stands.
    #[must_use]
    pub fn standing(&self, call: &CallId) -> CallStanding {
        match self.calls.get(call) {
            None => CallStanding::Absent,
            Some(mark) if mark.answered => CallStanding::Answered,
            Some(_) => CallStanding::Open,
        }
    }

    /// Whether its latest run goes on, or is paused: only then a step may be open.
    pub(super) fn waits(&self) -> bool {
        let run = self.run.as_ref();
        run.is_none_or(|run| run.status == RunStatus::Running || run.status.is_suspended())
    }

    fn is_running(&self) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| run.status == RunStatus::Running)
    }

    /// Everything that may need attention, each with the instant from which on it does.
    pub fn agenda(&self) -> impl Iterator<Item = (Timestamp, Due)> + '_ {
        let mut all = Vec::new();
        self.each_due(|at, kind, call| {
            let run = self.run.as_ref();
            let id = || run.map(|run| run.id.clone());
            let due = match kind {
                DueKind::LapsedLease => run.map(|run| Due::LapsedLease {
                    run: run.id.clone(),
                    host: run.host.clone(),
                }),
                DueKind::Answered => id().map(|run| Due::Answered { run }),
                DueKind::OwedStop => id().map(|run| Due::OwedStop { run }),
                DueKind::Deadline => call.cloned().map(|call| Due::Deadline { call }),
                DueKind::Inbox => Some(Due::Inbox),
                DueKind::Expired => Some(Due::Expired),
            };
            all.extend(due.map(|due| (at, due)));
        });
        all.into_iter()
    }

    /// The instant from which on each kind of work is due: what a store indexes.
    #[must_use]
    pub fn due_from(&self) -> BTreeMap<DueKind, Timestamp> {
        let mut from = BTreeMap::new();
        self.each_due(|at, kind, _| {
            let earliest = from.entry(kind).or_insert(at);
            *earliest = at.min(*earliest);
        });
        from
    }

    /// Tells of everything that may need attention: from when on, what kind, and which call.
    fn each_due(&self, mut tell: impl FnMut(Timestamp, DueKind, Option<&CallId>)) {
        let now = Timestamp::default();
        if let Some(run) = &self.run {
            if run.status == RunStatus::Running {
                // A host without leases looks after its runs itself.
                if let Some(lease) = &self.lease {
                    let until = if lease.given_up { now } else { lease.until };
                    tell(until, DueKind::LapsedLease, None);
                }
            } else {
                if run.status.is_suspended()
                    && !self.calls.is_empty()
                    && self.calls.values().all(|mark| mark.answered)
                {
                    tell(now, DueKind::Answered, None);
                }
                if self.stop.as_ref().is_some_and(|stop| stop.run_id == run.id) {
                    tell(now, DueKind::OwedStop, None);
                }
            }
        }
        for (call, mark) in &self.calls {
            if let Some(deadline) = mark.deadline.filter(|_| !mark.answered) {
                tell(deadline, DueKind::Deadline, Some(call));
            }
        }
        if self.is_running() {
            // Messages are its run's to take, and nothing is removed under a run.
            return;
        }
        if !self.inbox.is_empty() {
            tell(now, DueKind::Inbox, None);
        }
        if let Some(at) = self.session.expires_at {
            tell(at, DueKind::Expired, None);
        }
    }
}
