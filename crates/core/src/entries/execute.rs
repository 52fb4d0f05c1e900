//! The entry that starts a turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::close::close_step;
use super::start::{base, commit_on, raised, say, take_lease};
use super::{Drive, EntryError, Start};
use crate::agent::Agent;
use crate::bounds::Bounds;
use crate::id::{SessionId, StreamId, UserId};
use crate::machine::RunState;
use crate::message::UserMessage;
use crate::session::{RunRecord, RunStatus, RunTrigger, SessionState, SessionStatus};
use crate::state::{StateError, check_state};
use crate::store::{Change, Commit, Fence, Field, Header, Precondition, Snapshot, StoreError};
use crate::stream::ChunkPayload;

/// The session in which a turn may start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expects {
    /// A new session, or one whose last turn has ended.
    #[default]
    Any,
    /// A new session: [`StoreError::AlreadyExists`] otherwise.
    New,
    /// A session whose last turn has ended: [`StoreError::NotFound`] otherwise. The run is recorded
    /// as started [with a message](RunTrigger::WithMessage).
    Existing,
}

/// The request to start a turn.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Execute {
    /// The session; `None` creates a new one.
    pub session_id: Option<SessionId>,
    /// The name of the agent.
    pub agent_type: String,
    /// The state of a new session.
    pub initial_state: Arc<Value>,
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
    pub expects: Expects,
}

impl Execute {
    /// Creates the request for a turn of an agent that starts with one message.
    #[must_use]
    pub fn new<Out>(agent: &Agent<Out>, message: impl Into<UserMessage>) -> Self {
        Self {
            session_id: None,
            agent_type: agent.name().to_owned(),
            initial_state: Arc::clone(agent.initial_state()),
            messages: vec![message.into()],
            state: None,
            user_id: None,
            tags: Vec::new(),
            metadata: BTreeMap::new(),
            expects: Expects::Any,
        }
    }

    /// Sets the session in which the turn may start.
    #[must_use]
    pub fn expecting(mut self, expects: Expects) -> Self {
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
/// [expects](Expects), [`StoreError::NotFound`] or [`StoreError::AlreadyExists`].
pub fn plan_execute(
    found: Option<&Snapshot>,
    request: &Execute,
    start: &Start,
) -> Result<Drive, EntryError> {
    let session = request.session_id.as_ref().ok_or(EntryError::NoSession)?;
    if request.messages.is_empty() {
        return Err(EntryError::NoMessage);
    }
    for message in &request.messages {
        Bounds::default().check_metadata(&message.metadata)?;
    }
    let named = session.clone();
    match (found, request.expects) {
        (None, Expects::Existing) => Err(StoreError::NotFound { session: named }.into()),
        (Some(_), Expects::New) => Err(StoreError::AlreadyExists { session: named }.into()),
        (None, Expects::Any | Expects::New) => plan_new_session(session, request, start),
        (Some(found), Expects::Any | Expects::Existing) => plan_next_turn(found, request, start),
    }
}

fn plan_new_session(
    session: &SessionId,
    request: &Execute,
    start: &Start,
) -> Result<Drive, EntryError> {
    let mut state = SessionState::new(session.clone(), &request.agent_type, start.at);
    state.stream_id = Some(StreamId::of_session(session));
    let initial = &request.initial_state;
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
    let snapshot = Snapshot::new(
        Header::created(state.clone(), Fence::default()),
        state,
        None,
        None,
        |_| Ok::<_, EntryError>(false),
    )?;
    Ok(begin(&snapshot, commit, run, request, start))
}

fn plan_next_turn(found: &Snapshot, request: &Execute, start: &Start) -> Result<Drive, EntryError> {
    let session = &found.state.session_id;
    if found.state.agent_type != request.agent_type {
        return Err(EntryError::OtherAgent {
            session: session.clone(),
            has: found.state.agent_type.clone(),
            asked: request.agent_type.clone(),
        });
    }
    refuse_unless_ended(found)?;
    let trigger = match request.expects {
        Expects::Existing => RunTrigger::WithMessage,
        Expects::Any | Expects::New => RunTrigger::Execute,
    };
    let mut run = start.run(session.clone(), trigger);
    run.turn = found.run.as_ref().map_or(1, |last| last.turn + 1);
    let mut commit = close_step(commit_on(found, start), found);
    if let Some(keys) = &request.state {
        // The whole state is replaced: writes made since it was read must not be lost.
        let as_read = Precondition::Version(found.state.version);
        commit = commit.when_in(session.clone(), as_read);
        let state = with_keys(&found.state.custom_state, Some(keys))?;
        commit = commit.then_in(session.clone(), Change::SetState(state));
    }
    for field in of_request(found, request) {
        commit = commit.then_in(session.clone(), Change::Set(field));
    }
    for field in [
        Field::StepCount(0),
        Field::Output(None),
        Field::Error(None),
        Field::FailureReason(None),
        Field::InterruptContext(None),
    ] {
        commit = commit.then_in(session.clone(), Change::Set(field));
    }
    Ok(begin(found, commit, run, request, start))
}

/// The fields that set the metadata and the tags of a turn in its session.
fn of_request(found: &Snapshot, request: &Execute) -> impl Iterator<Item = Field> {
    let metadata = request.metadata.iter();
    let metadata = metadata.map(|(key, value)| (key.clone(), Some(value.clone())));
    let metadata = (!request.metadata.is_empty()).then(|| Field::Metadata(metadata.collect()));
    let has = &found.state.tags;
    let new = request.tags.iter().filter(|tag| !has.contains(tag));
    let new: Vec<_> = new.cloned().collect();
    let tags = (!new.is_empty()).then(|| Field::Tags([has.clone(), new].concat()));
    metadata.into_iter().chain(tags)
}

/// Refuses a new turn while the last one is running or suspended.
fn refuse_unless_ended(found: &Snapshot) -> Result<(), EntryError> {
    let session = || found.state.session_id.clone();
    if let Some(run) = &found.run {
        if run.status == RunStatus::Running {
            return Err(EntryError::AlreadyRunning {
                session: session(),
                run: run.id.clone(),
            });
        }
        if run.status.is_suspended() {
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
    request: &Execute,
    start: &Start,
) -> Drive {
    let session = &found.state.session_id;
    let then = |commit: Commit, change| commit.then_in(session.clone(), change);
    run.messages = u32::try_from(request.messages.len()).unwrap_or(u32::MAX);
    let mut commit = take_lease(commit, session, start);
    for message in &request.messages {
        commit = then(commit, Change::AppendUser(message.clone()));
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
        attempt: 1,
        first: true,
        resync: false,
        stop: false,
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
