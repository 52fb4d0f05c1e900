//! Why a runtime did not do what it was asked.

use std::sync::Arc;

use crate::agent::{ResolveError, UnknownModel};
use crate::budget::UnpricedModel;
use crate::context::UnknownContextLimit;
use crate::entries::EntryError;
use crate::error::{Coded, Error, ErrorCode};
use crate::id::{RunId, SessionId};
use crate::perform::PerformError;
use crate::store::StoreError;
use crate::stream::StreamError;

/// Why a runtime did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The entry was refused; nothing was written.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// There is no such agent.
    #[error(transparent)]
    Agent(#[from] ResolveError),
    /// The agent names a model that the runtime does not know.
    #[error(transparent)]
    Model(#[from] UnknownModel),
    /// The agent has a budget in micro-dollars, and the prices of its model are not known.
    #[error(transparent)]
    Budget(#[from] UnpricedModel),
    /// The agent leaves turns out near the context limit of its model, and that limit is not known.
    #[error(transparent)]
    Context(#[from] UnknownContextLimit),
    /// Another process took the run over and it goes on there, or its session was removed.
    #[error("run {run} is over here: another process took it over, or its session was removed")]
    Superseded {
        /// The run.
        run: RunId,
    },
    /// The run stands still because something it needs failed. It is taken over later.
    #[error("run {run} stands still; it is taken over when what it needs is back")]
    Stalled {
        /// The run.
        run: RunId,
        /// Why.
        #[source]
        source: Arc<PerformError>,
    },
    /// The process that performed the run shut down before its end.
    #[error("this process shut down before run {run} ended; another one takes it over")]
    HandedOver {
        /// The run.
        run: RunId,
    },
    /// The host, which performs the runs, failed.
    #[error("the host of the runs failed: {why}")]
    Host {
        /// The failure, and how to repair it.
        why: String,
    },
    /// There is no such run.
    #[error("session {session} has no run {run}; check the ids")]
    NoSuchRun {
        /// The session.
        session: SessionId,
        /// The run.
        run: RunId,
    },
    /// The output is not of the type that was asked for.
    #[error("the output of run {run} does not have the shape of the type it is read as")]
    OutputShape {
        /// The run.
        run: RunId,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The runtime takes no new runs.
    #[error("the runtime is shutting down; start the run in another process, or after the restart")]
    ShuttingDown,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stream failed.
    #[error(transparent)]
    Stream(#[from] StreamError),
}

impl RuntimeError {
    /// The session and the run it is about.
    fn about(&self) -> (Option<&SessionId>, Option<&RunId>) {
        match self {
            Self::Entry(error) => error.about(),
            Self::NoSuchRun { session, run } => (Some(session), Some(run)),
            Self::Superseded { run }
            | Self::Stalled { run, .. }
            | Self::HandedOver { run }
            | Self::OutputShape { run, .. } => (None, Some(run)),
            Self::Store(error) => (error.session(), None),
            Self::Stream(error) => (error.session(), None),
            Self::Agent(_)
            | Self::Model(_)
            | Self::Budget(_)
            | Self::Context(_)
            | Self::Host { .. }
            | Self::ShuttingDown => (None, None),
        }
    }
}

impl From<RuntimeError> for Error {
    fn from(error: RuntimeError) -> Self {
        let (session, run) = error.about();
        let (session, run) = (session.cloned(), run.cloned());
        Self::new(error).about(session.as_ref(), run.as_ref())
    }
}

impl Coded for RuntimeError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Entry(error) => error.code(),
            Self::Agent(error) => error.code(),
            Self::Model(error) => error.code(),
            Self::Budget(error) => error.code(),
            Self::Context(error) => error.code(),
            Self::Superseded { .. } | Self::HandedOver { .. } => ErrorCode::StateStale,
            Self::Host { .. } => ErrorCode::FrameworkInternal,
            Self::Stalled { source, .. } => source.code(),
            Self::NoSuchRun { .. } => ErrorCode::SessionNotFound,
            Self::OutputShape { .. } => ErrorCode::OutputInvalid,
            Self::ShuttingDown => ErrorCode::StoreUnavailable,
            Self::Store(error) => error.code(),
            Self::Stream(error) => error.code(),
        }
    }
}
