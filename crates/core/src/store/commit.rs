//! The one write of a store: its preconditions and its changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AnsweredCall, ModelFailure, OpenStepMark, PerSession, Precondition, RepeatedAttempt};
use crate::budget::{BudgetChange, BudgetLedger};
use crate::error::ErrorRecord;
use crate::id::{CallId, MessageId, RunId, SessionId, StepId, StreamId, UserId};
use crate::message::UserMessage;
use crate::session::{
    Answer, Checkpoint, CheckpointSource, ChildWait, InterruptContext, OpenCall, OpenStep,
    PendingCall, RunRecord, SessionMode, SessionState, SessionStatus, StopRequest, SubSessionRef,
    TracingContext, WorkspaceRef,
};
use crate::shared_str::SharedStr;
use crate::state::StepWrites;
use crate::stream::{Chunk, Sequence, StreamLimits, StreamRewind, StreamStatus};
use crate::time::Timestamp;
use crate::transcript::PairedStep;
use crate::usage::UsageEntry;

/// A number that every run start and every take-over raises. Commits of a run carry it, so a
/// superseded run cannot write. A session created under the id of a deleted one begins above the
/// fence of that one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Fence(pub u64);

/// The claim of one process to perform a session's run, and until when it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Lease {
    /// The process that holds the lease.
    pub holder: SharedStr,
    /// When the lease lapses, by the clock with which the store judges leases.
    pub until: Timestamp,
    /// Whether the holder handed the run over in good order; a take-over is no sign of trouble then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
}

impl Lease {
    /// Creates a lease that is not given up.
    #[must_use]
    #[doc(hidden)]
    pub fn new(holder: impl Into<SharedStr>, until: Timestamp) -> Self {
        Self {
            holder: holder.into(),
            until,
            given_up: false,
        }
    }

    /// Whether the lease excludes other processes at this instant.
    #[must_use]
    pub(crate) fn is_valid(&self, now: Timestamp) -> bool {
        self.until > now && !self.given_up
    }
}

/// A request for a lease, by its duration. The store decides when it begins, by the one clock that
/// judges all holders; no process writes an instant of its own clock by which others are judged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseRequest {
    /// The process that requests the lease.
    pub holder: SharedStr,
    /// How long the lease lasts from the commit on.
    pub lasts: Duration,
    /// Whether the process gives the lease up and leaves the run to other processes, in good order.
    pub gives_up: bool,
}

impl LeaseRequest {
    /// Requests a lease or its renewal.
    #[must_use]
    pub fn new(holder: impl Into<SharedStr>, lasts: Duration) -> Self {
        Self {
            holder: holder.into(),
            lasts,
            gives_up: false,
        }
    }

    /// Gives a lease up: the run is due for another process at once, and its take-over is not counted.
    #[must_use]
    pub fn given_up(holder: impl Into<SharedStr>) -> Self {
        Self {
            gives_up: true,
            ..Self::new(holder, Duration::ZERO)
        }
    }

    /// Returns the lease that a store writes at this instant of its clock.
    #[must_use]
    pub(crate) fn at(self, now: Timestamp) -> Lease {
        Lease {
            holder: self.holder,
            until: now.saturating_add(self.lasts),
            given_up: self.gives_up,
        }
    }
}

/// A message that waits for the next run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InboxRow {
    /// The id of the row; writing a row with the same id again has no effect.
    pub id: String,
    /// The messages, in the order in which they were sent.
    pub messages: Vec<UserMessage>,
    /// The instant since which the row has been waiting.
    pub created_at: Timestamp,
    /// The id of a run. The run that takes all waiting rows has the id that the first of them names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The run whose turn is removed from the history before the messages enter it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<RunId>,
    /// The user message whose turn is removed from the history, with all that followed, before the messages enter it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edits: Option<MessageId>,
    /// The call of the parent session that sent the messages, in the session of a persistent sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_call: Option<CallId>,
}

impl InboxRow {
    /// Creates a row of waiting messages.
    #[must_use]
    pub fn new(id: impl Into<String>, messages: Vec<UserMessage>, created_at: Timestamp) -> Self {
        Self {
            id: id.into(),
            messages,
            created_at,
            run_id: None,
            replaces: None,
            edits: None,
            parent_call: None,
        }
    }
}

