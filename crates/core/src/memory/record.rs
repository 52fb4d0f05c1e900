//! One session in memory.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

use serde_json::Value;

use super::StateLog;
use crate::id::{CallId, CheckpointId, SessionId, StepId};
use crate::message::Message;
use crate::session::{Checkpoint, OpenStep, PendingCall, RunRecord, SessionState, SubSessionRef};
use crate::state::{ArrayMode, Draft, StepWrites};
use crate::store::{
    AnsweredCall, Fence, Header, Row, SessionExtras, Snapshot, Staged, StoreError, Unstage,
};
use crate::time::Timestamp;
use crate::usage::UsageEntry;

#[derive(Debug)]
pub(super) struct Record {
    pub(super) header: Arc<Header>,
    pub(super) created: u64,
    pub(super) messages: Vec<Message>,
    pub(super) states: StateLog,
    pub(super) runs: Vec<RunRecord>,
    pub(super) checkpoints: Vec<Checkpoint>,
    /// The ids of the checkpoints, to check quickly whether one is new.
    checkpoint_ids: HashSet<CheckpointId>,
    pub(super) pending: BTreeMap<CallId, PendingCall>,
    pub(super) usage: Vec<UsageEntry>,
    pub(super) answered: BTreeMap<CallId, AnsweredCall>,
    open_step: Option<Arc<OpenStep>>,
    children: Vec<SubSessionRef>,
    staged: Vec<(StepId, Staged)>,
    retired: BTreeSet<CallId>,
    /// The number of messages that are packed.
    packed: usize,
}

/// The length up to which a list is shrunk when its session comes to rest. A long one is left as it
/// is: it would be copied with every turn.
const SHORT: usize = 256;

fn shrink<T>(list: &mut Vec<T>) {
    if list.len() <= SHORT {
        list.shrink_to_fit();
    }
}

impl Record {
    /// Creates a session whose rows and header follow.
    pub(super) fn new(created: u64) -> Self {
        Self {
            header: Arc::new(Header::placeholder()),
            created,
            messages: Vec::new(),
            states: StateLog::default(),
            runs: Vec::new(),
            checkpoints: Vec::new(),
            checkpoint_ids: HashSet::new(),
            pending: BTreeMap::new(),
            usage: Vec::new(),
            answered: BTreeMap::new(),
            open_step: None,
            children: Vec::new(),
            staged: Vec::new(),
            retired: BTreeSet::new(),
            packed: 0,
        }
    }

    /// Gives back memory that is not needed while nobody runs the session.
    pub(super) fn rest(&mut self) {
        let new = self.messages.iter_mut().skip(self.packed);
        for message in new {
            if let Message::Assistant(message) = message {
                message.pack();
            }
        }
        self.packed = self.messages.len();
        shrink(&mut self.messages);
        shrink(&mut self.runs);
        shrink(&mut self.checkpoints);
        shrink(&mut self.usage);
        shrink(&mut self.staged);
    }

    /// Returns how many messages stay when the history is truncated to `count`: no step is split.
    pub(super) fn kept(&self, count: usize) -> usize {
        let mut keep = count.min(self.messages.len());
        while matches!(self.messages.get(keep), Some(Message::Tool(_))) {
            keep -= 1;
        }
        keep
    }

    /// Writes one row.
    #[deny(clippy::wildcard_enum_match_arm)]
    pub(super) fn write(&mut self, row: Row) {
        match row {
            Row::DeleteAll => {}
            Row::Messages { mut messages, .. } => self.messages.append(&mut messages),
            Row::TruncateMessages { keep } => {
                self.packed = self.packed.min(keep);
                for message in self.messages.drain(keep.min(self.messages.len())..) {
                    if let Message::Assistant(assistant) = message {
                        let ids = assistant.tool_calls().map(|call| call.id.clone());
                        self.retired.extend(ids);
                    }
                }
            }
            Row::StateWrites { writes, .. } => self.states.write(writes),
            Row::StateSet { value, .. } => self.states.set(value),
            Row::StateRewind { to, .. } => self.states.rewind(to),
            Row::Run(run) => put(&mut self.runs, *run, |a, b| a.id == b.id),
            Row::Checkpoint(checkpoint) => {
                if !self.checkpoint_ids.insert(checkpoint.id.clone()) {
                    self.checkpoints.retain(|one| one.id != checkpoint.id);
                }
                self.checkpoints.push(checkpoint);
            }
            Row::DropCheckpoints { after } => {
                let is_kept = |one: &Checkpoint| Some(&one.id) == after.as_ref();
                let kept = self.checkpoints.iter().rposition(is_kept);
                let keep = kept.map_or(0, |kept| kept + 1);
                for dropped in self.checkpoints.drain(keep..) {
                    self.checkpoint_ids.remove(&dropped.id);
                }
            }
            Row::OpenStep(step) => self.open_step = step,
            Row::OpenCall(call, open) => {
                if let Some(step) = &mut self.open_step {
                    Arc::make_mut(step).set_call(&call, *open);
                }
            }
            Row::Pending(pending) => {
                self.pending.insert(pending.tool_call_id.clone(), *pending);
            }
            Row::Answer(call, answer) => {
                if let Some(pending) = self.pending.get_mut(&call) {
                    pending.answer = Some(*answer);
                }
            }
            Row::RemovePending(call) => drop(self.pending.remove(&call)),
            Row::Answered(answered) => {
                let earlier = self.answered.get(&answered.call);
                if earlier.is_none_or(|earlier| answered.replaces(earlier)) {
                    self.answered.insert(answered.call.clone(), answered);
                }
            }
            Row::ForgetAnswered(calls) => {
                for call in &calls {
                    self.answered.remove(call);
                }
            }
            Row::Child(child) => {
                put(&mut self.children, *child, |a, b| {
                    a.session_id == b.session_id
                });
            }
            Row::UpdateChild(child) => {
                let mut known = self.children.iter_mut();
                if let Some(known) = known.find(|one| one.session_id == child.session_id) {
                    *known = *child;
                }
            }
            Row::Unlink(calls) => {
                let is_kept = |child: &SubSessionRef| !calls.contains(&child.tool_call_id);
                self.children.retain(is_kept);
            }
            Row::Usage(entry) => self.usage.push(entry),
            Row::Stage(step, call, writes) => {
                let staged = (step, Staged::new(call, writes));
                put(&mut self.staged, staged, |a, b| {
                    a.0 == b.0 && a.1.call == b.1.call
                });
            }
            Row::Unstage(Unstage::Step(step)) => self.staged.retain(|(one, _)| *one != step),
            Row::Unstage(Unstage::AllBut(keep)) => {
                self.staged.retain(|(one, _)| Some(one) == keep.as_ref());
            }
            Row::RetireCallIds(ids) => self.retired.extend(ids),
        }
    }

