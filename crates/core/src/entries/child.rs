//! The start of a sub-agent for a call of another agent.

use std::sync::Arc;

use super::close::{close_step, end_suspended_run, forget_children};
use super::double_texting::{NEW_MESSAGE, check_room, waiting_run};
use super::execute::begin;
use super::start::note_child;
use super::{BudgetRequest, Drive, EntryError, Start};
use crate::agent::AnyAgent;
use crate::budget::BudgetLedger;
use crate::id::{CallId, RunId, SessionId, StreamId, UserId};
use crate::message::UserMessage;
use crate::session::{
    ChildStatus, InterruptContext, PersistentChild, RunStatus, RunTrigger, SessionState,
    SessionStatus, StopKind, StopRequest,
};
use crate::store::{
    Change, Commit, Fence, Field, Header, InboxRow, Precondition, Snapshot, WorkingChild,
    drop_messages,
};
use crate::time::Timestamp;

/// A call that another agent answers, in a session of its own.
#[derive(Debug)]
pub(crate) struct Delegation<'a> {
    /// The session of the child, a new one.
    pub(crate) session: SessionId,
    /// The agent of the child.
    pub(crate) agent: &'a AnyAgent,
    pub(crate) parent: &'a SessionId,
    pub(crate) root: &'a SessionId,
    /// The call of the parent.
    pub(crate) call: &'a CallId,
    pub(crate) message: UserMessage,
    pub(crate) user_id: Option<UserId>,
    /// What the tree has used, where there are limits.
    pub(crate) budget: Option<Arc<BudgetLedger>>,
}

/// The session of a child, under that of its parent.
fn new_session(delegation: &Delegation<'_>, at: Timestamp) -> SessionState {
    let Delegation { agent, root, .. } = delegation;
    let mut state = SessionState::new(delegation.session.clone(), agent.name(), at);
    state.parent_session_id = Some(delegation.parent.clone());
    state.root_session_id = Some((*root).clone());
    state.stream_id = Some(StreamId::of_session(root));
    state.custom_state = Arc::clone(agent.initial_state());
    state.user_id.clone_from(&delegation.user_id);
    state
}

/// Plans the start of a child. Its commit is a part of that in which the parent notes the child.
pub(crate) fn plan_child(delegation: &Delegation<'_>, start: &Start) -> Result<Drive, EntryError> {
    let Delegation { session, root, .. } = delegation;
    let state = new_session(delegation, start.at);
    let commit = Commit::new((*root).clone(), start.at)
        .when_in(session.clone(), Precondition::Absent)
        .then_in(session.clone(), Change::Create(Box::new(state.clone())));
    let mut run = start.run(session.clone(), RunTrigger::Execute);
    run.parent_call = Some(delegation.call.clone());
    let header = Header::created(state.clone(), Fence::default());
    let mut found = Snapshot::new(header, state, None, None, |_| Ok::<_, EntryError>(false))?;
    found.budget.clone_from(&delegation.budget);
    let messages = (vec![delegation.message.clone()], false);
    let budget = BudgetRequest::of(delegation.agent);
    begin(&found, commit, run, messages, (&budget, start))
}

/// The reason of a stop with which a parent ends a run of a persistent child.
pub(crate) const ENDED_BY_PARENT: &str = "its caller ended it";

/// Plans a persistent child: its session, and the message with which its first run starts. Its commit is a part of
/// that in which the parent notes the child. Any process starts the run, as it starts all for which messages wait.
pub(crate) fn plan_companion(
    delegation: &Delegation<'_>,
    child: PersistentChild,
    run: &RunId,
    at: Timestamp,
) -> Commit {
    let session = delegation.session.clone();
    let mut state = new_session(delegation, at);
    state.persistent = Some(Box::new(child));
    let row = row(delegation.message.clone(), delegation.call, run, at);
    let commit = Commit::new(delegation.root.clone(), at)
        .when_in(session.clone(), Precondition::Absent)
        .then_in(session.clone(), Change::Create(Box::new(state.clone())))
        .then_in(session, Change::Inbox(row));
    match state.persistent_link() {
        Some(link) => {
            let link = Box::new(link.noted(run, ChildStatus::Running));
            commit.then_in(delegation.parent.clone(), Change::Child(link))
        }
        None => commit,
    }
}

/// A message of the parent that waits for the run `run` of a persistent child.
fn row(message: UserMessage, call: &CallId, run: &RunId, at: Timestamp) -> InboxRow {
    let mut row = InboxRow::new(run.to_string(), vec![message], at);
    row.run_id = Some(run.clone());
    row.parent_call = Some(call.clone());
    row
}