/// A field of a session and its new value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Field {
    /// The status of the session.
    Status(SessionStatus),
    /// The number of steps in the current turn.
    StepCount(u32),
    /// Increments the step count by one.
    OneStepMore,
    /// Increments the resume count by one.
    OneResumeMore,
    /// The output of the last turn.
    Output(Option<Value>),
    /// The error with which the last turn failed.
    Error(Option<ErrorRecord>),
    /// Details about a failure.
    FailureReason(Option<String>),
    /// Why and how the session was stopped.
    InterruptContext(Option<InterruptContext>),
    /// A child session that a call waits for; `None` when it waits no longer.
    AwaitedChild(CallId, Option<ChildWait>),
    /// A child session that no call waits for any longer, because its run has ended.
    EndedChild(SessionId),
    /// The open step in which the run suspended.
    SuspendedStep(Option<StepId>),
    /// An answered call, when and how it was answered. Roots only.
    CompletedCall(AnsweredCall),
    /// The session that made a pending call; `None` when the call is no longer pending. Roots only.
    CallOwner(CallId, Option<SessionId>),
    /// A pending call that this session has no longer. Another session that has a call of the same id keeps it. Roots
    /// only.
    DisownedCall(CallId, SessionId),
    /// The trace to which the session belongs.
    Tracing(Option<TracingContext>),
    /// When the session may be cleaned up.
    ExpiresAt(Option<Timestamp>),
    /// The session mode. It is set once; a different second value is refused.
    Mode(SessionMode),
    /// The user who owns the session.
    User(Option<UserId>),
    /// All tags of the session.
    Tags(Vec<String>),
    /// Metadata entries to set; `None` removes a key.
    Metadata(BTreeMap<String, Option<String>>),
    /// The workspace of the session.
    Workspace(Option<WorkspaceRef>),
    /// The stream of the session.
    Stream(Option<StreamId>),
}

/// One change to one session.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// Creates the session.
    Create(Box<SessionState>),
    /// Replaces the session's fields, state and pending calls. Its identity, parent and root,
    /// message count, versions, latest checkpoint, and everything that belongs to its runs stay; so
    /// do its pending calls, and which are answered, while a run is running or suspended.
    Overwrite(Box<SessionState>),
    /// Deletes the session with everything that belongs to it.
    Delete,
    /// Truncates the history to this many messages, rounded down to whole steps.
    Truncate(usize),
    /// Appends a user message.
    AppendUser(UserMessage),
    /// Appends a step: the model's message and the results of its calls.
    AppendStep(PairedStep),
    /// Applies operations to the state.
    WriteState(StepWrites),
    /// Replaces the whole state.
    SetState(Arc<Value>),
    /// Restores an earlier version of the state; the version number still grows.
    RewindState(u64),
    /// Sets one field.
    Set(Field),
    /// Raises the fence: earlier holders can no longer write.
    RaiseFence,
    /// Takes, renews or gives up the lease; `None` removes it because no run is running.
    Lease(Option<LeaseRequest>),
    /// Counts a take-over of the latest run, unless its lease was given up. Must precede the new
    /// lease in the commit.
    TakeOver,
    /// Writes a run that becomes the latest. It drops the stop request of the run before it, unless
    /// that run is suspended and this one continues it. While a step is open, only a continuation
    /// of its run can start. The [start of its turn](RunRecord::turn_start) is filled in if the run
    /// begins one.
    StartRun(Box<RunRecord>),
    /// Updates the record of a run.
    Run(Box<RunRecord>),
    /// Writes a checkpoint and makes it the session's latest.
    Checkpoint(Checkpoint, CheckpointSource),
    /// Drops every checkpoint that was written after this one, which becomes the session's latest; `None` drops
    /// all. A dropped checkpoint is not found any more.
    DropCheckpointsAfter(Option<Box<Checkpoint>>),
    /// Writes a checkpoint of the session as it is at this point of the commit: its
    /// counts are filled in.
    CheckpointHere(Checkpoint),
    /// Writes or removes the open step.
    OpenStep(Option<Arc<OpenStep>>),
    /// Writes the state of the call at this index of the open step.
    OpenCall(u32, CallId, Box<OpenCall>),
    /// Records the commit of an exclusive effect, one that nothing else runs beside. A failure
    /// means that it was a model call, and that it failed.
    Effect(u32, Option<Box<ModelFailure>>),
    /// Records that another attempt at an effect begins: earlier attempts can no longer write.
    Begin(RepeatedAttempt),
    /// Records the position of a run that continues under a new fence: the number of steps of its
    /// turn in the history, and the open step.
    Adopt(u32, Option<OpenStepMark>),
    /// Adds a pending call.
    Pending(Box<PendingCall>),
    /// Records the answer to a pending call.
    Answer(CallId, Box<Answer>),
    /// Removes a pending call.
    RemovePending(CallId),
    /// Tells the model something beside its steps. The message is appended at once if the session is at
    /// rest. While a run is running or suspended it is kept, and appended after the next step, or when the
    /// run ends: it never stands between a call and its result. A cut of the history discards those kept.
    Notice(UserMessage),
    /// Adds or updates the reference to a child session.
    Child(Box<SubSessionRef>),
    /// Updates the reference to a child session, if there is one. One whose call was rewound is not linked again.
    UpdateChild(Box<SubSessionRef>),
    /// Requests that the latest run stop. Has no effect if that run has ended other than suspended,
    /// or if the latest run is a different one.
    Stop(StopRequest),
    /// Withdraws the stop request.
    ClearStop,
    /// Adds a message that waits for the next run.
    Inbox(InboxRow),
    /// Removes waiting messages by their ids, when a run takes them.
    DrainInbox(Vec<String>),
    /// Records a usage entry.
    Usage(UsageEntry),
    /// Stages the writes of a call until its step is settled.
    Stage(StepId, CallId, StepWrites),
    /// Discards the staged writes of a step, or of all steps but one.
    Unstage(Unstage),
    /// Marks call ids as used that no message carries any more.
    RetireCallIds(Vec<CallId>),
    /// Forgets that these calls were answered, because their steps were rewound. Roots only.
    ForgetAnswered(Vec<CallId>),
    /// Removes the references to the children of these calls, because their steps were rewound. The sessions of the
    /// children stay.
    Unlink(Vec<CallId>),
    /// Changes what a session under the root has used or reserved. Roots only.
    Budget(Box<BudgetChange>),
}

