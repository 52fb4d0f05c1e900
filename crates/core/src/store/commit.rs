//! The one write: what must hold, and what changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Begun, ModelFailure, OpenMark, Precondition};
use crate::error::ErrorRecord;
use crate::id::{CallId, SessionId, StepId, StreamId, UserId};
use crate::message::UserMessage;
use crate::session::{
    Answer, Checkpoint, CheckpointSource, ChildWait, InterruptContext, OpenCall, OpenStep,
    PendingCall, RunRecord, SessionMode, SessionState, SessionStatus, StopRequest, SubSessionRef,
    TracingContext, WorkspaceRef,
};
use crate::state::StepWrites;
use crate::stream::{Chunk, Sequence, StreamLimits, StreamStatus};
use crate::time::Timestamp;
use crate::transcript::PairedStep;
use crate::usage::UsageEntry;

/// A number that every run start and every take-over raises. Commits of a run carry it, so a run
/// that was superseded cannot write. A session that is made under the id of one that was deleted
/// begins above that one's.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Fence(pub u64);

/// Who performs a session's run, and until when that is taken for granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Lease {
    /// The process.
    pub holder: String,
    /// Until when, by the clock that the store judges leases by.
    pub until: Timestamp,
    /// Whether its holder left the run in good order: taking over is no sign of trouble then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
}

impl Lease {
    /// A lease.
    #[must_use]
    pub fn new(holder: impl Into<String>, until: Timestamp) -> Self {
        Self {
            holder: holder.into(),
            until,
            given_up: false,
        }
    }

    /// Whether it binds others at this instant.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.until > now && !self.given_up
    }
}

/// A lease as a commit asks for it: by its length. When it begins, the store says, whose clock is
/// one for all who ask; no process writes an instant of its own clock that others are judged by.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseRequest {
    /// The process.
    pub holder: String,
    /// How long it lasts from the commit on.
    pub lasts: Duration,
    /// Whether the process gives the lease up and leaves the run to others, in good order.
    pub gives_up: bool,
}

impl LeaseRequest {
    /// Asks for a lease, or for its renewal.
    #[must_use]
    pub fn new(holder: impl Into<String>, lasts: Duration) -> Self {
        Self {
            holder: holder.into(),
            lasts,
            gives_up: false,
        }
    }

    /// Gives a lease up: the run is due for somebody else at once, and its take-over is not counted.
    #[must_use]
    pub fn given_up(holder: impl Into<String>) -> Self {
        Self {
            gives_up: true,
            ..Self::new(holder, Duration::ZERO)
        }
    }

    /// The lease that a store writes at this instant of its clock.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Lease {
        Lease {
            holder: self.holder,
            until: now.saturating_add(self.lasts),
            given_up: self.gives_up,
        }
    }
}

/// A message that waits for its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InboxRow {
    /// Names it; the same row written twice is one row.
    pub id: String,
    /// The messages.
    pub messages: Vec<UserMessage>,
    /// Since when it waits.
    pub created_at: Timestamp,
}

impl InboxRow {
    /// A row.
    #[must_use]
    pub fn new(id: impl Into<String>, messages: Vec<UserMessage>, created_at: Timestamp) -> Self {
        Self {
            id: id.into(),
            messages,
            created_at,
        }
    }
}

/// A field of a session, to be set.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Field {
    /// Where it stands.
    Status(SessionStatus),
    /// The steps of the present turn.
    StepCount(u32),
    /// One step more.
    OneStepMore,
    /// One resume more.
    OneResumeMore,
    /// The output of the last turn.
    Output(Option<Value>),
    /// Why the last turn failed.
    Error(Option<ErrorRecord>),
    /// More about a failure.
    FailureReason(Option<String>),
    /// Why it was stopped.
    InterruptContext(Option<InterruptContext>),
    /// A child that is waited for; `None`: no more.
    AwaitedChild(CallId, Option<ChildWait>),
    /// The open step in which it paused.
    SuspendedStep(Option<StepId>),
    /// An answered call, and when. Roots only.
    CompletedCall(CallId, Timestamp),
    /// Which session made a pending call; `None`: it waits no more. Roots only.
    CallOwner(CallId, Option<SessionId>),
    /// The trace.
    Tracing(Option<TracingContext>),
    /// When it may be cleaned up.
    ExpiresAt(Option<Timestamp>),
    /// Set once; setting another is refused.
    Mode(SessionMode),
    /// Its owner.
    User(Option<UserId>),
    /// Its tags.
    Tags(Vec<String>),
    /// Metadata to set, or with `None` to remove.
    Metadata(BTreeMap<String, Option<String>>),
    /// Its workspace.
    Workspace(Option<WorkspaceRef>),
    /// Its stream.
    Stream(Option<StreamId>),
}

