//! How a run came out.

use crate::error::{Coded, Error, ErrorCode};
use crate::id::{RunId, SessionId};
use crate::session::{PendingCall, RunStatus};

/// How a run came out.
#[derive(Debug, PartialEq)]
pub enum Outcome<Out> {
    /// The turn is completed. For an agent without an output schema this is its last text.
    Done(Out),
    /// Calls wait for somebody. Answer them and resume, now or tomorrow, here or elsewhere.
    Suspended(Pause),
    /// The turn failed.
    Failed(Error),
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

    /// The status of the run.
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

/// Why a run that has ended has no output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoOutput {
    /// Calls wait for somebody.
    #[error(
        "run {run} of session {session} waits for answers to {}; submit them and resume the session",
        .calls.join(", ")
    )]
    Suspended {
        /// The session.
        session: SessionId,
        /// The run.
        run: RunId,
        /// The calls that wait: tool and id.
        calls: Vec<String>,
    },
    /// The run was stopped.
    #[error("run {run} of session {session} was interrupted; resume the session to continue it")]
    Interrupted {
        /// The session.
        session: SessionId,
        /// The run.
        run: RunId,
    },
}

impl Coded for NoOutput {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Suspended { .. } => ErrorCode::SessionAwaitingAnswers,
            Self::Interrupted { .. } => ErrorCode::FrameworkCancelled,
        }
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
