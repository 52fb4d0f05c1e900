//! The entry that starts a turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::budget::start_budget;
use super::close::{close_step, end_suspended_run, forget_children, stop_children};
use super::descendants::stop_working;
use super::double_texting::{refuse_while_messages_wait, waiting_run};
use super::rewind::rewind;
use super::rollback::Rollback;
use super::start::{base, commit_on, note_child, raised, say, take_lease};
use super::{BudgetRequest, Drive, EntryError, ExecuteRequest, ExpectedSession, Start};
use crate::bounds::Bounds;
use crate::id::{RunId, SessionId, StreamId};
use crate::machine::RunState;
use crate::message::UserMessage;
use crate::session::{RunRecord, RunStatus, RunTrigger, SessionState, SessionStatus, TurnStart};
use crate::state::{StateError, check_state};
use crate::store::{Change, Commit, Fence, Field, Header, Precondition, Snapshot, StoreError};
use crate::stream::ChunkPayload;
use crate::time::Timestamp;

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
    state.expires_at = expiry(request, start);
    begin_new(state, Vec::new(), request, start)
}

/// Plans the first run of a new session, which begins with this content.
pub(super) fn begin_new(
    state: SessionState,
    content: Vec<Change>,
    request: &ExecuteRequest,
    start: &Start,
) -> Result<Drive, EntryError> {
    let session = state.session_id.clone();
    let mut commit = Commit::new(session.clone(), start.at)
        .when(Precondition::Absent)
        .then(Change::Create(Box::new(state.clone())));
    let begins_with = content.len();
    for change in content {
        commit = commit.then(change);
    }
    let run = start.run(session, RunTrigger::Execute);
    let messages = (request.messages.clone(), request.state.is_some());
    let mut snapshot = Snapshot::new(
        Header::created(state.clone(), Fence::default()),
        state,
        None,
        None,
        |_| Ok::<_, EntryError>(false),
    )?;
    snapshot.message_count = begins_with;
    begin(&snapshot, commit, run, messages, (&request.budget, start))
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
    let entry = &start.run_id;
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
            let ended = end_suspended_run(stop_children(commit, &start.children), found);
            roll_back(ended, found, rollback, &run.id)
        }
        None => {
            let closed = end_suspended_run(close_step(commit, found), found);
            let closed = forget_children(closed, found);
            stop_children(closed, &start.children)
        }
    };
    if let Some(keys) = &request.state {
        // The whole state is replaced: writes made since it was read must not be lost.
        let as_read = Precondition::Version(found.state.version);
        commit = commit.when_in(session.clone(), as_read);
        let state = with_keys(&found.state.custom_state, Some(keys))?;
        commit = commit.then_in(session.clone(), Change::SetState(state));
    }
    for field in fields_of(found, request, start) {
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
    let messages = messages_of(found, request);
    if !found.inbox.is_empty() {
        // A row that is written after this was read starts the next run.
        let as_read = Precondition::Inbox(found.inbox.len());
        let rows: Vec<_> = found.inbox.iter().map(|row| row.id.clone()).collect();
        run.inbox = rows.iter().cloned().chain([entry.to_string()]).collect();
        let mut calls = found.inbox.iter().rev();
        run.parent_call = calls.find_map(|row| row.parent_call.clone());
        commit = note_child(commit, &found.state, &run.id);
        commit = commit
            .when_in(session.clone(), as_read)
            .then_in(session.clone(), Change::DrainInbox(rows));
    }
    let sets_state = request.state.is_some();
    let with = (&request.budget, start);
    begin(found, commit, run, (messages, sets_state), with)
}

/// The messages with which a turn starts: those that wait for it, and then those of the request. One that was edited
/// while it waited is replaced, with those that followed it.
fn messages_of(found: &Snapshot, request: &ExecuteRequest) -> Vec<UserMessage> {
    let rows = found.inbox.iter().map(|row| (&row.edits, &row.messages));
    let mut messages = Vec::<UserMessage>::new();
    for (edits, more) in rows.chain([(&request.edits, &request.messages)]) {
        let is_edited = |message: &UserMessage| edits.is_some() && message.id == *edits;
        if let Some(edited) = messages.iter().position(is_edited) {
            messages.truncate(edited);
        }
        messages.extend(more.iter().cloned());
    }
    messages
}

/// Takes the last turn back, and tells the model what remains of it.
fn roll_back(commit: Commit, found: &Snapshot, rollback: &Rollback, run: &RunId) -> Commit {
    let origin = base(&found.state, run, 0);
    let commit = stop_working(commit, &rollback.left);
    let commit = rewind(commit, found, &rollback.point, &rollback.cut, &origin);
    let session = found.state.session_id.clone();
    match &rollback.note {
        Some(note) => commit.then_in(session, Change::AppendUser(note.clone())),
        None => commit,
    }
}

/// The instant from which on the session may be removed, if the request says so.
pub(super) fn expiry(request: &ExecuteRequest, start: &Start) -> Option<Timestamp> {
    Some(start.at.saturating_add(request.expires_after?))
}

/// The fields of a session that a turn sets: its metadata, its tags, and when it may be removed.
pub(super) fn fields_of(
    found: &Snapshot,
    request: &ExecuteRequest,
    start: &Start,
) -> impl Iterator<Item = Field> {
    let metadata = request.metadata.iter();
    let metadata = metadata.map(|(key, value)| (key.clone(), Some(value.clone())));
    let metadata = (!request.metadata.is_empty()).then(|| Field::Metadata(metadata.collect()));
    let has = &found.state.tags;
    let new = request.tags.iter().filter(|tag| !has.contains(tag));
    let new: Vec<_> = new.cloned().collect();
    let tags = (!new.is_empty()).then(|| Field::Tags([has.clone(), new].concat()));
    let expires = expiry(request, start).map(|at| Field::ExpiresAt(Some(at)));
    metadata.into_iter().chain(tags).chain(expires)
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
    Ok(())
}

pub(super) fn begin(
    found: &Snapshot,
    commit: Commit,
    mut run: RunRecord,
    (messages, sets_state): (Vec<UserMessage>, bool),
    (budget, start): (&BudgetRequest, &Start),
) -> Result<Drive, EntryError> {
    let session = &found.state.session_id;
    let then = |commit: Commit, change| commit.then_in(session.clone(), change);
    run.messages = u32::try_from(messages.len()).unwrap_or(u32::MAX);
    // The chunks that close the step of an abandoned pause belong to the turn before.
    let closing = match start.rollback {
        Some(_) => 0,
        None => u64::try_from(commit.chunks.len()).unwrap_or_default(),
    };
    let turn_start = TurnStart::after(start.after.0.saturating_add(closing));
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
    commit = start_budget(commit, found, &run, budget, Some(1))?;
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
        awaited: BTreeMap::new(),
        broken: None,
        ended: None,
    };
    Ok(Drive {
        commit,
        state,
        answers: Vec::new(),
    })
}

/// Returns the state with some of its keys replaced.
pub(super) fn with_keys(
    state: &Arc<Value>,
    keys: Option<&Value>,
) -> Result<Arc<Value>, StateError> {
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
