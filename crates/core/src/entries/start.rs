//! What every entry of a run has in common.

use std::sync::Arc;

use crate::id::{AgentId, RunId, SessionId};
use crate::machine::RunState;
use crate::session::{OpenStep, RunRecord, RunTrigger};
use crate::store::{Change, Commit, Fence, LeaseRequest, OpenMark, Precondition, Snapshot};
use crate::stream::{Chunk, ChunkBase, ChunkPayload, Sequence, StreamStatus};
use crate::time::Timestamp;

/// Who performs a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Performer {
    /// The kind of host; only its own kind takes a run over.
    pub host: String,
    /// The process and how long its lease lasts, for hosts that have leases.
    pub lease: Option<(String, std::time::Duration)>,
}

impl Performer {
    /// A host whose engine looks after its runs.
    #[must_use]
    pub fn new(host: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            lease: None,
        }
    }

    /// A host that holds a lease while it performs a run.
    #[must_use]
    pub fn leased(mut self, holder: impl Into<String>, lasts: std::time::Duration) -> Self {
        self.lease = Some((holder.into(), lasts));
        self
    }

    /// The lease to ask for, by its length.
    #[must_use]
    pub fn lease_request(&self) -> Option<LeaseRequest> {
        let (holder, lasts) = self.lease.as_ref()?;
        Some(LeaseRequest::new(holder.clone(), *lasts))
    }
}

/// What arrives with an entry: an id, the time, who performs it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Start {
    /// The id of a run that starts.
    pub run_id: RunId,
    /// When.
    pub at: Timestamp,
    /// Who performs it.
    pub performer: Performer,
    /// The end of the stream.
    pub after: Sequence,
}

impl Start {
    /// What arrives with an entry.
    #[must_use]
    pub fn new(run_id: RunId, at: Timestamp, performer: Performer, after: Sequence) -> Self {
        Self {
            run_id,
            at,
            performer,
            after,
        }
    }

    pub(super) fn run(&self, session: SessionId, trigger: RunTrigger) -> RunRecord {
        let host = self.performer.host.clone();
        let mut run = RunRecord::started(self.run_id.clone(), session, trigger, host, self.at);
        run.start_sequence = self.after.0;
        run
    }
}

/// A run for a host to drive, once the commit is made.
#[derive(Debug)]
#[non_exhaustive]
pub struct Drive {
    /// What makes it happen.
    pub commit: Commit,
    /// Where the run stands then. The fence of a new session is the store's to choose: take the
    /// receipt's, with [`RunState::fenced`].
    pub state: RunState,
}

/// A run start on a session as it was read: refused when anything that matters has changed.
pub(super) fn on(found: &Snapshot, start: &Start) -> Commit {
    let session = &found.state.session_id;
    let when = |commit: Commit, condition| commit.when_in(session.clone(), condition);
    let commit = Commit::new(found.state.root().clone(), start.at);
    let commit = when(commit, Precondition::Fence(found.fence));
    let commit = when(commit, Precondition::Status(vec![found.state.status]));
    match &found.run {
        Some(run) => when(commit, Precondition::Run(run.id.clone(), vec![run.status])),
        None => when(commit, Precondition::CurrentRun(None)),
    }
}

/// Raises the fence, takes the lease and opens the stream.
pub(super) fn take_hold(commit: Commit, session: &SessionId, start: &Start) -> Commit {
    let commit = commit.then_in(session.clone(), Change::RaiseFence);
    let lease = start.performer.lease_request();
    commit
        .then_in(session.clone(), Change::Lease(lease))
        .stream(StreamStatus::Active)
}

/// Says where a run stands that goes on under another fence.
pub(super) fn adopt(
    commit: Commit,
    session: &SessionId,
    steps: u32,
    open: Option<&OpenStep>,
) -> Commit {
    let open = open.map(OpenMark::of);
    commit.then_in(session.clone(), Change::Adopt(steps, open))
}

/// The fence after it was raised.
pub(super) fn raised(fence: Fence) -> Fence {
    Fence(fence.0 + 1)
}

/// The base of the chunks that an entry writes.
pub(super) fn base(found: &crate::session::SessionState, run: &RunId, step: u32) -> Arc<ChunkBase> {
    let agent = AgentId::of_session(&found.session_id);
    let session = found.session_id.clone();
    Arc::new(ChunkBase::new(
        agent,
        &found.agent_type,
        session,
        run.clone(),
        step,
    ))
}

pub(super) fn say(
    commit: Commit,
    base: &Arc<ChunkBase>,
    at: Timestamp,
    payload: ChunkPayload,
) -> Commit {
    commit.say(Chunk::new(Arc::clone(base), at, payload))
}
