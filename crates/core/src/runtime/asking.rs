//! Arguments of the verbs of a runtime: whose pending calls to list, which run to stop, how to resume, which
//! messages to read.

use crate::budget::Budgets;
use crate::entries::{BranchSource, BudgetRequest, ResumeMode, ResumeRequest};
use crate::error::Error;
use crate::id::{CheckpointId, IdError, SessionId, UserId};
use crate::store::{BranchPoint, Page};

/// Which pending calls are asked for.
///
/// ```
/// use helix_agents_core::runtime::Pending;
///
/// let of_alice = Pending::of_user("alice");
/// let of_a_chat = Pending::of_session("chat-7");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "nothing is asked before it is given to a runtime"]
pub struct Pending {
    user: Option<UserId>,
    session: Option<SessionId>,
    limit: Option<usize>,
    mistake: Option<IdError>,
}

impl Pending {
    /// Everything that waits, whoever it waits for.
    pub fn all() -> Self {
        Self::default()
    }

    /// Selects the pending calls in the sessions of a user.
    pub fn of_user(user: impl AsRef<str>) -> Self {
        let mut this = Self::default();
        match UserId::new(user) {
            Ok(user) => this.user = Some(user),
            Err(error) => this.mistake = Some(error),
        }
        this
    }

    /// Selects the pending calls in a session, its root and all children of that root.
    pub fn of_session(session: impl AsRef<str>) -> Self {
        let mut this = Self::default();
        match SessionId::new(session) {
            Ok(session) => this.session = Some(session),
            Err(error) => this.mistake = Some(error),
        }
        this
    }

    /// At most so many, the oldest first.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    pub(super) fn checked(self) -> Result<Wanted, Error> {
        match self.mistake {
            Some(mistake) => Err(mistake.into()),
            None => Ok(Wanted {
                user: self.user,
                session: self.session,
                limit: self.limit.unwrap_or(usize::MAX),
            }),
        }
    }
}

/// A [`Pending`] with its ids checked.
pub(super) struct Wanted {
    pub(super) user: Option<UserId>,
    pub(super) session: Option<SessionId>,
    pub(super) limit: usize,
}

impl From<&SessionId> for Pending {
    fn from(session: &SessionId) -> Self {
        Self::of_session(session)
    }
}

/// Which run is asked to stop, and why.
///
/// ```
/// use helix_agents_core::runtime::Stop;
///
/// let stop = Stop::of("chat-7").because("the user left");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "nothing stops before it is given to a runtime"]
pub struct Stop {
    session: Result<SessionId, IdError>,
    reason: Option<String>,
}

impl Stop {
    /// The run that is in progress in a session.
    pub fn of(session: impl AsRef<str>) -> Self {
        Self {
            session: SessionId::new(session),
            reason: None,
        }
    }

    /// Says why. The reason is stored with the run.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    pub(super) fn checked(self) -> Result<(SessionId, Option<String>), Error> {
        Ok((self.session?, self.reason))
    }
}

impl From<&SessionId> for Stop {
    fn from(session: &SessionId) -> Self {
        Self::of(session)
    }
}

impl From<&str> for Stop {
    fn from(session: &str) -> Self {
        Self::of(session)
    }
}

/// The session to resume, and how.
///
/// A session or its id continues it: after a pause whose calls are all answered, or after an
/// interruption.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::Resume;
///
/// async fn try_again(runtime: &dyn Runtime, agent: &Agent) -> Result<String, Error> {
///     runtime.resume(agent, Resume::of("chat-7").retry()).await?.output().await
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "nothing is resumed before it is given to a runtime"]
pub struct Resume {
    session: Result<SessionId, IdError>,
    mode: Result<ResumeMode, IdError>,
    budget: BudgetRequest,
}

impl Resume {
    /// Continues a session.
    pub fn of(session: impl AsRef<str>) -> Self {
        Self {
            session: SessionId::new(session),
            mode: Ok(ResumeMode::Continue),
            budget: BudgetRequest::default(),
        }
    }

    /// Tries a failed or interrupted turn again, from its last good checkpoint.
    pub fn retry(mut self) -> Self {
        self.mode = Ok(ResumeMode::Retry);
        self
    }

