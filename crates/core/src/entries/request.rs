//! The request to start a turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::double_texting::DoubleTexting;
use super::{AsRead, BranchSource, BudgetRequest, EntryError};
use crate::agent::Agent;
use crate::bounds::Bounds;
use crate::budget::Budgets;
use crate::id::{IdError, IdSource, IdSourceExt, MessageId, SessionId, UserId};
use crate::message::UserMessage;
use crate::shared_str::SharedStr;
use crate::store::Snapshot;

/// The session in which a turn may start.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::ExpectedSession;
///
/// // Refused if the session exists.
/// let turn = Turn::new("Hi").session("chat-7").expecting(ExpectedSession::New);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpectedSession {
    /// A new session, or one whose last turn has ended.
    #[default]
    Any,
    /// A new session. When it exists, the same start is [`EntryError::AlreadyStarted`], with its run, and
    /// another start is refused.
    New,
    /// A session whose last turn has ended: [`StoreError::NotFound`](crate::store::StoreError::NotFound) otherwise. The run is recorded
    /// as started [with a message](crate::session::RunTrigger::WithMessage).
    Existing,
}

/// The request to start a turn.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExecuteRequest {
    /// The session; `None` creates a new one.
    pub session_id: Option<SessionId>,
    /// The name of the agent.
    pub agent_type: SharedStr,
    /// The state of a new session; `None` until the agent is resolved with [`ExecuteRequest::complete`].
    pub initial_state: Option<Arc<Value>>,
    /// The user messages with which the turn starts.
    pub messages: Vec<UserMessage>,
    /// Keys of the state to set on top of the existing ones.
    pub state: Option<Value>,
    /// The owner of a new session.
    pub user_id: Option<UserId>,
    /// The tags of a new session, or those to add.
    pub tags: Vec<String>,
    /// The metadata of a new session, or what to set on top of it.
    pub metadata: BTreeMap<String, String>,
    /// The session in which the turn may start.
    pub expects: ExpectedSession,
    /// The session, where the caller has read it.
    pub read: AsRead,
    /// The rule while a run is in progress; `None` refuses the turn then.
    pub double_texting: Option<DoubleTexting>,
    /// How long after the start of the turn the session may be removed; `None` leaves that as it is.
    pub expires_after: Option<Duration>,
    /// Whether the turn may start over pending calls. Those without an answer are not executed.
    pub abandon_pending: bool,
    /// The user message whose turn is removed, with all that followed, before this turn starts.
    pub edits: Option<MessageId>,
    /// Whether the turn is refused if another run was started, or another message sent, since the session was read.
    pub unless_changed: bool,
    /// The session, and the point of it, of which the new session is a branch.
    pub branch: Option<BranchSource>,
    /// The limits under which the turn starts.
    pub budget: BudgetRequest,
}

impl ExecuteRequest {
    /// Creates the request for a turn of an agent that starts with one message.
    #[must_use]
    pub fn new<Out>(agent: &Agent<Out>, message: impl Into<UserMessage>) -> Self {
        let initial_state = Some(Arc::clone(agent.initial_state()));
        Self {
            initial_state,
            budget: BudgetRequest::of(agent),
            ..Self::by_name(agent.name(), vec![message.into()])
        }
    }

    /// Creates the request for a turn of a registered agent.
    #[must_use]
    pub fn by_name(agent_type: impl Into<SharedStr>, messages: Vec<UserMessage>) -> Self {
        Self {
            session_id: None,
            agent_type: agent_type.into(),
            initial_state: None,
            messages,
            state: None,
            user_id: None,
            tags: Vec::new(),
            metadata: BTreeMap::new(),
            expects: ExpectedSession::Any,
            read: AsRead::Unread,
            double_texting: None,
            abandon_pending: false,
            expires_after: None,
            edits: None,
            unless_changed: false,
            branch: None,
            budget: BudgetRequest::default(),
        }
    }

    /// Generates the id of a new session, unless the request names one.
    pub(crate) fn choose_session(&mut self, ids: &dyn IdSource) -> Result<(), IdError> {
        if self.session_id.is_none() {
            self.session_id = Some(ids.session_id()?);
            self.read = AsRead::Absent;
        }
        Ok(())
    }

