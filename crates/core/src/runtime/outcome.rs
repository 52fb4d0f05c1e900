//! How a run came out.

use crate::error::ErrorRecord;
use crate::id::{RunId, SessionId};
use crate::session::{PendingCall, RunStatus};

/// How a run came out.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome<Out> {
    /// The turn is completed. For an agent without an output schema this is its last text.
    Done(Out),
    /// Calls wait for somebody. Answer them and resume, now or tomorrow, here or elsewhere.
    Suspended(Pause),
    /// The turn failed.
    Failed(ErrorRecord),
    /// The run was stopped and can be resumed.
    Interrupted,
}

/// What a paused run waits for: plain data.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Pause {
    session_id: SessionId,
    run_id: RunId,
    status: RunStatus,
    pending: Vec<PendingCall>,
}

impl Pause {
    pub(super) fn new(
        session_id: SessionId,
        run_id: RunId,
        status: RunStatus,
        pending: Vec<PendingCall>,
    ) -> Self {
        Self {
            session_id,
            run_id,
            status,
            pending,
        }
    }

    /// The session to resume.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.session_id
    }

    /// The run that paused.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run_id
    }

    /// As what it paused.
    #[must_use]
    pub fn status(&self) -> RunStatus {
        self.status
    }

    /// The calls that wait, oldest first.
    #[must_use]
    pub fn pending(&self) -> &[PendingCall] {
        &self.pending
    }
}

impl<Out> Outcome<Out> {
    /// The output of a completed turn.
    #[must_use]
    pub fn done(self) -> Option<Out> {
        match self {
            Self::Done(output) => Some(output),
            _ => None,
        }
    }

    /// The pause, when there is one.
    #[must_use]
    pub fn suspended(self) -> Option<Pause> {
        match self {
            Self::Suspended(pause) => Some(pause),
            _ => None,
        }
    }
}
