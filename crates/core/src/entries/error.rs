//! Why an entry was refused. Nothing is written then.

use crate::bounds::Exceeded;
use crate::error::{Coded, ErrorCode};
use crate::id::{CallId, IdError, RunId, SessionId};
use crate::session::SubmissionError;
use crate::state::StateError;
use crate::store::StoreError;
use crate::stream::StreamError;

/// Why a run did not begin or go on, or an answer was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// A run goes on.
    #[error("run {run} of session {session} is still going on; wait for its end, or stop it")]
    AlreadyRunning {
        /// The session.
        session: SessionId,
        /// The run.
        run: RunId,
    },
    /// Calls wait for an answer.
    #[error("session {session} waits for answers to {}; submit them first", list(.calls))]
    AwaitingAnswers {
        /// The session.
        session: SessionId,
        /// The calls.
        calls: Vec<CallId>,
    },
    /// The last turn is completed.
    #[error("the last turn of session {session} is completed; send a new message to continue it")]
    AlreadyCompleted {
        /// The session.
        session: SessionId,
    },
    /// The session is not in a state for this.
    #[error("session {session} cannot go on like this: {why}")]
    Stale {
        /// The session.
        session: SessionId,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// There is no run to take over.
    #[error("session {session} has no run that goes on; there is nothing to recover")]
    NotRunning {
        /// The session.
        session: SessionId,
    },
    /// Somebody performs the run.
    #[error(
        "run {run} of session {session} is performed by {holder}; wait for its end, or interrupt it"
    )]
    StillHeld {
        /// The session.
        session: SessionId,
        /// The run.
        run: RunId,
        /// Who performs it.
        holder: String,
    },
    /// Another kind of host performs the run, and only that kind knows whether it still does.
    #[error(
        "run {run} of session {session} is performed by a host of the kind {has}, not {asked}; let \
         that host go on with it, or stop it"
    )]
    OtherHost {
        /// The session.
        session: SessionId,
        /// The run.
        run: RunId,
        /// The kind of host that performs it.
        has: String,
        /// The kind that asked.
        asked: String,
    },
    /// The session talks to another agent.
    #[error(
        "session {session} talks to agent {has}, not to {asked}; use that one, or another session"
    )]
    OtherAgent {
        /// The session.
        session: SessionId,
        /// Its agent.
        has: String,
        /// The one that was asked for.
        asked: String,
    },
    /// There is no message.
    #[error("there is nothing to say; give at least one message")]
    NoMessage,
    /// There is no session to start in.
    #[error("no session was named; give an id, or let one be made")]
    NoSession,
    /// The answer does not fit the question.
    #[error(transparent)]
    Answer(#[from] SubmissionError),
    /// What was given is more than is taken.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
    /// The state that was given is not one.
    #[error("the initial state cannot be used")]
    State(#[from] StateError),
    /// An id could not be made.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stream could not be read.
    #[error(transparent)]
    Stream(#[from] StreamError),
}

fn list(calls: &[CallId]) -> String {
    let texts: Vec<_> = calls.iter().map(CallId::as_str).collect();
    texts.join(", ")
}

impl Coded for EntryError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::AlreadyRunning { .. } | Self::StillHeld { .. } | Self::OtherHost { .. } => {
                ErrorCode::SessionRunning
            }
            Self::AwaitingAnswers { .. } => ErrorCode::SessionAwaitingAnswers,
            Self::AlreadyCompleted { .. } => ErrorCode::SessionCompleted,
            Self::Stale { .. } | Self::NotRunning { .. } => ErrorCode::StateStale,
            Self::OtherAgent { .. } | Self::NoMessage | Self::NoSession => {
                ErrorCode::ValidationError
            }
            Self::Answer(error) => error.code(),
            Self::Exceeded(error) => error.code(),
            Self::State(error) => error.code(),
            Self::Id(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Stream(error) => error.code(),
        }
    }
}
