//! The entry that starts a turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::close::{close_step, end_suspended_run};
use super::double_texting::{DoubleTexting, refuse_while_messages_wait, waiting_run};
use super::rewind::rewind;
use super::rollback::Rollback;
use super::start::{base, commit_on, raised, say, take_lease};
use super::{AsRead, Drive, EntryError, Start};
use crate::agent::Agent;
use crate::bounds::Bounds;
use crate::id::{IdError, IdSource, IdSourceExt, RunId, SessionId, StreamId, UserId};
use crate::machine::RunState;
use crate::message::UserMessage;
use crate::session::{RunRecord, RunStatus, RunTrigger, SessionState, SessionStatus, TurnStart};
use crate::shared_str::SharedStr;
use crate::state::{StateError, check_state};
use crate::store::{Change, Commit, Fence, Field, Header, Precondition, Snapshot, StoreError};
use crate::stream::ChunkPayload;

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
    /// A session whose last turn has ended: [`StoreError::NotFound`] otherwise. The run is recorded
    /// as started [with a message](RunTrigger::WithMessage).
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
    /// Whether the turn may start over pending calls. Those without an answer are not executed.
    pub abandon_pending: bool,
}

impl ExecuteRequest {
    /// Creates the request for a turn of an agent that starts with one message.
    #[must_use]
    pub fn new<Out>(agent: &Agent<Out>, message: impl Into<UserMessage>) -> Self {
        let initial_state = Some(Arc::clone(agent.initial_state()));
        Self {
            initial_state,
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

    fn incomplete(&self, lacks: &'static str) -> EntryError {
        EntryError::Incomplete {
            agent: self.agent_type.to_string(),
            lacks,
        }
    }

    /// Refuses a session of another agent.
    pub(super) fn check_agent(&self, found: &Snapshot) -> Result<(), EntryError> {
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

    /// Checks the messages.
    pub(super) fn check_messages(&self) -> Result<(), EntryError> {
        if self.messages.is_empty() {
            return Err(EntryError::NoMessage);
        }
        for message in &self.messages {
            Bounds::default().check_metadata(&message.metadata)?;
        }
        Ok(())
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

/// Plans the start of a turn.
///
/// In a session whose last turn has ended, with any outcome, the history is kept and the new turn
/// has its own steps and output.
///
/// # Errors
/// [`EntryError::AlreadyRunning`], [`EntryError::AwaitingAnswers`], [`EntryError::OtherAgent`],
/// and errors in the request itself. If the session is not the one that the request
/// [expects](ExpectedSession), [`StoreError::NotFound`] or [`StoreError::AlreadyExists`].
pub(crate) fn plan_execute(
    found: Option<&Snapshot>,
    request: &ExecuteRequest,
    start: &Start,
) -> Result<Drive, EntryError> {
    let session = request.session()?;
    request.check_messages()?;
    let named = session.clone();
    match (found, request.expects) {
        (None, ExpectedSession::Existing) => Err(StoreError::NotFound { session: named }.into()),
        (Some(_), ExpectedSession::New) => Err(StoreError::AlreadyExists { session: named }.into()),
        (None, ExpectedSession::Any | ExpectedSession::New) => {
            plan_new_session(session, request, start)
        }
        (Some(found), ExpectedSession::Any | ExpectedSession::Existing) => {
            plan_next_turn(found, request, start)
        }
    }
}

fn plan_new_session(
    session: &SessionId,
    request: &ExecuteRequest,
    start: &Start,
) -> Result<Drive, EntryError> {
    let mut state = SessionState::new(session.clone(), &request.agent_type, start.at);
    state.stream_id = Some(StreamId::of_session(session));
    let initial = request.initial_state.as_ref();
    let initial = initial.ok_or_else(|| request.incomplete("initial state"))?;
    let bounds = Bounds::default();
    bounds
        .check("the initial state", initial)
        .map_err(StateError::from)?;
    state.custom_state = with_keys(initial, request.state.as_ref())?;
    state.user_id.clone_from(&request.user_id);
    state.tags.clone_from(&request.tags);
    state.metadata.clone_from(&request.metadata);
    let commit = Commit::new(session.clone(), start.at)
        .when(Precondition::Absent)
        .then(Change::Create(Box::new(state.clone())));
    let run = start.run(session.clone(), RunTrigger::Execute);
    let messages = (request.messages.clone(), request.state.is_some());
    let snapshot = Snapshot::new(
        Header::created(state.clone(), Fence::default()),
        state,
        None,
        None,
        |_| Ok::<_, EntryError>(false),
    )?;
    Ok(begin(&snapshot, commit, run, messages, start))
}

fn plan_next_turn(
    found: &Snapshot,
    request: &ExecuteRequest,
    start: &Start,
) -> Result<Drive, EntryError> {
    request.check_agent(found)?;
    refuse_while_messages_wait(found)?;
    plan_turn(found, request, start)
}

/// Plans the next turn of a session: with the messages that wait in its inbox, and then those of the
/// request.
///
/// # Errors
/// As [`plan_execute`]. Over pending calls, [`EntryError::AwaitingAnswers`] unless the request abandons
/// them.
pub(super) fn plan_turn(
    found: &Snapshot,
    request: &ExecuteRequest,
    start: &Start,
) -> Result<Drive, EntryError> {
    let session = &found.state.session_id;
    refuse_unless_ended(found, request.abandon_pending)?;
    let trigger = match request.expects {
        ExpectedSession::Existing => RunTrigger::WithMessage,
        ExpectedSession::Any | ExpectedSession::New => RunTrigger::Execute,
    };
    let start = &Start {
        run_id: waiting_run(&found.inbox).unwrap_or(&start.run_id).clone(),
        ..start.clone()
    };
    let mut run = start.run(session.clone(), trigger);
    run.turn = found.run.as_ref().map_or(1, |last| last.turn + 1);
    let mut commit = commit_on(found, start);
    commit = match &start.rollback {
        Some(rollback) => {
            run.turn = rollback.turn;
            roll_back(commit, found, rollback, &run.id)
        }
        None => end_suspended_run(close_step(commit, found), found),
    };
    if let Some(keys) = &request.state {
        // The whole state is replaced: writes made since it was read must not be lost.
        let as_read = Precondition::Version(found.state.version);
        commit = commit.when_in(session.clone(), as_read);
        let state = with_keys(&found.state.custom_state, Some(keys))?;
        commit = commit.then_in(session.clone(), Change::SetState(state));
    }
    for field in fields_of(found, request) {
        commit = commit.then_in(session.clone(), Change::Set(field));
    }
    for field in [
        Field::StepCount(0),
        Field::Output(None),
        Field::Error(None),
        Field::FailureReason(None),
        Field::InterruptContext(None),
        Field::SuspendedStep(None),
    ] {
        commit = commit.then_in(session.clone(), Change::Set(field));
    }
    let waiting = found.inbox.iter().flat_map(|row| &row.messages);
    let messages = waiting.chain(&request.messages).cloned().collect();
    if !found.inbox.is_empty() {
        // A row that is written after this was read starts the next run.
        let as_read = Precondition::Inbox(found.inbox.len());
        run.inbox = found.inbox.iter().map(|row| row.id.clone()).collect();
        commit = commit
            .when_in(session.clone(), as_read)
            .then_in(session.clone(), Change::DrainInbox(run.inbox.clone()));
    }
    let sets_state = request.state.is_some();
    Ok(begin(found, commit, run, (messages, sets_state), start))
}

/// Takes the last turn back, and tells the model what remains of it.
fn roll_back(commit: Commit, found: &Snapshot, rollback: &Rollback, run: &RunId) -> Commit {
    let origin = base(&found.state, run, 0);
    let commit = rewind(commit, found, &rollback.point, &rollback.cut, &origin);
    let session = found.state.session_id.clone();
    match &rollback.note {
        Some(note) => commit.then_in(session, Change::AppendUser(note.clone())),
        None => commit,
    }
}

/// The fields that set the metadata and the tags of a turn in its session.
pub(super) fn fields_of(found: &Snapshot, request: &ExecuteRequest) -> impl Iterator<Item = Field> {
    let metadata = request.metadata.iter();
    let metadata = metadata.map(|(key, value)| (key.clone(), Some(value.clone())));
    let metadata = (!request.metadata.is_empty()).then(|| Field::Metadata(metadata.collect()));
    let has = &found.state.tags;
    let new = request.tags.iter().filter(|tag| !has.contains(tag));
    let new: Vec<_> = new.cloned().collect();
    let tags = (!new.is_empty()).then(|| Field::Tags([has.clone(), new].concat()));
    metadata.into_iter().chain(tags)
}

/// Refuses a new turn while the last one is running, or suspended and not abandoned.
pub(super) fn refuse_unless_ended(found: &Snapshot, abandons: bool) -> Result<(), EntryError> {
    let session = || found.state.session_id.clone();
    if let Some(run) = &found.run {
        if run.status == RunStatus::Running {
            return Err(EntryError::AlreadyRunning {
                session: session(),
                run: run.id.clone(),
            });
        }
        if run.status.is_suspended() && !abandons {
            let calls = found.state.unanswered_calls();
            if calls.is_empty() {
                return Err(EntryError::Stale {
                    session: session(),
                    why: "its calls are answered; resume it first",
                });
            }
            return Err(EntryError::AwaitingAnswers {
                session: session(),
                calls,
            });
        }
    }
    if found.state.status == SessionStatus::Paused {
        return Err(EntryError::Stale {
            session: session(),
            why: "a budget is used up; raise it and resume",
        });
    }
    Ok(())
}

fn begin(
    found: &Snapshot,
    commit: Commit,
    mut run: RunRecord,
    (messages, sets_state): (Vec<UserMessage>, bool),
    start: &Start,
) -> Drive {
    let session = &found.state.session_id;
    let then = |commit: Commit, change| commit.then_in(session.clone(), change);
    run.messages = u32::try_from(messages.len()).unwrap_or(u32::MAX);
    let turn_start = TurnStart::after(start.after.0);
    run.turn_start = Some(match sets_state {
        true => turn_start.replacing(found.state_version),
        false => turn_start,
    });
    let mut commit = take_lease(commit, session, start);
    for message in messages {
        commit = then(commit, Change::AppendUser(message));
    }
    commit = then(commit, Change::Set(Field::Status(SessionStatus::Active)));
    commit = then(commit, Change::StartRun(Box::new(run.clone())));
    let base = base(&found.state, &run.id, 0);
    let started = ChunkPayload::RunStarted {
        trigger: run.trigger,
        turn: run.turn,
    };
    commit = say(commit, &base, start.at, started);
    let state = RunState {
        session_id: session.clone(),
        root_session_id: found.state.root().clone(),
        run_id: run.id,
        agent_type: found.state.agent_type.clone(),
        fence: raised(found.fence),
        turn: run.turn,
        steps: 0,
        corrections: 0,
        budget_from: 0,
        attempt: 1,
        first: true,
        resync: false,
        stop: false,
        messages_wait: false,
        effects: 0,
        doing: None,
        open: None,
        broken: None,
        ended: None,
    };
    Drive { commit, state }
}

/// Returns the state with some of its keys replaced.
fn with_keys(state: &Arc<Value>, keys: Option<&Value>) -> Result<Arc<Value>, StateError> {
    let Some(keys) = keys else {
        return Ok(Arc::clone(state));
    };
    check_state(keys)?;
    Bounds::default()
        .check("the state that was given", keys)
        .map_err(StateError::from)?;
    let mut state = Value::clone(state);
    if let (Value::Object(state), Value::Object(keys)) = (&mut state, keys) {
        let keys = keys.iter().map(|(key, value)| (key.clone(), value.clone()));
        state.extend(keys);
    }
    Ok(Arc::new(state))
}
