//! The entries of a run: start, resume, take-over and answers.
//!
//! An entry is not the run: it is a pure planner from one read to one commit, which checks what it
//! read in the commit's preconditions. [`Entries`] reads, plans and commits; when another caller was
//! faster it reads again, so that one of two callers wins and the other gets a typed error. The
//! entries of a run return a [`RunState`] for a host to drive.

mod answers;
mod branch;
mod budget;
mod child;
mod close;
mod descendants;
mod double_texting;
mod entering;
mod error;
mod execute;
mod expire;
mod go_back;
mod known;
mod recover;
mod repeat;
mod request;
mod resume;
mod rewind;
mod rewind_point;
mod rollback;
mod start;
mod submit;
mod tool_answer;
mod warn;

use std::sync::Arc;

use crate::agent::Agent;
use crate::id::{IdSource, SessionId};
use crate::machine::RunState;
use crate::store::{SessionKey, SessionStore, Snapshot, StoreError};
use crate::stream::StreamManager;
use crate::time::Clock;

pub(crate) use answers::{Overdue, take_answers, tool_end_chunk, tool_start_chunk};
pub use branch::BranchSource;
pub use budget::BudgetRequest;
pub(crate) use child::{
    Delegation, ENDED_BY_PARENT, MessagePlan, plan_child, plan_companion, plan_message,
    plan_termination,
};
pub(crate) use close::{
    BegunCalls, CHILD_STOPPED, LEFT_BEHIND, close_calls, close_step, may_have_begun,
};
pub(crate) use descendants::TAKEN_BACK;
pub use double_texting::{DoubleTexting, WaitingRun};
use double_texting::{FirstSeen, plan_deliver, plan_send};
pub(crate) use double_texting::{NEW_MESSAGE, waiting_run};
use entering::Planned;
pub use error::EntryError;
pub(crate) use execute::plan_execute;
pub use expire::Expired;
use go_back::{FirstRead, GoBack};
pub use known::{AsRead, KnownSession};
pub(crate) use recover::MAX_TAKEOVERS;
pub(crate) use recover::plan_recover;
pub use request::{ExecuteRequest, ExpectedSession};
pub(crate) use resume::plan_resume;
pub use resume::{ResumeMode, ResumeRequest};
pub use start::Performer;
pub(crate) use start::{Drive, Start};
pub use tool_answer::{Continuation, Submitted, ToolAnswer};

/// How often an entry reads again when another caller was faster.
const MAX_ATTEMPTS: usize = 64;

/// The entries of runs, over a store.
#[derive(Debug, Clone)]
pub struct Entries {
    store: Arc<dyn SessionStore>,
    streams: Arc<dyn StreamManager>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
}

