//! What a store gives of one session.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{EffectMark, Fence, InboxRow, Lease};
use crate::id::{CallId, StepId};
use crate::session::{OpenStep, RunRecord, SessionState, StopRequest, SubSessionRef};
use crate::state::StepWrites;
use crate::time::Timestamp;

/// A session as of one instant: everything a run needs, but its messages.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its fields, its state and its pending calls. The calls that were answered before are not
    /// here: see [`SessionStore::answered`](super::SessionStore::answered).
    pub state: SessionState,
    /// The fence.
    pub fence: Fence,
    /// Who performs its run.
    pub lease: Option<Lease>,
    /// How often its latest run was taken over since it last made a commit of its own.
    pub takeovers: u32,
    /// How many messages it has.
    pub message_count: usize,
    /// How often its history was cut.
    pub cuts: u32,
    /// The version of its state.
    pub state_version: u64,
    /// Its latest run.
    pub run: Option<RunRecord>,
    /// The open step.
    pub open_step: Option<OpenStep>,
    /// Which of the open step's calls somebody outside has answered.
    pub answered: Vec<CallId>,
    /// The request to stop its latest run.
    pub stop: Option<StopRequest>,
    /// Messages that wait.
    pub inbox: Vec<InboxRow>,
    /// How far the effects of its run have come.
    pub mark: EffectMark,
}

impl Snapshot {
    /// A snapshot of a header and what belongs to it. `is_answered` says which of the open step's
    /// calls are answered; one that a header of an earlier version holds need not be known to it.
    ///
    /// # Errors
    /// Those of `is_answered`.
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
        })
    }
}

/// A call that somebody outside has answered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct AnsweredCall {
    /// The call.
    pub call: CallId,
    /// When it was answered.
    pub at: Timestamp,
}

impl AnsweredCall {
    /// A call that was answered then.
    #[must_use]
    pub fn new(call: CallId, at: Timestamp) -> Self {
        Self { call, at }
    }
}

/// The smaller belongings of a session.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Family {
    /// Its children, oldest first.
    pub children: Vec<SubSessionRef>,
    /// Writes that are kept until their step is settled.
    pub staged: BTreeMap<StepId, Vec<Staged>>,
    /// Call ids that were used by messages that are cut off.
    pub retired_call_ids: Vec<CallId>,
}

impl Family {
    /// A family.
    #[must_use]
    pub fn new(
        children: Vec<SubSessionRef>,
        staged: BTreeMap<StepId, Vec<Staged>>,
        retired_call_ids: Vec<CallId>,
    ) -> Self {
        Self {
            children,
            staged,
            retired_call_ids,
        }
    }
}

/// A call's kept writes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Staged {
    /// The call.
    pub call: CallId,
    /// What it wrote.
    pub writes: StepWrites,
}

impl Staged {
    /// A call's kept writes.
    #[must_use]
    pub fn new(call: CallId, writes: StepWrites) -> Self {
        Self { call, writes }
    }
}