/// A message for a persistent child.
pub(crate) struct MessagePlan {
    pub(crate) commit: Commit,
    /// The run that takes the message.
    pub(crate) run: RunId,
    /// Whether a run is interrupted to make room for it.
    pub(crate) interrupts: bool,
}

/// Plans to send a message of the parent to a persistent child. A run in progress is interrupted, with those `below`
/// that work for it. The commit is refused when the child has changed.
///
/// # Errors
/// A text for the model, if the child waits for an answer, is stopped by a budget, or has no room for more messages.
pub(crate) fn plan_message(
    found: &Snapshot,
    (message, call): (UserMessage, &CallId),
    below: &[WorkingChild],
    run: RunId,
    at: Timestamp,
) -> Result<MessagePlan, String> {
    let session = &found.state.session_id;
    let last = found.run.as_ref();
    if last.is_some_and(|run| run.status.is_suspended()) {
        return Err(
            "It waits for an answer of a person or a client. Wait for it, or end its run with \
             companion__terminateChild first."
                .to_owned(),
        );
    }
    if found.state.status == SessionStatus::Paused {
        return Err("It is stopped, because a budget is used up.".to_owned());
    }
    let row = row(message, call, &run, at);
    if check_room(found, &row).is_err() {
        return Err("Too many messages wait for it already.".to_owned());
    }
    let mut commit = as_read(found, at).then_in(session.clone(), Change::Inbox(row));
    let running = last.filter(|run| run.status == RunStatus::Running);
    if let Some(run) = running {
        commit = ask_to_stop(commit, (session, &run.id), NEW_MESSAGE);
        commit = stop_all(commit, below, NEW_MESSAGE);
    } else {
        commit = note_child(
            commit,
            &found.state,
            waiting_run(&found.inbox).unwrap_or(&run),
        );
    }
    Ok(MessagePlan {
        commit,
        run: waiting_run(&found.inbox).cloned().unwrap_or(run),
        interrupts: running.is_some(),
    })
}

/// Plans to end the run of a persistent child, with those `below` that work for it, and to drop the messages that
/// wait for another. A suspended run ends at once. The commit is refused when the child has changed.
pub(crate) fn plan_termination(found: &Snapshot, below: &[WorkingChild], at: Timestamp) -> Commit {
    let session = &found.state.session_id;
    let mut commit = drop_messages(as_read(found, at), found);
    let last = found.run.as_ref();
    let Some(run) = last.filter(|run| !run.status.is_ended() || run.status.is_suspended()) else {
        return commit;
    };
    if run.status == RunStatus::Running {
        commit = ask_to_stop(commit, (session, &run.id), ENDED_BY_PARENT);
        return stop_all(commit, below, ENDED_BY_PARENT);
    }
    let why = InterruptContext::new(run.id.clone(), Some(ENDED_BY_PARENT.to_owned()), at);
    commit = end_suspended_run(close_step(commit, found), found);
    commit = forget_children(commit, found);
    for field in [
        Field::Status(SessionStatus::Interrupted),
        Field::InterruptContext(Some(why)),
        Field::SuspendedStep(None),
    ] {
        commit = commit.then_in(session.clone(), Change::Set(field));
    }
    let parent = found.state.parent_session_id.clone();
    if let (Some(link), Some(parent)) = (found.state.persistent_link(), parent) {
        let ended = link.noted(&run.id, ChildStatus::Interrupted);
        commit = commit.then_in(parent, Change::UpdateChild(Box::new(ended)));
    }
    stop_all(commit, below, ENDED_BY_PARENT)
}

/// A commit that is refused when a child has begun or ended a run, or got a message, since it was read.
fn as_read(found: &Snapshot, at: Timestamp) -> Commit {
    let session = &found.state.session_id;
    let run = match &found.run {
        Some(run) => Precondition::Run(run.id.clone(), vec![run.status]),
        None => Precondition::CurrentRun(None),
    };
    Commit::new(found.state.root().clone(), at)
        .when_in(session.clone(), run)
        .when_in(session.clone(), Precondition::Inbox(found.inbox.len()))
}

fn ask_to_stop(commit: Commit, (session, run): (&SessionId, &RunId), why: &str) -> Commit {
    let mut stop = StopRequest::new(run.clone(), StopKind::Interrupt, commit.at);
    stop.reason = Some(why.to_owned());
    commit.then_in(session.clone(), Change::Stop(stop))
}

/// Asks all to stop that work for a child.
fn stop_all(commit: Commit, below: &[WorkingChild], why: &str) -> Commit {
    let why = why.to_owned();
    let stop = |commit, child: &WorkingChild| child.stop(commit, StopKind::Interrupt, Some(&why));
    below.iter().fold(commit, stop)
}
