//! What must hold for a commit to happen.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Fence, OpenMark};
use crate::id::{CallId, RunId, StepId};
use crate::session::{RunStatus, SessionStatus};

/// Where a pending call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStanding {
    /// It waits.
    Open,
    /// It is answered, and nobody has used the answer yet.
    Answered,
    /// There is no such entry.
    Absent,
}

/// What must hold for a commit to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Precondition {
    /// There is no such session.
    Absent,
    /// The session exists.
    Exists,
    /// The session has one of these statuses.
    Status(Vec<SessionStatus>),
    /// The session has that many messages.
    MessageCount(usize),
    /// The fence is this one: nobody took over.
    Fence(Fence),
    /// The session's latest run is this one; `None`: it has none.
    CurrentRun(Option<RunId>),
    /// The latest run is this one and has one of these statuses.
    Run(RunId, Vec<RunStatus>),
    /// There is a request to stop this run, or there is none.
    Stop(RunId, bool),
    /// A call stands like this.
    Call(CallId, CallStanding),
    /// Nobody's lease is valid when the commit is made, by the store's clock. That of whoever asks
    /// counts too: a process that lost sight of its run cannot tell that nothing of it goes on.
    LeaseFree,
    /// The session has this version.
    Version(u64),
    /// An effect was not committed yet, nor a later one of its run, and no later attempt at it has
    /// begun.
    Effect(EffectPlace),
    /// This step is open, and its calls stand like this; `None`: no step is open.
    Open(Option<OpenMark>),
    /// A call of the open step has no result, waits for nobody, and no later attempt at it has begun.
    OpenCall {
        /// The step.
        step: StepId,
        /// The place of the call in it.
        index: u32,
        /// Which attempt at it this is; 0 for one that noted nothing.
        attempt: u32,
    },
}

/// Which effect a commit belongs to, of those that nothing goes on beside.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EffectPlace {
    /// The run.
    pub run: RunId,
    /// The step, from 1 in each turn.
    pub step: u32,
    /// The number of the effect under its fence.
    pub n: u32,
    /// Which attempt at it this is; 0 for one that noted nothing.
    pub attempt: u32,
}

impl EffectPlace {
    /// An attempt at an effect.
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
            Self::Call(call, standing) => write!(f, "call {call} is {standing:?}"),
            Self::LeaseFree => f.write_str("nobody holds its lease"),
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