/// Selects the staged writes to discard. Exhaustive, as [`Row`](super::Row) is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unstage {
    /// The staged writes of this step.
    Step(StepId),
    /// The staged writes of all steps but this one. `None` keeps no step: all staged writes of the
    /// session are discarded.
    AllBut(Option<StepId>),
}

/// One atomic write to sessions of one root.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "nothing is written before it is given to a store"]
pub struct Commit {
    /// The root session; its stream receives the chunks.
    pub root: SessionId,
    /// When the commit is made, by the clock of the process that makes it.
    pub at: Timestamp,
    /// The conditions that must hold before any change is made, each with its session.
    pub preconditions: Vec<(SessionId, Precondition)>,
    /// The changes to make, in this order, each with its session.
    pub changes: Vec<(SessionId, Change)>,
    /// The chunks to append to the root's stream.
    pub chunks: Vec<Chunk>,
    /// The new status of the root's stream; `None` leaves it as it is.
    pub stream: Option<StreamStatus>,
    /// The chunks to remove from the root's stream, before those of this commit are appended.
    pub rewind: Option<StreamRewind>,
}

impl Commit {
    /// Returns the sessions that this commit asks to stop or deletes. After it is made, a store wakes those
    /// who wait for them in [`WatchStops::stopped`](super::WatchStops::stopped); no other commit concerns them.
    pub fn stopped_sessions(&self) -> impl Iterator<Item = &SessionId> {
        let changes = self.changes.iter();
        let news = changes.filter(|(_, change)| matches!(change, Change::Stop(_) | Change::Delete));
        news.map(|(session, _)| session)
    }

