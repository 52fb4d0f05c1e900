//! The values that a store returns for one session.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{EffectMark, Fence, InboxRow, Lease};
use crate::budget::BudgetLedger;
use crate::id::{CallId, StepId};
use crate::session::{AnswerKind, OpenStep, RunRecord, SessionState, StopRequest, SubSessionRef};
use crate::state::StepWrites;
use crate::time::Timestamp;

/// A session as of one instant: everything a run needs except its messages.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The fields, the state and the pending calls of the session. Calls answered earlier are not
    /// included: see [`SessionStore::answered`](super::SessionStore::answered).
    pub state: SessionState,
    /// The current fence of the session.
    pub fence: Fence,
    /// The lease of the process that performs the run.
    pub lease: Option<Lease>,
    /// The number of take-overs of the latest run since its own last commit.
    pub takeovers: u32,
    /// The number of messages in the history.
    pub message_count: usize,
    /// How many times the history was truncated.
    pub cuts: u32,
    /// The version of the state.
    pub state_version: u64,
    /// The latest run of the session.
    pub run: Option<RunRecord>,
    /// The open step, if there is one.
    pub open_step: Option<OpenStep>,
    /// The calls of the open step that were answered from outside the run.
    pub answered: Vec<CallId>,
    /// The request to stop the latest run.
    pub stop: Option<StopRequest>,
    /// Messages that wait for the next run.
    pub inbox: Vec<InboxRow>,
    /// The progress of the run's effects.
    pub mark: EffectMark,
    /// What the sessions of its tree have used and reserved, for a root with limits.
    pub budget: Option<Arc<BudgetLedger>>,
}

impl Snapshot {
    /// Builds a snapshot from a header and its rows.
    ///
    /// `state` is [`Header::session`](super::Header::session) with the two fields that a header leaves
    /// empty: `custom_state`, the state at its latest version, and `pending_client_tool_calls`, all pending
    /// calls with their answers. `run` is the run that [`Header::run`](super::Header::run) names, whichever
    /// was written last. `is_answered` returns whether a call of the open step is answered; it need not
    /// know the calls that a header of an earlier version holds.
    ///
    /// # Errors
    /// The errors that `is_answered` returns.
    pub fn new<E>(
        header: super::Header,
        mut state: SessionState,
        run: Option<RunRecord>,
        open_step: Option<OpenStep>,
        mut is_answered: impl FnMut(&CallId) -> Result<bool, E>,
    ) -> Result<Self, E> {
        let before = std::mem::take(&mut state.completed_client_tool_calls);
        let mut answered = Vec::new();
        let calls = open_step.iter().flat_map(|open| open.message.tool_calls());
        for call in calls {
            if before.contains_key(&call.id) || is_answered(&call.id)? {
                answered.push(call.id.clone());
            }
        }
        Ok(Self {
            state,
            fence: header.fence,
            lease: header.lease,
            takeovers: header.takeovers,
            message_count: header.messages,
            cuts: header.cuts,
            state_version: header.state_version,
            run,
            open_step,
            answered,
            stop: header.stop,
            inbox: header.inbox,
            mark: header.mark,
            budget: header.budget,
        })
    }
}

/// A call that was answered from outside the run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AnsweredCall {
    /// The id of the call.
    pub call: CallId,
    /// When the call was answered, or timed out.
    pub at: Timestamp,
    /// Whether it was answered in time.
    #[serde(default, skip_serializing_if = "AnswerKind::is_submitted")]
    pub kind: AnswerKind,
}

impl AnsweredCall {
    /// Creates the record of a call that a client or a person answered at this instant.
    #[must_use]
    pub fn new(call: CallId, at: Timestamp) -> Self {
        Self {
            call,
            at,
            kind: AnswerKind::Submitted,
        }
    }

    /// Sets how the call was answered.
    #[must_use]
    pub fn with_kind(mut self, kind: AnswerKind) -> Self {
        self.kind = kind;
        self
    }

    /// Whether this record replaces an earlier one of the same call. A call that has timed out stays so.
    #[must_use]
    pub fn replaces(&self, earlier: &Self) -> bool {
        !self.kind.is_submitted() || earlier.kind.is_submitted()
    }
}

/// The child references, staged writes and retired call ids of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionExtras {
    /// The child sessions, oldest first.
    pub children: Vec<SubSessionRef>,
    /// Writes that are staged until their step is settled. Within a step, calls come in the order in which
    /// they were first staged: the writes are merged in that order.
    pub staged: BTreeMap<StepId, Vec<Staged>>,
    /// Call ids used by messages that were truncated.
    pub retired_call_ids: Vec<CallId>,
}

/// The staged writes of one call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Staged {
    /// The id of the call.
    pub call: CallId,
    /// The operations that the call wrote.
    pub writes: StepWrites,
}

impl Staged {
    /// Creates the staged writes of one call.
    #[must_use]
    pub fn new(call: CallId, writes: StepWrites) -> Self {
        Self { call, writes }
    }
}
