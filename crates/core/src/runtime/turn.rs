//! A turn: the user message and the options it is executed with.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::{Branch, RunOptions};
use crate::budget::Budgets;
use crate::canonical::canonical_json;
use crate::entries::{
    AsRead, BranchSource, BudgetRequest, DoubleTexting, ExecuteRequest, ExpectedSession,
};
use crate::error::Error;
use crate::hooks::AgentHooks;
use crate::id::{MessageId, SessionId, UserId};
use crate::message::UserMessage;
use crate::state::to_json;

/// A turn: what the user says, and everything else that can be said about it.
///
/// A text is a turn, so most callers never name this type:
///
/// ```
/// use helix_agents_core::runtime::Turn;
///
/// let plain: Turn = "Hi".into();
/// let full = Turn::new("Hi").session("chat-7").user("alice").metadata("tenant", "acme").tag("beta");
/// ```
///
/// A mistake, like an id with a space in it, is reported by the call that the turn is given to.
#[derive(Default)]
#[must_use = "a turn begins when it is given to a runtime"]
pub struct Turn {
    messages: Vec<UserMessage>,
    session: Option<SessionId>,
    user: Option<UserId>,
    tags: Vec<String>,
    metadata: BTreeMap<String, String>,
    state: Option<Value>,
    expects: ExpectedSession,
    read: AsRead,
    double_texting: Option<DoubleTexting>,
    abandon_pending: bool,
    edits: Option<MessageId>,
    unless_changed: bool,
    expires_after: Option<Duration>,
    branch: Option<BranchSource>,
    budget: BudgetRequest,
    options: RunOptions,
    mistake: Option<Error>,
}

impl Turn {
    /// A turn that begins with a message.
    pub fn new(message: impl Into<UserMessage>) -> Self {
        Self::default().message(message)
    }

    /// Adds a message.
    pub fn message(mut self, message: impl Into<UserMessage>) -> Self {
        self.messages.push(message.into());
        self
    }

    /// Adds messages.
    pub fn messages(mut self, messages: impl IntoIterator<Item = UserMessage>) -> Self {
        self.messages.extend(messages);
        self
    }

    /// The session: a new one of this id, or one whose last turn has ended. Without it a new session is
    /// made.
    pub fn session(mut self, session: impl AsRef<str>) -> Self {
        match SessionId::new(session) {
            Ok(session) => self.session = Some(session),
            Err(error) => self.note(error),
        }
        self
    }

    /// The owner of a new session. An existing session keeps the owner that it has, and this is ignored.
    ///
    /// The owner belongs to the session, not to the turn: tools read it with
    /// [`ToolCx::user`](crate::ToolCx::user) in every later turn, and lists of sessions and pending calls
    /// select by it.
    pub fn user(mut self, user: impl AsRef<str>) -> Self {
        match UserId::new(user) {
            Ok(user) => self.user = Some(user),
            Err(error) => self.note(error),
        }
        self
    }

