//! The conditions under which a commit is made.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Fence, OpenStepMark};
use crate::id::{CallId, RunId, SessionId, StepId};
use crate::session::{RunStatus, SessionStatus};

/// The status of a pending call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PendingStatus {
    /// The call waits for an answer.
    Open,
    /// The call is answered, and no run has used the answer yet.
    Answered,
    /// No pending call has this id.
    Absent,
}

/// A condition that must hold for a commit to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Precondition {
    /// The session does not exist.
    Absent,
    /// The session exists.
    Exists,
    /// The session has one of these statuses.
    Status(Vec<SessionStatus>),
    /// The session has this number of messages.
    MessageCount(usize),
    /// The session has this fence: the run was not taken over.
    Fence(Fence),
    /// The session's latest run is this one; `None` if it must have none.
    CurrentRun(Option<RunId>),
    /// The latest run is this one and has one of these statuses.
    Run(RunId, Vec<RunStatus>),
    /// Whether this run has a stop request must equal the flag.
    Stop(RunId, bool),
    /// This run has no request to abort it: it may end as interrupted.
    NotAborted(RunId),
    /// The pending call has this status.
    Call(CallId, PendingStatus),
    /// No other session than this one has a pending call of this id. Roots only.
    CallFree(CallId, SessionId),
    /// The budget of the tree admits so many more tool calls. Roots only.
    ToolCallsFit(u64),
    /// No lease is valid when the commit is made, by the store's clock. The caller's own lease counts
    /// too: a process that lost track of its run cannot rule out that it is still running here.
    LeaseFree,
    /// This many rows of messages wait for the next run.
    Inbox(usize),
    /// The session has this version.
    Version(u64),
    /// Neither this effect nor a later one of its run is committed, and no later attempt
    /// at it has begun.
    Effect(EffectPosition),
    /// This step is open with its calls in these states; `None` if no step may be open.
    Open(Option<OpenStepMark>),
    /// A call of the open step has no result and is not pending, and no later attempt at it has begun.
    OpenCall {
        /// The id of the open step.
        step: StepId,
        /// The index of the call in the step.
        index: u32,
        /// The number of the attempt; 0 for one that was not recorded.
        attempt: u32,
    },
}

/// The exclusive effect to which a commit belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EffectPosition {
    /// The id of the run.
    pub run: RunId,
    /// The number of the step in its turn, from 1.
    pub step: u32,
    /// The number of the effect under its fence.
    pub n: u32,
    /// The number of the attempt; 0 for one that was not recorded.
    pub attempt: u32,
}

impl EffectPosition {
    /// Creates the position of an attempt at an effect.
    #[must_use]
    pub fn new(run: RunId, step: u32, n: u32, attempt: u32) -> Self {
        Self {
            run,
            step,
            n,
            attempt,
        }
    }
}

impl fmt::Display for Precondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("the session does not exist"),
            Self::Exists => f.write_str("the session exists"),
            Self::Status(any) => write!(f, "its status is one of {any:?}"),
            Self::MessageCount(count) => write!(f, "it has {count} messages"),
            Self::Fence(fence) => write!(f, "its fence is {}", fence.0),
            Self::CurrentRun(Some(run)) => write!(f, "its latest run is {run}"),
            Self::CurrentRun(None) => f.write_str("it has no run"),
            Self::Run(run, any) => write!(f, "run {run} is its latest and one of {any:?}"),
            Self::Stop(run, true) => write!(f, "run {run} is asked to stop"),
            Self::Stop(run, false) => write!(f, "run {run} is not asked to stop"),
            Self::NotAborted(run) => write!(f, "run {run} is not asked to fail"),
            Self::Call(call, standing) => write!(f, "call {call} is {standing:?}"),
            Self::CallFree(call, session) => {
                write!(f, "no session but {session} has a pending call {call}")
            }
            Self::ToolCallsFit(calls) => {
                write!(f, "the budget of its tree admits {calls} more tool calls")
            }
            Self::LeaseFree => f.write_str("no process holds its lease"),
            Self::Inbox(count) => write!(f, "{count} rows of messages wait in it"),
            Self::Version(version) => write!(f, "its version is {version}"),
            Self::Effect(effect) => write!(
                f,
                "effect {} of step {} of run {} is still to be committed",
                effect.n, effect.step, effect.run
            ),
            Self::Open(Some(open)) => write!(f, "its open step {} is {}", open.id, open.calls),
            Self::Open(None) => f.write_str("it has no open step"),
            Self::OpenCall { step, index, .. } => {
                write!(f, "call {index} of step {step} has no result")
            }
        }
    }
}