    /// Rewinds the session to a checkpoint and continues from there.
    pub fn from_checkpoint(mut self, checkpoint: impl AsRef<str>) -> Self {
        self.mode = CheckpointId::new(checkpoint).map(ResumeMode::FromCheckpoint);
        self
    }

    /// Sets limits for the run, its session and its tree, on top of those of the agent. A session that a
    /// budget has paused needs a higher limit. A [`Budget`](crate::budget::Budget) alone limits the run.
    pub fn budget(mut self, budgets: impl Into<Budgets>) -> Self {
        self.budget.set(&budgets.into());
        self
    }

    pub(super) fn checked(self) -> Result<(SessionId, ResumeRequest), Error> {
        let session = self.session?;
        let mut request = ResumeRequest::new(&session, self.mode?);
        request.budget = self.budget;
        Ok((session, request))
    }
}

impl From<&SessionId> for Resume {
    fn from(session: &SessionId) -> Self {
        Self::of(session)
    }
}

impl From<SessionId> for Resume {
    fn from(session: SessionId) -> Self {
        Self::of(session)
    }
}

impl From<&str> for Resume {
    fn from(session: &str) -> Self {
        Self::of(session)
    }
}

impl From<&String> for Resume {
    fn from(session: &String) -> Self {
        Self::of(session)
    }
}

/// The session of which a new one is a branch: as it is now, at a checkpoint, or at a message.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::Branch;
///
/// async fn ask_differently(runtime: &dyn Runtime, agent: &Agent) -> Result<String, Error> {
///     let turn = Turn::new("And in French?").branch_of(Branch::of("chat-7").at_message(3));
///     runtime.execute(agent, turn).await?.output().await
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "nothing is branched before it is given to a turn"]
pub struct Branch {
    session: Result<SessionId, IdError>,
    point: Result<BranchPoint, IdError>,
}

impl Branch {
    /// Branches a session as it is now, without a step that is still open.
    pub fn of(session: impl AsRef<str>) -> Self {
        Self {
            session: SessionId::new(session),
            point: Ok(BranchPoint::Now),
        }
    }

    /// Begins at a checkpoint of the session.
    pub fn at_checkpoint(mut self, checkpoint: impl AsRef<str>) -> Self {
        self.point = CheckpointId::new(checkpoint).map(BranchPoint::Checkpoint);
        self
    }

    /// Begins after the message at this index, counted from 0, and after the results of its calls.
    pub fn at_message(mut self, index: usize) -> Self {
        self.point = Ok(BranchPoint::Message(index));
        self
    }

    pub(super) fn checked(self) -> Result<BranchSource, IdError> {
        Ok(BranchSource::new(self.session?, self.point?))
    }
}

impl From<&SessionId> for Branch {
    fn from(session: &SessionId) -> Self {
        Self::of(session)
    }
}

impl From<&str> for Branch {
    fn from(session: &str) -> Self {
        Self::of(session)
    }
}

/// Which messages of a session are read: all of them, or a page.
///
/// ```
/// use helix_agents_core::runtime::Messages;
/// use helix_agents_core::store::Page;
///
/// let whole_chat = Messages::of("chat-7");
/// let first_fifty = Messages::of("chat-7").page(Page::first(50));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "nothing is read before it is given to a runtime"]
pub struct Messages {
    session: Result<SessionId, IdError>,
    page: Page,
}

impl Messages {
    /// All messages of a session.
    pub fn of(session: impl AsRef<str>) -> Self {
        Self {
            session: SessionId::new(session),
            page: Page::ALL,
        }
    }

    /// This page of them. Use it where a history may be long: its size is then bounded by a number of
    /// messages, or of bytes ([`Page::within`]).
    pub fn page(mut self, page: Page) -> Self {
        self.page = page;
        self
    }

    pub(super) fn checked(self) -> Result<(SessionId, Page), Error> {
        Ok((self.session?, self.page))
    }
}

impl From<&SessionId> for Messages {
    fn from(session: &SessionId) -> Self {
        Self::of(session)
    }
}

impl From<&str> for Messages {
    fn from(session: &str) -> Self {
        Self::of(session)
    }
}