/// One change of one session.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// Makes the session.
    Create(Box<SessionState>),
    /// Puts these fields, state and pending calls in the place of its own. Its identity and family,
    /// counters of messages and versions, latest checkpoint, and what belongs to its runs stay; so do
    /// its pending calls, and which are answered, while a run goes on or is paused.
    Overwrite(Box<SessionState>),
    /// Removes it with everything that belongs to it.
    Delete,
    /// Cuts the history, rounded down to whole steps.
    Truncate(usize),
    /// Appends what a user said.
    AppendUser(UserMessage),
    /// Appends a step.
    AppendStep(PairedStep),
    /// Changes the state by operations.
    WriteState(StepWrites),
    /// Puts another state in its place.
    SetState(Arc<Value>),
    /// Goes back to an earlier version of the state; the version still grows.
    RewindState(u64),
    /// Sets a field.
    Set(Field),
    /// Raises the fence: earlier holders cannot write any more.
    RaiseFence,
    /// Takes, renews or gives up the lease; `None`: there is no run to hold it for.
    Lease(Option<LeaseRequest>),
    /// Counts a take-over of the latest run, unless its lease was given up. Comes before the new
    /// lease.
    TakeOver,
    /// Writes a run that becomes the latest. A request to stop the one before it is done with, unless
    /// that is paused and this one continues it. While a step is open, no other run can start.
    StartRun(Box<RunRecord>),
    /// Writes what became of a run.
    Run(Box<RunRecord>),
    /// Writes a checkpoint and points the session at it.
    Checkpoint(Checkpoint, CheckpointSource),
    /// The same, of the session as it is at this place in the commit: its counts are filled in.
    CheckpointHere(Checkpoint),
    /// Writes or removes the open step.
    OpenStep(Option<Arc<OpenStep>>),
    /// Writes what is known of the call at this place of the open step.
    OpenCall(u32, CallId, Box<OpenCall>),
    /// Notes that an effect is committed, of those that nothing goes on beside. With a failure: it
    /// was a model call, and failed.
    Effect(u32, Option<Box<ModelFailure>>),
    /// Notes that another attempt at an effect begins: earlier ones cannot write any more.
    Begin(Begun),
    /// Says where the run stands that goes on under a new fence: how many steps of its turn are in
    /// the history, and which is open.
    Adopt(u32, Option<OpenMark>),
    /// Writes a pending call.
    Pending(Box<PendingCall>),
    /// Answers a pending call.
    Answer(CallId, Box<Answer>),
    /// Removes a pending call.
    RemovePending(CallId),
    /// Writes a child.
    Child(Box<SubSessionRef>),
    /// Asks the latest run to stop. When it has ended, other than suspended, or is another, it has
    /// no effect.
    Stop(StopRequest),
    /// Withdraws the request.
    ClearStop,
    /// Adds a message that waits.
    Inbox(InboxRow),
    /// Takes messages that wait.
    DrainInbox(Vec<String>),
    /// Records usage.
    Usage(UsageEntry),
    /// Keeps a call's writes until its step is settled.
    Stage(StepId, CallId, StepWrites),
    /// Forgets the kept writes of a step, or of all steps but this one.
    Unstage(Unstage),
    /// Marks call ids as used that no message carries any more.
    RetireCallIds(Vec<CallId>),
}

/// Which kept writes are forgotten. Exhaustive, as [`Row`](super::Row) is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unstage {
    /// Those of this step.
    Step(StepId),
    /// Those of all steps but this one.
    AllBut(Option<StepId>),
}

