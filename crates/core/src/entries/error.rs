//! The errors of the entries. Nothing is written when one is returned.

use crate::bounds::Exceeded;
use crate::budget::BudgetRefusal;
use crate::error::{Coded, Error, ErrorCode};
use crate::id::{CheckpointId, IdError, RunId, SessionId};
use crate::session::{SubmissionError, WaitingCall};
use crate::state::StateError;
use crate::store::StoreError;
use crate::stream::StreamError;

/// Why a run did not start or continue, or an answer was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// A run of the session is running.
    #[error("run {run} of session {session} is still running; wait for its end, or stop it")]
    AlreadyRunning {
        /// The id of the session.
        session: SessionId,
        /// The run that is running.
        run: RunId,
    },
    /// Calls wait for an answer.
    #[error("session {session} waits for answers to {}; submit them first", WaitingCall::list(.calls))]
    AwaitingAnswers {
        /// The id of the session.
        session: SessionId,
        /// The calls that wait for an answer.
        calls: Vec<WaitingCall>,
    },
    /// The last turn is completed.
    #[error("the last turn of session {session} is completed; send a new message to continue it")]
    AlreadyCompleted {
        /// The id of the session.
        session: SessionId,
    },
    /// The session is not in a state for this operation.
    #[error("session {session} cannot continue: {why}")]
    Stale {
        /// The id of the session.
        session: SessionId,
        /// Why not, and what to do instead.
        why: &'static str,
    },
    /// Another run of the session was started, or another message sent, since the caller has read it.
    #[error("session {session} has changed since it was read; read it again")]
    Changed {
        /// The id of the session.
        session: SessionId,
    },
    /// The session has no such checkpoint: it belongs to another session, or it was rewound.
    #[error(
        "session {session} has no checkpoint {checkpoint}; choose one of its own that was not rewound"
    )]
    UnknownCheckpoint {
        /// The id of the session.
        session: SessionId,
        /// The checkpoint that was requested.
        checkpoint: CheckpointId,
    },
    /// The session to branch has no such message.
    #[error("session {session} has no message {index}; choose a lower one")]
    UnknownMessage {
        /// The id of the session.
        session: SessionId,
        /// The index that was requested.
        index: usize,
    },
    /// There is no run to take over.
    #[error("session {session} has no run in progress; there is nothing to recover")]
    NotRunning {
        /// The id of the session.
        session: SessionId,
    },
    /// Another process performs the run.
    #[error(
        "run {run} of session {session} is performed by {holder}; wait for its end, or interrupt it"
    )]
    StillHeld {
        /// The id of the session.
        session: SessionId,
        /// The run that is held.
        run: RunId,
        /// The process that holds the lease.
        holder: String,
    },
    /// Another kind of host performs the run, and only that kind knows whether it still does.
    #[error(
        "run {run} of session {session} is performed by a host of the kind {has}, not {asked}; let \
         that host continue it, or stop it"
    )]
    OtherHost {
        /// The id of the session.
        session: SessionId,
        /// The id of the run.
        run: RunId,
        /// The kind of host that performs it.
        has: String,
        /// The kind of host that wanted it.
        asked: String,
    },
    /// The session belongs to another agent.
    #[error(
        "session {session} belongs to agent {has}, not to {asked}; use that one, or another session"
    )]
    OtherAgent {
        /// The id of the session.
        session: SessionId,
        /// The agent of the session.
        has: String,
        /// The agent that was requested.
        asked: String,
    },
    /// The request has no message.
    #[error("the request has no message; give at least one")]
    NoMessage,
    /// The request has no session id, or the initial state of its agent is not known.
    #[error(
        "the request for agent {agent} has no {lacks}; complete it with `ExecuteRequest::complete`"
    )]
    Incomplete {
        /// The name of the agent.
        agent: String,
        /// The missing part.
        lacks: &'static str,
    },
    /// The session was started with the same messages by the same user.
    #[error("session {session} was already started with this message; read its run {run}")]
    AlreadyStarted {
        /// The id of the session.
        session: SessionId,
        /// The root of the session.
        root: SessionId,
        /// The first run of the session.
        run: RunId,
    },
    /// A session that was to be new exists, and its last turn has ended.
    #[error(
        "session {session} was started with another message and its last turn has ended; send the message \
         as its next turn (over HTTP: /resume with mode \"with_message\"), or choose another id"
    )]
    StartedOtherwise {
        /// The id of the session.
        session: SessionId,
    },
    /// No message waits for a run.
    #[error("no message waits in session {session}; there is nothing to deliver")]
    NothingWaits {
        /// The id of the session.
        session: SessionId,
    },
    /// Too many messages wait for the end of the run.
    #[error(
        "{waiting} messages wait in session {session} and there is no room for another; send it when the run \
         has ended"
    )]
    InboxFull {
        /// The id of the session.
        session: SessionId,
        /// The number of requests whose messages wait.
        waiting: usize,
    },
    /// The request sets keys of the state while a run is in progress.
    #[error(
        "run {run} of session {session} is still running, and only it may change the state; send the message \
         without state, or wait for the end of the run"
    )]
    StateWhileRunning {
        /// The id of the session.
        session: SessionId,
        /// The run that is running.
        run: RunId,
    },
    /// The request sets a budget while a run is in progress.
    #[error(
        "run {run} of session {session} is still running under the budgets it started with; send the message \
         without a budget, or wait for the end of the run"
    )]
    BudgetWhileRunning {
        /// The id of the session.
        session: SessionId,
        /// The run that is running.
        run: RunId,
    },
    /// A budget has paused the session, and the entry leaves it as it is.
    #[error(
        "the budget of session {session} is used up: the next call needs {} {} in all, and the limit of its \
         {} is {}; resume it with a higher limit",
        .refused.needed, .refused.unit, .refused.scope, .refused.limit
    )]
    BudgetExhausted {
        /// The id of the session.
        session: SessionId,
        /// The limit that leaves no room.
        refused: Box<BudgetRefusal>,
    },
    /// The answer does not fit the pending call.
    #[error(transparent)]
    Answer(#[from] SubmissionError),
    /// An argument exceeds its limit.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
    /// The given state is not valid.
    #[error("the initial state cannot be used")]
    State(#[from] StateError),
    /// An id could not be generated.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stream could not be read.
    #[error(transparent)]
    Stream(#[from] StreamError),
}

impl EntryError {
    /// The session and the run it is about.
    pub(crate) fn about(&self) -> (Option<&SessionId>, Option<&RunId>) {
        match self {
            Self::AlreadyRunning { session, run }
            | Self::AlreadyStarted { session, run, .. }
            | Self::StateWhileRunning { session, run }
            | Self::BudgetWhileRunning { session, run }
            | Self::StillHeld { session, run, .. }
            | Self::OtherHost { session, run, .. } => (Some(session), Some(run)),
            Self::AwaitingAnswers { session, .. }
            | Self::AlreadyCompleted { session }
            | Self::Stale { session, .. }
            | Self::Changed { session }
            | Self::UnknownCheckpoint { session, .. }
            | Self::UnknownMessage { session, .. }
            | Self::NotRunning { session }
            | Self::StartedOtherwise { session }
            | Self::NothingWaits { session }
            | Self::InboxFull { session, .. }
            | Self::BudgetExhausted { session, .. }
            | Self::OtherAgent { session, .. } => (Some(session), None),
            Self::Store(error) => (error.session(), None),
            Self::Stream(error) => (error.session(), None),
            Self::NoMessage
            | Self::Incomplete { .. }
            | Self::Answer(_)
            | Self::Exceeded(_)
            | Self::State(_)
            | Self::Id(_) => (None, None),
        }
    }
}

impl From<EntryError> for Error {
    fn from(error: EntryError) -> Self {
        let (session, run) = error.about();
        let (session, run) = (session.cloned(), run.cloned());
        Self::new(error).about(session.as_ref(), run.as_ref())
    }
}

impl Coded for EntryError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::AlreadyRunning { .. }
            | Self::StillHeld { .. }
            | Self::OtherHost { .. }
            | Self::InboxFull { .. }
            | Self::StateWhileRunning { .. }
            | Self::BudgetWhileRunning { .. } => ErrorCode::SessionRunning,
            Self::BudgetExhausted { .. } => ErrorCode::BudgetExhausted,
            Self::AwaitingAnswers { .. } => ErrorCode::SessionAwaitingAnswers,
            Self::AlreadyCompleted { .. } | Self::StartedOtherwise { .. } => {
                ErrorCode::SessionCompleted
            }
            Self::AlreadyStarted { .. }
            | Self::Stale { .. }
            | Self::Changed { .. }
            | Self::NotRunning { .. }
            | Self::NothingWaits { .. } => ErrorCode::StateStale,
            Self::OtherAgent { .. }
            | Self::UnknownCheckpoint { .. }
            | Self::UnknownMessage { .. }
            | Self::NoMessage
            | Self::Incomplete { .. } => ErrorCode::ValidationError,
            Self::Answer(error) => error.code(),
            Self::Exceeded(error) => error.code(),
            Self::State(error) => error.code(),
            Self::Id(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Stream(error) => error.code(),
        }
    }
}
