//! A message that is sent while a run is in progress.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::close::stop_children;
use super::execute::{fields_of, plan_turn};
use super::start::Start;
use super::{BudgetRequest, EntryError, ExecuteRequest, Planned};
use crate::id::{RunId, SessionId};
use crate::session::{RunRecord, RunStatus, StopKind, StopRequest};
use crate::store::{Change, Commit, InboxRow, Precondition, Snapshot};

/// The maximum number of requests whose messages wait in a session.
const MAX_WAITING: usize = 64;
/// The maximum size of the messages that wait in a session, in bytes of their JSON. They are part of
/// the session's header, which every commit writes.
const MAX_WAITING_BYTES: usize = 1024 * 1024;

/// The reason of a stop that makes room for a message.
pub(crate) const NEW_MESSAGE: &str = "a new message was sent";

/// The rule for a new message while a run of the session is in progress.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::DoubleTexting;
///
/// async fn chat(runtime: &dyn Runtime, agent: &Agent, text: &str) -> Result<(), Error> {
///     let turn = Turn::new(text).double_texting(DoubleTexting::Queue);
///     runtime.send(agent, "chat-7", turn).await?.output().await?;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DoubleTexting {
    /// Interrupts the run, which keeps what it has, and starts the next turn with the message.
    #[default]
    Interrupt,
    /// Refuses the message.
    Reject,
    /// Starts the next turn with the message when the current turn has ended.
    Queue,
    /// Interrupts the run, removes its turn from the session, and starts a turn with the message. The
    /// model is told which calls of the removed turn may have taken effect.
    Rollback,
}

impl DoubleTexting {
    /// Every rule.
    pub const ALL: [Self; 4] = [Self::Interrupt, Self::Reject, Self::Queue, Self::Rollback];

    /// Returns the rule as it is written in configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Reject => "reject",
            Self::Queue => "queue",
            Self::Rollback => "rollback",
        }
    }
}

/// A run that will start with messages that wait for it. Its id is known before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingRun {
    /// The id of the session.
    pub session: SessionId,
    /// The root of the session.
    pub root: SessionId,
    /// The id of the run that takes the messages.
    pub run: RunId,
}

/// Returns the run that takes the messages that wait in a session.
pub(crate) fn waiting_run(inbox: &[InboxRow]) -> Option<&RunId> {
    inbox.first()?.run_id.as_ref()
}

/// Refuses an entry other than a message while messages wait for the next run: that run comes first.
pub(crate) fn refuse_while_messages_wait(found: &Snapshot) -> Result<(), EntryError> {
    match waiting_run(&found.inbox) {
        None => Ok(()),
        Some(run) => Err(EntryError::AlreadyRunning {
            session: found.state.session_id.clone(),
            run: run.clone(),
        }),
    }
}

/// A session when an entry first saw it: its latest run, and how many messages wait; `None` before it exists.
#[derive(Debug, Default)]
pub(super) struct FirstSeen(OnceLock<Option<(Option<RunId>, usize)>>);

impl FirstSeen {
    /// Refuses a session in which another run was started, or another message sent, since.
    ///
    /// # Errors
    /// [`EntryError::Changed`].
    pub(super) fn check(
        &self,
        session: &SessionId,
        found: Option<&Snapshot>,
    ) -> Result<(), EntryError> {
        let now = found.map(|found| {
            let run = found.run.as_ref().map(|run| run.id.clone());
            (run, found.inbox.len())
        });
        if *self.0.get_or_init(|| now.clone()) == now {
            return Ok(());
        }
        Err(EntryError::Changed {
            session: session.clone(),
        })
    }
}