/// One atomic write over sessions of one root.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "nothing is written before it is given to a store"]
pub struct Commit {
    /// The root; its stream takes the chunks.
    pub root: SessionId,
    /// When it is made.
    pub at: Timestamp,
    /// What must hold, before any change is made.
    pub preconditions: Vec<(SessionId, Precondition)>,
    /// What changes, in this order.
    pub changes: Vec<(SessionId, Change)>,
    /// What readers are told.
    pub chunks: Vec<Chunk>,
    /// What the root's stream is from then on.
    pub stream: Option<StreamStatus>,
}

impl Commit {
    /// A commit that does nothing yet.
    pub fn new(root: SessionId, at: Timestamp) -> Self {
        Self {
            root,
            at,
            preconditions: Vec::new(),
            changes: Vec::new(),
            chunks: Vec::new(),
            stream: None,
        }
    }

    /// Adds a precondition on the root.
    pub fn when(self, precondition: Precondition) -> Self {
        let session = self.root.clone();
        self.when_in(session, precondition)
    }

    /// Adds a precondition on a session.
    pub fn when_in(mut self, session: SessionId, precondition: Precondition) -> Self {
        self.preconditions.push((session, precondition));
        self
    }

    /// Adds a change of the root.
    pub fn then(self, change: Change) -> Self {
        let session = self.root.clone();
        self.then_in(session, change)
    }

    /// Adds a change of a session.
    pub fn then_in(mut self, session: SessionId, change: Change) -> Self {
        self.changes.push((session, change));
        self
    }

    /// Sets a field of the root.
    pub fn set(self, field: Field) -> Self {
        self.then(Change::Set(field))
    }

    /// Tells readers something.
    pub fn say(mut self, chunk: Chunk) -> Self {
        self.chunks.push(chunk);
        self
    }

    /// Says what the root's stream is from then on.
    pub fn stream(mut self, status: StreamStatus) -> Self {
        self.stream = Some(status);
        self
    }

    /// Makes its chunks small enough for the stream they are for: see [`StreamLimits::fit`].
    pub fn fitting(mut self, limits: StreamLimits) -> Self {
        self.chunks = limits.fit_all(std::mem::take(&mut self.chunks));
        self
    }

    /// Whether it writes to the root's stream.
    pub(super) fn speaks(&self) -> bool {
        !self.chunks.is_empty() || self.stream.is_some()
    }

    /// Whether it makes a session under the root.
    pub(super) fn has_births(&self) -> bool {
        let changes = self.changes.iter();
        let mut made = changes.filter(|(_, change)| matches!(change, Change::Create(_)));
        made.any(|(session, _)| *session != self.root)
    }

    /// The sessions that it makes under a parent, each with that.
    pub(super) fn births(&self) -> impl Iterator<Item = (&SessionId, &SessionId)> {
        let changes = self.changes.iter();
        changes.filter_map(|(session, change)| match change {
            Change::Create(made) => Some((session, made.parent_session_id.as_ref()?)),
            _ => None,
        })
    }

    /// Every session that is named, once, in the order of first mention; the root too when its
    /// stream is written to, or a session is made under it, and the parents of those.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionId> {
        let conditions = self.preconditions.iter().map(|(session, _)| session);
        let changes = self.changes.iter().map(|(session, _)| session);
        let root = (self.speaks() || self.has_births()).then_some(&self.root);
        let named = conditions.chain(changes).chain(root);
        let mut known = BTreeSet::new();
        let new = named.chain(self.births().map(|(_, parent)| parent));
        let new = new.filter(|session| known.insert(*session));
        new.cloned().collect()
    }
}

/// What a session is after a commit, and what waits for its run: the top of a step needs no read.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Committed {
    /// The session's version.
    pub version: u64,
    /// Its fence.
    pub fence: Fence,
    /// How many messages it has.
    pub message_count: usize,
    /// How often its history was cut.
    pub cuts: u32,
    /// The version of its state.
    pub state_version: u64,
    /// The request to stop its latest run.
    pub stop: Option<StopRequest>,
    /// Messages that wait.
    pub inbox: Vec<InboxRow>,
    /// Pending calls that are answered.
    pub answered: Vec<CallId>,
}

/// What a commit did.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Receipt {
    /// The sessions it named, as they are now; a deleted one is left out.
    pub sessions: BTreeMap<SessionId, Committed>,
    /// The sequence of the last chunk in the root's stream.
    pub sequence: Sequence,
}