impl Entries {
    /// Creates the entries over these ports.
    #[must_use]
    pub fn new(
        store: Arc<dyn SessionStore>,
        streams: Arc<dyn StreamManager>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Self {
        Self {
            store,
            streams,
            clock,
            ids,
        }
    }

    /// Starts a turn: in a new session, or in one whose last turn has ended.
    ///
    /// # Errors
    /// [`EntryError`] if the turn cannot start; nothing is written then. A start of a
    /// [new](ExpectedSession::New) session that was already made is [`EntryError::AlreadyStarted`], with its run.
    pub async fn execute(
        &self,
        mut request: ExecuteRequest,
        performer: &Performer,
    ) -> Result<RunState, EntryError> {
        request.choose_session(self.ids.as_ref())?;
        if let Some(source) = request.branch.take() {
            // Boxed: every start holds this future, and few start a branch.
            return Box::pin(self.execute_branch(request, &source, performer)).await;
        }
        let session = KnownSession {
            id: request.session()?.clone(),
            read: std::mem::take(&mut request.read),
        };
        let id = session.id.clone();
        let plan = |found: Option<&Snapshot>, start: &Start| plan_execute(found, &request, start);
        let edits = request.edits.clone();
        match self.drive(session, performer, edits, plan).await {
            Err(EntryError::Store(StoreError::AlreadyExists { .. })) => {
                let found = or_not_found(self.store.find(&id).await?, &id)?;
                Err(self.refuse_existing(&found, &request).await)
            }
            entered => entered,
        }
    }

    /// Starts a turn as [`Entries::execute`] does. While a run of the session is in progress, the
    /// [rule](ExecuteRequest::double_texting) of the request decides: the message may wait for the end of
    /// the run, which may be interrupted for it.
    ///
    /// # Errors
    /// As [`Entries::execute`].
    pub async fn send(
        &self,
        mut request: ExecuteRequest,
        performer: &Performer,
    ) -> Result<Entered, EntryError> {
        let rule = request.double_texting;
        let is_new = request.expects == ExpectedSession::New || request.branch.is_some();
        let Some(rule) = rule.filter(|_| !is_new) else {
            return self.execute(request, performer).await.map(Entered::Run);
        };
        request.choose_session(self.ids.as_ref())?;
        request.check_messages()?;
        let session = KnownSession {
            id: request.session()?.clone(),
            read: std::mem::take(&mut request.read),
        };
        let edits = request.edits.clone();
        let id = session.id.clone();
        let first = FirstSeen::default();
        self.enter(session, performer, edits, |found, start| {
            if request.unless_changed {
                first.check(&id, found)?;
            }
            match found {
                Some(found) => plan_send(found, &request, rule, start),
                None => plan_execute(None, &request, start).map(Planned::Run),
            }
        })
        .await
    }

    /// Starts the run that the messages in the inbox of a session wait for.
    ///
    /// # Errors
    /// [`EntryError::NothingWaits`]; and the errors of a new turn while the last one is not over.
    pub async fn deliver<Out>(
        &self,
        agent: &Agent<Out>,
        session: impl Into<KnownSession>,
        performer: &Performer,
    ) -> Result<RunState, EntryError> {
        let session = session.into();
        let id = session.id.clone();
        let budget = BudgetRequest::of(agent);
        self.drive(session, performer, None, |found, start| {
            plan_deliver(or_not_found(found, &id)?, &budget, start)
        })
        .await
    }

    /// Resumes a session: by default after a suspension whose calls are all answered, or after an
    /// interruption.
    ///
    /// # Errors
    /// [`EntryError`] if the session cannot be resumed; nothing is written then.
    pub async fn resume(
        &self,
        request: impl Into<ResumeRequest>,
        performer: &Performer,
    ) -> Result<RunState, EntryError> {
        let ResumeRequest {
            session,
            mode,
            budget,
        } = request.into();
        let id = session.id.clone();
        match mode {
            ResumeMode::Continue => {
                let first = FirstRead::default();
                self.drive(session, performer, None, |found, start| {
                    let found = or_not_found(found, &id)?;
                    let drive = plan_resume(found, &budget, start)?;
                    first.check(found)?;
                    Ok(drive)
                })
                .await
            }
            ResumeMode::Retry => {
                let back = GoBack::Retry;
                self.go_back(session, &back, &budget, performer).await
            }
            ResumeMode::FromCheckpoint(checkpoint) => {
                let back = GoBack::To(checkpoint);
                self.go_back(session, &back, &budget, performer).await
            }
        }
    }

    /// Takes over a run whose process is gone.
    ///
    /// # Errors
    /// [`EntryError::StillHeld`] while a lease is valid, [`EntryError::NotRunning`] if there is
    /// nothing to take over, [`EntryError::OtherHost`] for a run of another kind of host.
    pub async fn recover(
        &self,
        session: impl Into<KnownSession>,
        performer: &Performer,
    ) -> Result<RunState, EntryError> {
        let session = session.into();
        let id = session.id.clone();
        self.drive(session, performer, None, |found, start| {
            plan_recover(or_not_found(found, &id)?, start)
        })
        .await
    }

    /// Answers a pending call with one durable write. It starts no run.
    ///
    /// An answer after the deadline does not become the result of the call, which has timed out. The model
    /// is told of the first such answer in a message of its own.
    ///
    /// # Errors
    /// [`EntryError::Answer`] for an answer that does not fit the pending call; nothing is stored then.
    pub async fn submit(&self, answer: &ToolAnswer) -> Result<Submitted, EntryError> {
        submit::submit(self, answer).await
    }

    /// Times out every open call of a session whose deadline has passed, with one durable write. It starts no
    /// run.
    ///
    /// Of an answer and a timeout at the same instant exactly one is recorded: an answer that comes second
    /// has the outcome [`LateAnswerAfterTimeout`](crate::session::SubmissionOutcome::LateAnswerAfterTimeout),
    /// and a timeout that comes second does nothing.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn expire(&self, session: SessionKey<'_>) -> Result<Expired, EntryError> {
        expire::expire(self, session).await
    }

    /// Warns readers of every open call of a session whose deadline is near, once each, with one durable
    /// write: a custom event `expiring_soon`. Returns the number of calls. Calls are warned of if
    /// [`Ports::warns_of_deadlines`](crate::perform::Ports::warns_of_deadlines) was set when they were made.
    ///
    /// # Errors
    /// When the store cannot be read or written. A warning whose acknowledgement is lost is not given again.
    pub async fn warn(&self, session: SessionKey<'_>) -> Result<usize, EntryError> {
        warn::warn(self, session).await
    }
}

/// The result of an entry that sends a message.
#[derive(Debug)]
pub enum Entered {
    /// A run was started, for the caller to drive.
    Run(RunState),
    /// The message waits: a run with this id starts when the run in progress has ended.
    Waits(WaitingRun),
}

impl Entered {
    /// Returns the run of an entry that starts one.
    fn run(self, session: &SessionId) -> Result<RunState, EntryError> {
        match self {
            Self::Run(state) => Ok(state),
            Self::Waits(_) => Err(EntryError::NotRunning {
                session: session.clone(),
            }),
        }
    }
}

fn or_not_found<T>(found: Option<T>, session: &SessionId) -> Result<T, StoreError> {
    found.ok_or_else(|| StoreError::NotFound {
        session: session.clone(),
    })
}