    /// Returns the session of a request that names one.
    pub(crate) fn session(&self) -> Result<&SessionId, EntryError> {
        let session = self.session_id.as_ref();
        session.ok_or_else(|| self.incomplete("session id"))
    }

    pub(super) fn incomplete(&self, lacks: &'static str) -> EntryError {
        EntryError::Incomplete {
            agent: self.agent_type.to_string(),
            lacks,
        }
    }

    /// Refuses a request without messages, or with one whose metadata is too large.
    pub(super) fn check_messages(&self) -> Result<(), EntryError> {
        if self.messages.is_empty() {
            return Err(EntryError::NoMessage);
        }
        for message in &self.messages {
            Bounds::default().check_metadata(&message.metadata)?;
        }
        Ok(())
    }

    /// Refuses a session of another agent, and one that works for another session.
    pub(super) fn check_agent(&self, found: &Snapshot) -> Result<(), EntryError> {
        if found.state.parent_session_id.is_some() {
            return Err(EntryError::Stale {
                session: found.state.session_id.clone(),
                why: "it works for another session; send the message to that one",
            });
        }
        if found.state.agent_type == self.agent_type {
            return Ok(());
        }
        Err(EntryError::OtherAgent {
            session: found.state.session_id.clone(),
            has: found.state.agent_type.to_string(),
            asked: self.agent_type.to_string(),
        })
    }

    /// Gives the session as the caller has read it, which saves the entry a read.
    #[must_use]
    pub fn as_read(mut self, read: impl Into<AsRead>) -> Self {
        self.read = read.into();
        self
    }

    /// Sets the rule for a message that is sent while a run is in progress.
    #[must_use]
    pub fn double_texting(mut self, rule: DoubleTexting) -> Self {
        self.double_texting = Some(rule);
        self
    }

    /// Lets the turn start over pending calls: those without an answer are not executed.
    #[must_use]
    pub fn abandon_pending(mut self, abandon: bool) -> Self {
        self.abandon_pending = abandon;
        self
    }

    /// Refuses the turn with [`EntryError::Changed`] if another run was started, or another message sent, since the
    /// session was [read](ExecuteRequest::as_read).
    #[must_use]
    pub fn unless_changed(mut self) -> Self {
        self.unless_changed = true;
        self
    }

    /// Puts the turn in the place of the one that began with this user message, and of all that followed.
    #[must_use]
    pub fn editing(mut self, message: MessageId) -> Self {
        self.edits = Some(message);
        self
    }

    /// Sets limits for the session, its run and its tree, on top of those of the agent.
    #[must_use]
    pub fn budget(mut self, budgets: impl Into<Budgets>) -> Self {
        self.budget.set(&budgets.into());
        self
    }

    /// Creates the session as a branch of another. A session that has its id is refused with
    /// [`StoreError::AlreadyExists`](crate::store::StoreError::AlreadyExists).
    #[must_use]
    pub fn branch_of(mut self, source: BranchSource) -> Self {
        self.branch = Some(source);
        self
    }

    /// Sets the session in which the turn may start.
    #[must_use]
    pub fn expecting(mut self, expects: ExpectedSession) -> Self {
        self.expects = expects;
        self
    }

    /// Sets the id of the session.
    #[must_use]
    pub fn in_session(mut self, session: SessionId) -> Self {
        self.session_id = Some(session);
        self
    }

    /// Replaces the messages with which the turn starts.
    #[must_use]
    pub fn with_messages(mut self, messages: Vec<UserMessage>) -> Self {
        self.messages = messages;
        self
    }

    /// Sets keys of the state.
    #[must_use]
    pub fn with_state(mut self, state: Value) -> Self {
        self.state = Some(state);
        self
    }

    /// Sets the owner of a new session.
    #[must_use]
    pub fn for_user(mut self, user: UserId) -> Self {
        self.user_id = Some(user);
        self
    }

    /// Adds tags to the session.
    #[must_use]
    pub fn with_tags(mut self, tags: Vec<String>) -> Self {
        self.tags = tags;
        self
    }

    /// Sets metadata of the session.
    #[must_use]
    pub fn with_metadata(mut self, metadata: BTreeMap<String, String>) -> Self {
        self.metadata = metadata;
        self
    }
}
