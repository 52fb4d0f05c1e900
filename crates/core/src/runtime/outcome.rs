//! How a run came out.

use crate::error::{Coded, Error, ErrorCode};
use crate::id::{RunId, SessionId};
use crate::session::{PendingCall, RunStatus, WaitingCall};

/// How a run came out.
///
/// ```
/// use helix_agents::prelude::*;
///
/// async fn report(run: &Handle<String>) -> Result<(), Error> {
///     match run.outcome().await? {
///         Outcome::Done(answer) => println!("{answer}"),
///         Outcome::Suspended(pause) => println!("{} calls wait", pause.pending().len()),
///         Outcome::Interrupted => println!("interrupted"),
///         Outcome::Failed(error) => return Err(error),
///     }
///     Ok(())
/// }
/// ```
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

/// The calls that a paused run waits for, as plain data.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::Pause;
///
/// async fn approve_all(runtime: &dyn Runtime, agent: &Agent, pause: &Pause) -> Result<(), Error> {
///     for call in pause.pending() {
///         runtime.submit(call.approve()).await?;
///     }
///     runtime.resume(agent, pause.session()).await?;
///     Ok(())
/// }
/// ```
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
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::NoOutput;
///
/// async fn ask(run: &Handle<String>) -> Result<Option<String>, Error> {
///     match run.output().await {
///         Err(error) if error.downcast_ref::<NoOutput>().is_some() => Ok(None),
///         output => output.map(Some),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoOutput {
    /// Calls wait for somebody.
    #[error(
        "run {run} of session {session} waits for answers to {}; submit them and resume the session",
        WaitingCall::list(.calls)
    )]
    Suspended {
        /// The session.
        session: SessionId,
        /// The run.
        run: RunId,
        /// The calls that wait.
        calls: Vec<WaitingCall>,
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