    pub(super) fn session(&self) -> SessionState {
        SessionState {
            custom_state: Arc::clone(self.states.current()),
            pending_client_tool_calls: self.pending.clone(),
            ..self.header.session.clone()
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let latest = self.header.run.as_ref();
        let run = latest.and_then(|latest| self.runs.iter().rfind(|run| run.id == latest.id));
        let found: Result<_, Infallible> = Snapshot::new(
            Header::clone(&self.header),
            self.session(),
            run.cloned(),
            self.open_step.as_deref().cloned(),
            |call| Ok(self.answered.contains_key(call)),
        );
        let Ok(snapshot) = found;
        snapshot
    }

    pub(super) fn extras(&self) -> SessionExtras {
        let mut staged: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (step, one) in &self.staged {
            staged.entry(step.clone()).or_default().push(one.clone());
        }
        let retired = self.retired.iter().cloned().collect();
        SessionExtras {
            children: self.children.clone(),
            staged,
            retired_call_ids: retired,
        }
    }
}

impl Header {
    /// A temporary header of a record, replaced in the same commit.
    fn placeholder() -> Self {
        let placeholder = SessionId::placeholder();
        let session = SessionState::new(placeholder, "", Timestamp::default());
        Self::created(session, Fence::default())
    }
}

/// Replaces the equal element, or appends.
fn put<T>(all: &mut Vec<T>, one: T, same: impl Fn(&T, &T) -> bool) {
    match all.iter_mut().rfind(|have| same(have, &one)) {
        Some(slot) => *slot = one,
        None => all.push(one),
    }
}

/// Checks that the rows can be written: state writes apply, and versions exist.
pub(super) fn check(
    sessions: &BTreeMap<SessionId, Record>,
    rows: &[(SessionId, Row)],
) -> Result<(), StoreError> {
    // The state of each session as it will be at this point of the commit.
    let mut drafts: BTreeMap<&SessionId, Draft> = BTreeMap::new();
    for (session, row) in rows {
        match row {
            Row::StateSet { value, .. } => {
                drafts.insert(session, Draft::new(Arc::clone(value), ArrayMode::Delta));
            }
            Row::StateRewind { to, .. } => {
                let state = sessions
                    .get(session)
                    .and_then(|record| record.states.at(*to));
                let state = state.ok_or_else(|| StoreError::Invalid {
                    session: session.clone(),
                    reason: format!("its state has no version {to}"),
                })?;
                drafts.insert(session, Draft::new(state, ArrayMode::Delta));
            }
            Row::StateWrites { writes, .. } => {
                let draft = drafts.entry(session).or_insert_with(|| {
                    let current = sessions.get(session).map(|record| record.states.current());
                    let base = current.map_or_else(empty, Arc::clone);
                    Draft::new(base, ArrayMode::Delta)
                });
                apply(draft, writes).map_err(|source| StoreError::State {
                    session: session.clone(),
                    source,
                })?;
            }
            // The others always can; `Record::write` names each of them.
            _ => {}
        }
    }
    Ok(())
}

fn empty() -> Arc<Value> {
    Arc::new(Value::Object(serde_json::Map::new()))
}

fn apply(draft: &mut Draft, writes: &StepWrites) -> Result<(), crate::state::StateError> {
    writes.iter().try_for_each(|op| draft.apply(op))
}
