//! What a store gives of one session.

use std::collections::BTreeMap;

use super::{EffectMark, Fence, InboxRow, Lease};
use crate::id::{CallId, StepId};
use crate::session::{OpenStep, RunRecord, SessionState, StopRequest, SubSessionRef};
use crate::state::StepWrites;

/// A session as of one instant: everything a run needs, but its messages.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its fields, its state and its pending calls.
    pub state: SessionState,
    /// The fence.
    pub fence: Fence,
    /// Who performs its run.
    pub lease: Option<Lease>,
    /// How many messages it has.
    pub message_count: usize,
    /// The version of its state.
    pub state_version: u64,
    /// Its latest run.
    pub run: Option<RunRecord>,
    /// The open step.
    pub open_step: Option<OpenStep>,
    /// The request to stop its latest run.
    pub stop: Option<StopRequest>,
    /// Messages that wait.
    pub inbox: Vec<InboxRow>,
    /// How far the effects of its run have come.
    pub mark: EffectMark,
}

impl Snapshot {
    /// A snapshot of a header and what belongs to it.
    #[must_use]
    pub fn new(
        header: super::Header,
        state: SessionState,
        run: Option<RunRecord>,
        open_step: Option<OpenStep>,
    ) -> Self {
        Self {
            state,
            fence: header.fence,
            lease: header.lease,
            message_count: header.messages,
            state_version: header.state_version,
            run,
            open_step,
            stop: header.stop,
            inbox: header.inbox,
            mark: header.mark,
        }
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
