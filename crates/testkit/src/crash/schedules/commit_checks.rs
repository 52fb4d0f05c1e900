//! Checks of every commit of a schedule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helix_agents_core::message::AssistantMessage;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{CallState, RunStatus};
use helix_agents_core::store::{Change, Commit, Page, Precondition, SessionStore, Snapshot};
use helix_agents_core::transcript::Transcript;
use helix_agents_core::{CallId, StepId};

use super::context::WriteOutcome;
use super::history_log::{HistoryLog, is_rewind};
use crate::block_on;
use crate::crash::compare::Stored;
use crate::unreliable::CommitObserver;

/// The replies that were committed so far, and the violations that were found.
#[derive(Debug)]
pub(super) struct CommitChecks {
    store: Arc<dyn SessionStore>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    replies: BTreeMap<StepId, AssistantMessage>,
    history: HistoryLog,
    flaws: Vec<String>,
}

impl CommitChecks {
    /// Checks the commits to this store.
    pub(super) fn of(durable: &Backend) -> Self {
        Self {
            store: Arc::clone(&durable.store),
            inner: Mutex::default(),
        }
    }

    /// The violations in the history of a session after a commit.
    fn flaws_of_the_history(
        &self,
        log: &mut HistoryLog,
        commit: &Commit,
        before: Option<&Snapshot>,
    ) -> Vec<String> {
        let messages = self.store.messages(commit.root.as_root(), Page::ALL);
        let messages = match block_on(messages) {
            Ok(messages) => messages.items,
            Err(error) => return vec![format!("the history cannot be read: {error}")],
        };
        let (_, healed) = Transcript::load(messages.clone());
        let healed = healed.iter();
        let flaws = healed.map(|what| format!("the history is not valid after a commit: {what}"));
        let mut flaws: Vec<_> = flaws.collect();
        flaws.extend(log.follow(commit, before, messages));
        flaws
    }

    /// The calls that were removed from the session.
    pub(super) fn removed_calls(&self) -> BTreeSet<CallId> {
        self.lock().history.removed_calls().clone()
    }

    /// Whether anything was removed from the session.
    pub(super) fn was_cut(&self) -> bool {
        self.lock().history.was_cut()
    }

    /// Checks that each message entered the history as often as it may, and is there unless it was removed.
    pub(super) fn flaws_of_the_messages<'a>(
        &self,
        sent: impl Iterator<Item = (&'a String, &'a WriteOutcome)>,
        stored: &Stored,
    ) -> Vec<String> {
        let inner = self.lock();
        let mut flaws = Vec::new();
        for (message, outcome) in sent {
            let (entered, removed) = inner.history.times_heard(message);
            let (count, allowed) = (stored.times_heard(message), outcome.times());
            if !allowed.contains(&entered) || count + removed != entered {
                flaws.push(format!(
                    "{message:?} was heard {entered} times, not {allowed:?}; it was removed {removed} times, and is there {count} times"
                ));
            }
        }
        flaws
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The violations, and the committed replies that are missing from the history.
    pub(super) fn flaws(&self, stored: &Stored) -> Vec<String> {
        let inner = self.lock();
        let mut flaws = inner.flaws.clone();
        for (step, reply) in &inner.replies {
            if !stored.has_reply(reply) && !inner.history.is_removed(reply) {
                flaws.push(format!(
                    "the reply of step {step} was committed, but is missing"
                ));
            }
        }
        flaws
    }
}

/// Whether only the performer of a run may make such a change.
fn is_of_a_run(change: &Change) -> bool {
    matches!(
        change,
        Change::OpenStep(_)
            | Change::OpenCall(..)
            | Change::AppendStep(_)
            | Change::WriteState(_)
            | Change::Run(_)
            | Change::CheckpointHere(_)
    )
}

fn is_of_the_history(change: &Change) -> bool {
    matches!(
        change,
        Change::AppendUser(_)
            | Change::AppendStep(_)
            | Change::Truncate(_)
            | Change::Overwrite(_)
            | Change::Notice(_)
    )
}

impl CommitObserver for CommitChecks {
    fn committed(&self, commit: &Commit, before: Option<&Snapshot>, after: Option<&Snapshot>) {
        let mut inner = self.lock();
        // What is seen before and after it is the root; sessions under it are looked at in the end.
        let changes = || {
            let changes = commit.changes.iter();
            let of_root = changes.filter(|(session, _)| *session == commit.root);
            of_root.map(|(_, change)| change)
        };
        if is_rewind(commit) || changes().any(is_of_the_history) {
            let flaws = self.flaws_of_the_history(&mut inner.history, commit, before);
            inner.flaws.extend(flaws);
        }
        let (Some(before), Some(after)) = (before, after) else {
            return;
        };
        let fences = commit
            .preconditions
            .iter()
            .filter_map(|(session, one)| match one {
                Precondition::Fence(fence) if *session == commit.root => Some(*fence),
                _ => None,
            });
        let fences: Vec<_> = fences.collect();
        if fences.iter().any(|fence| *fence != before.fence) {
            let flaw = format!("a commit of {fences:?} was made at {:?}", before.fence);
            inner.flaws.push(flaw);
        }
        let of_a_run = changes().find(|one| is_of_a_run(one));
        if let Some(change) = of_a_run
            && fences.is_empty()
        {
            let flaw = format!("a run wrote without its fence: {change:?}");
            inner.flaws.push(flaw);
        }
        let was_running = before
            .run
            .as_ref()
            .filter(|run| run.status == RunStatus::Running);
        if let (Some(was), Some(is)) = (was_running, &after.run)
            && was.id != is.id
        {
            let flaw = format!("run {} began while run {} was running", is.id, was.id);
            inner.flaws.push(flaw);
        }
        for change in changes() {
            if let Change::OpenStep(Some(step)) = change {
                let reply = step.message.clone();
                let flaws = inner.history.reused(&reply);
                inner.flaws.extend(flaws);
                inner.replies.entry(step.id.clone()).or_insert(reply);
            }
        }
        inner.flaws.extend(overwritten(before, after));
    }
}

/// The parts that were durable before a commit and are missing after it.
fn overwritten(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut flaws = Vec::new();
    let (Some(was), Some(is)) = (&before.open_step, &after.open_step) else {
        return flaws;
    };
    if was.id != is.id {
        flaws.push(format!("step {} was opened over step {}", is.id, was.id));
        return flaws;
    }
    for ((call, was), is) in was.calls().zip(&is.calls) {
        let id = &call.id;
        if was.result.is_some() && was.result != is.result {
            flaws.push(format!("the result of call {id} was overwritten"));
        }
        let waits = matches!(
            is.state,
            CallState::AwaitingClient | CallState::AwaitingApproval
        );
        let entry = |one: &Snapshot| one.state.pending_client_tool_calls.get(id).cloned();
        let answered = entry(before).is_some_and(|entry| entry.answer.is_some());
        if answered && waits && entry(after).is_none_or(|entry| entry.answer.is_none()) {
            flaws.push(format!("the answer to call {id} was overwritten"));
        }
    }
    flaws
}
