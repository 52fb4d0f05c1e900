//! The rows that a commit writes beside headers.

use std::sync::Arc;

use serde_json::Value;

use crate::id::{CallId, StepId};
use crate::message::Message;
use crate::session::{
    Answer, Checkpoint, OpenCall, OpenStep, PendingCall, RunRecord, SubSessionRef,
};
use crate::state::StepWrites;
use crate::store::Unstage;
use crate::time::Timestamp;
use crate::usage::UsageEntry;

/// One write of content, decided by [`super::plan`] and carried out by a backend in the order given.
///
/// A backend that can put these rows and a header into one atomic write is a store.
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
        /// The position of the first.
        at: usize,
        /// One user message, or a whole step.
        messages: Vec<Message>,
    },
    /// Removes the messages from this position on. Their call ids stay used.
    TruncateMessages {
        /// How many stay.
        keep: usize,
    },
    /// The state's next version comes from the one before by these writes.
    StateWrites {
        /// The version that they make.
        version: u64,
        /// The writes.
        writes: StepWrites,
    },
    /// The state's next version is this value.
    StateSet {
        /// The version.
        version: u64,
        /// The value.
        value: Arc<Value>,
    },
    /// The state's next version is an earlier one again.
    StateRewind {
        /// The version that it makes.
        version: u64,
        /// The version that it equals.
        to: u64,
    },
    /// Writes a run under its id.
    Run(Box<RunRecord>),
    /// Writes a checkpoint. It is now the one that was written last.
    Checkpoint(Checkpoint),
    /// Writes the open step, or removes it.
    OpenStep(Option<Arc<OpenStep>>),
    /// Writes one call of the open step.
    OpenCall(CallId, Box<OpenCall>),
    /// Writes a pending call.
    Pending(Box<PendingCall>),
    /// Adds the answer to a pending call.
    Answer(CallId, Box<Answer>),
    /// Removes a pending call.
    RemovePending(CallId),
    /// Notes that a call was answered, and when, under its id. It stays noted as long as the session.
    Answered(CallId, Timestamp),
    /// Writes a child under its session id.
    Child(Box<SubSessionRef>),
    /// Appends usage.
    Usage(UsageEntry),
    /// Keeps a call's writes.
    Stage(StepId, CallId, StepWrites),
    /// Forgets kept writes.
    Unstage(Unstage),
    /// Marks call ids as used.
    RetireCallIds(Vec<CallId>),
}
