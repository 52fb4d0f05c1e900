//! The parts that all entries of a run share.

use std::sync::Arc;

use super::answers::TakenAnswers;
use super::descendants::AwaitedChild;
use super::rollback::Rollback;
use crate::id::{AgentId, RunId, SessionId};
use crate::machine::RunState;
use crate::session::{ChildStatus, OpenStep, RunRecord, RunTrigger, SessionState};
use crate::shared_str::SharedStr;
use crate::store::{Change, Commit, Fence, LeaseRequest, OpenStepMark, Precondition, Snapshot};
use crate::stream::{Chunk, ChunkOrigin, ChunkPayload, Sequence, StreamStatus};
use crate::time::Timestamp;

/// The host and process that perform a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Performer {
    /// The kind of host; only the same kind takes a run over.
    pub host: SharedStr,
    /// The process and the duration of its lease, for hosts that have leases.
    pub lease: Option<(SharedStr, std::time::Duration)>,
}

impl Performer {
    /// Creates a performer whose engine recovers its runs.
    #[must_use]
    pub fn new(host: impl Into<SharedStr>) -> Self {
        Self {
            host: host.into(),
            lease: None,
        }
    }

    /// Sets the process and the duration of its lease.
    #[must_use]
    pub fn leased(mut self, holder: impl Into<SharedStr>, lasts: std::time::Duration) -> Self {
        self.lease = Some((holder.into(), lasts));
        self
    }

    /// Returns the lease to request.
    #[must_use]
    pub fn lease_request(&self) -> Option<LeaseRequest> {
        let (holder, lasts) = self.lease.as_ref()?;
        Some(LeaseRequest::new(holder.clone(), *lasts))
    }
}

/// The inputs of an entry: a run id, the time, and the performer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub(crate) struct Start {
    /// The id for a run that starts.
    pub run_id: RunId,
    /// When the entry is made.
    pub at: Timestamp,
    /// The host and process that perform the run.
    pub performer: Performer,
    /// The end of the stream.
    pub after: Sequence,
    /// The turn that is taken back before the next one starts.
    pub rollback: Option<Rollback>,
    /// The children for which the suspended run waits.
    pub children: Vec<AwaitedChild>,
}

impl Start {
    pub(super) fn run(&self, session: SessionId, trigger: RunTrigger) -> RunRecord {
        let host = self.performer.host.clone();
        let mut run = RunRecord::started(self.run_id.clone(), session, trigger, host, self.at);
        run.start_sequence = self.after.0;
        run
    }
}

/// The commit that starts or continues a run, and the run state for a host to drive.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) struct Drive {
    /// The commit to make first.
    pub commit: Commit,
    /// The state of the run after the commit. The store chooses the fence of a new session: take it
    /// from the receipt with [`RunState::fenced`].
    pub state: RunState,
    /// The answers that the commit takes.
    pub answers: Vec<TakenAnswers>,
}

/// Starts a commit on a session as it was read: refused if anything relevant has changed.
pub(super) fn commit_on(found: &Snapshot, start: &Start) -> Commit {
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

/// Notes in the parent of a persistent child that it runs.
pub(super) fn note_child(commit: Commit, found: &SessionState, run: &RunId) -> Commit {
    let link = found.persistent_link();
    let (Some(link), Some(parent)) = (link, found.parent_session_id.clone()) else {
        return commit;
    };
    let running = link.noted(run, ChildStatus::Running);
    commit.then_in(parent, Change::UpdateChild(Box::new(running)))
}

/// Raises the fence, takes the lease and activates the stream.
pub(super) fn take_lease(commit: Commit, session: &SessionId, start: &Start) -> Commit {
    let commit = commit.then_in(session.clone(), Change::RaiseFence);
    let lease = start.performer.lease_request();
    commit
        .then_in(session.clone(), Change::Lease(lease))
        .stream(StreamStatus::Active)
}

/// Records the position of a run that continues under a new fence.
pub(super) fn adopt(
    commit: Commit,
    session: &SessionId,
    steps: u32,
    open: Option<&OpenStep>,
) -> Commit {
    let open = open.map(OpenStepMark::of);
    commit.then_in(session.clone(), Change::Adopt(steps, open))
}

/// Returns the fence after it was raised.
pub(super) fn raised(fence: Fence) -> Fence {
    Fence(fence.0 + 1)
}

/// Creates the origin of the chunks that an entry writes.
pub(super) fn base(found: &SessionState, run: &RunId, step: u32) -> Arc<ChunkOrigin> {
    let agent = AgentId::of_session(&found.session_id);
    let session = found.session_id.clone();
    Arc::new(ChunkOrigin::new(
        agent,
        &found.agent_type,
        session,
        run.clone(),
        step,
    ))
}

pub(super) fn say(
    commit: Commit,
    base: &Arc<ChunkOrigin>,
    at: Timestamp,
    payload: ChunkPayload,
) -> Commit {
    commit.say(Chunk::new(Arc::clone(base), at, payload))
}