    /// Sets an entry of the session's metadata, which tools ([`ToolCx::metadata`](crate::ToolCx::metadata))
    /// and hooks read. A text is kept as it is, anything else as JSON.
    ///
    /// Metadata belongs to the session, not to the turn: an entry stays for all later turns, and for calls
    /// that are approved next week, until a turn sets the same key again. There are no values of a single
    /// turn. What only one turn needs to know goes into its message, or under a key that every turn sets.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Serialize) -> Self {
        match to_json(&value) {
            Ok(Value::String(text)) => {
                self.metadata.insert(key.into(), text);
            }
            Ok(value) => {
                self.metadata.insert(key.into(), canonical_json(&value));
            }
            Err(error) => self.note(error),
        }
        self
    }

    /// Adds a tag to the session, unless it has it. Tags belong to the session, not to the turn: they
    /// stay, and lists of sessions select by them.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Sets keys of the session's state, on top of what is there. They stay for all later turns.
    pub fn state(mut self, state: impl Serialize) -> Self {
        match to_json(&state) {
            Ok(state) => self.state = Some(state),
            Err(error) => self.note(error),
        }
        self
    }

    /// Adds hooks of this run alone, after the agent's own. They are gone when the process is.
    pub fn hooks(mut self, hooks: impl AgentHooks + 'static) -> Self {
        self.options = self.options.hooks(hooks);
        self
    }

    /// Sets the rule for the case that a run of the session is in progress. Without it the turn is refused
    /// then.
    ///
    /// The message may have to wait for the end of that run: the handle is on the run that takes it, and
    /// waits for its start. Messages that wait enter that run together, in the order in which they were sent.
    /// [Hooks](Turn::hooks) of the turn are not called then: another process may start that run.
    pub fn double_texting(mut self, rule: DoubleTexting) -> Self {
        self.double_texting = Some(rule);
        self
    }

    /// Lets the turn begin although calls wait for an answer. Those are not executed any more: the model
    /// reads so before it reads the message. Without it the turn is refused then.
    pub fn abandon_pending(mut self) -> Self {
        self.abandon_pending = true;
        self
    }

    /// Puts the turn in the place of the one that began with this user message, and of all that followed it: they are
    /// removed from the session, with what they did to its state. What their calls did outside remains, and the model
    /// is told which calls those were. Refused if the session does not have the message.
    pub fn editing(mut self, message: impl AsRef<str>) -> Self {
        match MessageId::new(message) {
            Ok(message) => self.edits = Some(message),
            Err(error) => self.note(error),
        }
        self
    }

    /// Lets recovery remove the session when this much time has passed since the start of the turn, unless a
    /// run is in progress then. A later turn may set another time. Without it a session is kept.
    pub fn expires_after(mut self, time: Duration) -> Self {
        self.expires_after = Some(time);
        self
    }

    /// Which session it may begin in; any, unless this says otherwise.
    pub fn expecting(mut self, expects: ExpectedSession) -> Self {
        self.expects = expects;
        self
    }

    /// Refuses the turn if another run was started, or another message sent, since the session was
    /// [read](Turn::as_read): of two callers that send the same message one wins, and the other can look again.
    pub fn unless_changed(mut self) -> Self {
        self.unless_changed = true;
        self
    }

    /// Gives the session as the caller has just read it, which saves the start a read.
    pub fn as_read(mut self, read: impl Into<AsRead>) -> Self {
        self.read = read.into();
        self
    }

    /// Creates the session as a branch of another, which is not changed: with its messages and its state up to a
    /// point, its owner, its tags and its metadata. The branch and the turn begin in one write. A session id that
    /// is taken is refused.
    pub fn branch_of(mut self, branch: impl Into<Branch>) -> Self {
        match branch.into().checked() {
            Ok(source) => self.branch = Some(source),
            Err(error) => self.note(error),
        }
        self
    }

    /// Sets limits for the run, its session and its tree, on top of those of the agent. Those of the session
    /// and the tree stay for later turns. A session that a budget has paused begins a turn only with room for
    /// it. A [`Budget`](crate::budget::Budget) alone limits the run.
    pub fn budget(mut self, budgets: impl Into<Budgets>) -> Self {
        self.budget.set(&budgets.into());
        self
    }

    pub(super) fn in_session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self.expects = ExpectedSession::Existing;
        self
    }

    fn note(&mut self, mistake: impl Into<Error>) {
        self.mistake.get_or_insert_with(|| mistake.into());
    }

    /// Converts the turn to a request for a turn of this agent.
    pub(super) fn request(self, agent: &str) -> Result<(ExecuteRequest, RunOptions), Error> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        let request = ExecuteRequest {
            session_id: self.session,
            state: self.state,
            user_id: self.user,
            tags: self.tags,
            metadata: self.metadata,
            expects: self.expects,
            read: self.read,
            double_texting: self.double_texting,
            abandon_pending: self.abandon_pending,
            edits: self.edits,
            unless_changed: self.unless_changed,
            expires_after: self.expires_after,
            branch: self.branch,
            budget: self.budget,
            ..ExecuteRequest::by_name(agent, self.messages)
        };
        Ok((request, self.options))
    }
}

impl From<&str> for Turn {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<&String> for Turn {
    fn from(text: &String) -> Self {
        Self::new(text.as_str())
    }
}

impl From<String> for Turn {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<UserMessage> for Turn {
    fn from(message: UserMessage) -> Self {
        Self::new(message)
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("messages", &self.messages)
            .field("session", &self.session)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}