/// Plans to send a message to a session that exists, under a [rule](DoubleTexting) for a run that is in
/// progress.
///
/// # Errors
/// [`EntryError::AlreadyRunning`] if the rule refuses it; [`EntryError::AwaitingAnswers`] over pending
/// calls, unless the request abandons them; [`EntryError::InboxFull`].
pub(crate) fn plan_send(
    found: &Snapshot,
    request: &ExecuteRequest,
    rule: DoubleTexting,
    start: &Start,
) -> Result<Planned, EntryError> {
    request.check_agent(found)?;
    let running = found.run.as_ref();
    let Some(run) = running.filter(|run| run.status == RunStatus::Running) else {
        return plan_turn(found, request, start).map(Planned::Run);
    };
    if rule == DoubleTexting::Reject {
        return Err(EntryError::AlreadyRunning {
            session: found.state.session_id.clone(),
            run: run.id.clone(),
        });
    }
    plan_waiting(found, run, request, rule, start).map(Planned::Wait)
}

/// Plans to let a message wait for the end of the run, which is asked to stop if the rule says so.
fn plan_waiting(
    found: &Snapshot,
    run: &RunRecord,
    request: &ExecuteRequest,
    rule: DoubleTexting,
    start: &Start,
) -> Result<Commit, EntryError> {
    let session = &found.state.session_id;
    if request.state.is_some() {
        return Err(EntryError::StateWhileRunning {
            session: session.clone(),
            run: run.id.clone(),
        });
    }
    if request.budget.limits.is_some() {
        return Err(EntryError::BudgetWhileRunning {
            session: session.clone(),
            run: run.id.clone(),
        });
    }
    let mut row = InboxRow::new(start.run_id.to_string(), request.messages.clone(), start.at);
    row.run_id = Some(start.run_id.clone());
    row.replaces = (rule == DoubleTexting::Rollback).then(|| run.id.clone());
    row.edits.clone_from(&request.edits);
    check_room(found, &row)?;
    let running = Precondition::Run(run.id.clone(), vec![RunStatus::Running]);
    let mut commit =
        Commit::new(found.state.root().clone(), start.at).when_in(session.clone(), running);
    if request.unless_changed {
        commit = commit.when_in(session.clone(), Precondition::Inbox(found.inbox.len()));
    }
    let mut commit = commit.then_in(session.clone(), Change::Inbox(row));
    for field in fields_of(found, request, start) {
        commit = commit.then_in(session.clone(), Change::Set(field));
    }
    if matches!(rule, DoubleTexting::Interrupt | DoubleTexting::Rollback) {
        let mut stop = StopRequest::new(run.id.clone(), StopKind::Interrupt, start.at);
        stop.reason = Some(NEW_MESSAGE.to_owned());
        commit = commit.then_in(session.clone(), Change::Stop(stop));
        commit = stop_children(commit, &start.children);
    }
    Ok(commit)
}

pub(super) fn check_room(found: &Snapshot, row: &InboxRow) -> Result<(), EntryError> {
    let bytes = |row: &InboxRow| serde_json::to_vec(&row.messages).map_or(0, |json| json.len());
    let waiting = found.inbox.iter().map(bytes).sum::<usize>();
    if found.inbox.len() < MAX_WAITING && waiting.saturating_add(bytes(row)) <= MAX_WAITING_BYTES {
        return Ok(());
    }
    Err(EntryError::InboxFull {
        session: found.state.session_id.clone(),
        waiting: found.inbox.len(),
    })
}

/// Plans to start the run that the messages in the inbox wait for.
///
/// # Errors
/// [`EntryError::NothingWaits`]; the errors of a new turn while the last one is running or suspended.
pub(crate) fn plan_deliver(
    found: &Snapshot,
    budget: &BudgetRequest,
    start: &Start,
) -> Result<super::Drive, EntryError> {
    let session = &found.state.session_id;
    if found.inbox.is_empty() {
        return Err(EntryError::NothingWaits {
            session: session.clone(),
        });
    }
    let agent = found.state.agent_type.clone();
    let mut request = ExecuteRequest::by_name(agent, Vec::new())
        .in_session(session.clone())
        .expecting(super::ExpectedSession::Existing);
    request.budget.clone_from(budget);
    plan_turn(found, &request, start)
}