    /// Creates a commit without preconditions and changes.
    pub fn new(root: SessionId, at: Timestamp) -> Self {
        Self {
            root,
            at,
            preconditions: Vec::new(),
            changes: Vec::new(),
            chunks: Vec::new(),
            stream: None,
            rewind: None,
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

    /// Adds a change to the root.
    pub fn then(self, change: Change) -> Self {
        let session = self.root.clone();
        self.then_in(session, change)
    }

    /// Adds a change to a session.
    pub fn then_in(mut self, session: SessionId, change: Change) -> Self {
        self.changes.push((session, change));
        self
    }

    /// Sets a field of the root.
    #[doc(hidden)]
    pub fn set(self, field: Field) -> Self {
        self.then(Change::Set(field))
    }

    /// Adds the conditions, changes and chunks of another commit of the same root.
    pub(crate) fn and(mut self, other: Self) -> Self {
        debug_assert_eq!(self.root, other.root, "a commit is about one root");
        self.preconditions.extend(other.preconditions);
        self.changes.extend(other.changes);
        self.chunks.extend(other.chunks);
        self.stream = other.stream.or(self.stream);
        self
    }

    /// Adds a chunk for the readers of the stream.
    pub fn say(mut self, chunk: Chunk) -> Self {
        self.chunks.push(chunk);
        self
    }

    /// Sets the new status of the root's stream.
    pub fn stream(mut self, status: StreamStatus) -> Self {
        self.stream = Some(status);
        self
    }

    /// Removes chunks from the end of the root's stream.
    pub fn rewind_stream(mut self, rewind: StreamRewind) -> Self {
        self.rewind = Some(rewind);
        self
    }

    /// Shrinks its chunks to the limits of the stream: see [`StreamLimits::fit`].
    #[doc(hidden)]
    pub fn fitting(mut self, limits: StreamLimits) -> Self {
        self.chunks = limits.fit_all(std::mem::take(&mut self.chunks));
        self
    }

    /// Whether the commit writes to the root's stream.
    pub(super) fn writes_stream(&self) -> bool {
        !self.chunks.is_empty() || self.stream.is_some() || self.rewind.is_some()
    }

    /// Whether the commit creates a session under the root.
    pub(super) fn creates_children(&self) -> bool {
        let changes = self.changes.iter();
        let mut made = changes.filter(|(_, change)| matches!(change, Change::Create(_)));
        made.any(|(session, _)| *session != self.root)
    }

    /// The sessions that the commit creates under a parent, each with its parent.
    pub(super) fn new_children(&self) -> impl Iterator<Item = (&SessionId, &SessionId)> {
        let changes = self.changes.iter();
        changes.filter_map(|(session, change)| match change {
            Change::Create(made) => Some((session, made.parent_session_id.as_ref()?)),
            _ => None,
        })
    }

    /// Iterates over the same sessions as [`Commit::sessions`], each as often as it is named.
    pub(crate) fn named(&self) -> impl Iterator<Item = &SessionId> {
        let conditions = self.preconditions.iter().map(|(session, _)| session);
        let changes = self.changes.iter().map(|(session, _)| session);
        let root = (self.writes_stream() || self.creates_children()).then_some(&self.root);
        let parents = self.new_children().map(|(_, parent)| parent);
        conditions.chain(changes).chain(root).chain(parents)
    }

    /// Returns every session that the commit names, once, in the order of first mention; also
    /// the root if the commit writes to its stream or creates a session under it, and the
    /// parents of new sessions.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionId> {
        let mut all: Vec<SessionId> = Vec::new();
        // Most commits name one session; a set is worth it for those that name many.
        let mut known = BTreeSet::new();
        for session in self.named() {
            let is_new = if all.len() < FEW_SESSIONS {
                !all.contains(session)
            } else {
                if known.is_empty() {
                    known.extend(all.iter().cloned());
                }
                known.insert(session.clone())
            };
            if is_new {
                all.push(session.clone());
            }
        }
        all
    }
}

/// The number of sessions up to which a list is searched instead of a set.
const FEW_SESSIONS: usize = 8;

/// A session's counters after a commit, and what waits for its run, so that the next
/// step needs no read.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct SessionReceipt {
    /// The version of the session.
    pub version: u64,
    /// The fence of the session.
    pub fence: Fence,
    /// The number of messages in the history.
    pub message_count: usize,
    /// How many times the history was truncated.
    pub cuts: u32,
    /// The version of the state.
    pub state_version: u64,
    /// The request to stop the latest run.
    pub stop: Option<StopRequest>,
    /// Messages that wait for the next run.
    pub inbox: Vec<InboxRow>,
    /// Pending calls that are answered.
    pub answered: Vec<CallId>,
    /// What the sessions of its tree have used and reserved, for a root with limits.
    pub budget: Option<Arc<BudgetLedger>>,
}

/// The result of a commit.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Receipt {
    /// The sessions that the commit named, as they are now; a deleted one is left out.
    pub sessions: PerSession<SessionReceipt>,
    /// The sequence of the last chunk in the root's stream.
    pub sequence: Sequence,
}
