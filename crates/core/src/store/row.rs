//! The rows that a commit writes beside headers.

use std::sync::Arc;

use serde_json::Value;

use crate::id::{CallId, CheckpointId, StepId};
use crate::message::Message;
use crate::session::{
    Answer, Checkpoint, OpenCall, OpenStep, PendingCall, RunRecord, SubSessionRef,
};
use crate::state::StepWrites;
use crate::store::{AnsweredCall, Unstage};
use crate::usage::UsageEntry;

/// One write of content, determined by [`super::plan`] and carried out by a backend in the order given.
///
/// A backend that can write these rows and a header atomically can be a store.
///
/// The enum is exhaustive on purpose. A store matches every kind by name and has no `_` arm: a kind
/// that is added later then does not compile in a store that cannot write it, instead of being
/// dropped at run time. The same holds for [`Unstage`] and for the questions that a store answers,
/// [`Lookup`](super::Lookup) and [`ParentFilter`](super::ParentFilter).
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// Removes every row of the session, its stream included when it is a root.
    DeleteAll,
    /// Appends messages that belong together, the first at this position.
    Messages {
        /// The position of the first message.
        at: usize,
        /// One user message, or all messages of a step.
        messages: Vec<Message>,
    },
    /// Removes the messages from this position on. Their call ids stay used.
    TruncateMessages {
        /// The number of messages that stay.
        keep: usize,
    },
    /// Creates the next version of the state by applying these writes to the current one.
    StateWrites {
        /// The version that the writes create.
        version: u64,
        /// The writes to apply.
        writes: StepWrites,
    },
    /// Creates the next version of the state with this value.
    StateSet {
        /// The version that is created.
        version: u64,
        /// The value of the state.
        value: Arc<Value>,
    },
    /// Creates the next version of the state as a copy of an earlier one.
    StateRewind {
        /// The version that is created.
        version: u64,
        /// The earlier version that it equals.
        to: u64,
    },
    /// Writes a run under its id: a new one, or one that is replaced whole and keeps its place in the
    /// list. It need not be the latest run of the session.
    Run(Box<RunRecord>),
    /// Writes a checkpoint, which is now the most recently written one.
    Checkpoint(Checkpoint),
    /// Removes every checkpoint that was written after the one of this id; `None` removes all of the session.
    DropCheckpoints {
        /// The checkpoint that is the most recently written one from now on.
        after: Option<CheckpointId>,
    },
    /// Writes the open step, or removes it.
    OpenStep(Option<Arc<OpenStep>>),
    /// Writes one call of the open step. Its place in [`OpenStep::calls`] is that of the call with this id
    /// among the tool calls of the step's message, which [`OpenStep::set_call`] finds. The other calls stay
    /// as they are.
    OpenCall(CallId, Box<OpenCall>),
    /// Writes a pending call.
    Pending(Box<PendingCall>),
    /// Adds the answer to a pending call.
    Answer(CallId, Box<Answer>),
    /// Removes a pending call.
    RemovePending(CallId),
    /// Records that a call was answered, when and how, under its id. It takes the place of an earlier
    /// record if it [replaces](AnsweredCall::replaces) that one; else the earlier one stays. The record
    /// stays as long as the session, unless the call is rewound.
    Answered(AnsweredCall),
    /// Removes the records that these calls were answered.
    ForgetAnswered(Vec<CallId>),
    /// Writes a child reference under its session id.
    Child(Box<SubSessionRef>),
    /// Replaces the child reference with its session id, if there is one. It keeps its place in the list.
    UpdateChild(Box<SubSessionRef>),
    /// Removes the references to the children of these calls.
    Unlink(Vec<CallId>),
    /// Appends a usage entry.
    Usage(UsageEntry),
    /// Stages the writes of a call of a step, or replaces those that the call has staged. A call keeps the
    /// place in its step at which it was first staged.
    Stage(StepId, CallId, StepWrites),
    /// Discards staged writes.
    Unstage(Unstage),
    /// Marks call ids as used.
    RetireCallIds(Vec<CallId>),
}
