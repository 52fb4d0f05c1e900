//! A session as one document, and writing the rows of a plan to it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use helix_agents::core::message::Message;
use helix_agents::core::session::{
    Checkpoint, OpenStep, PendingCall, RunRecord, SessionState, SubSessionRef,
};
use helix_agents::core::state::{StepWrites, apply_writes};
use helix_agents::core::store::{AnsweredCall, Header, Row, Snapshot, StoreError, Unstage};
use helix_agents::core::stored::Stored;
use helix_agents::core::usage::UsageEntry;
use helix_agents::core::{CallId, SessionId, StepId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::streams::Stream;

/// A session with everything that belongs to it, and its stream when it is a root.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) header: Option<Arc<Header>>,
    pub(crate) messages: Vec<Message>,
    /// Every version of the state, from 1.
    pub(crate) states: Vec<Arc<Value>>,
    pub(crate) runs: Vec<RunRecord>,
    pub(crate) checkpoints: Vec<Checkpoint>,
    pub(crate) open_step: Option<OpenStep>,
    pub(crate) pending: BTreeMap<CallId, PendingCall>,
    pub(crate) children: Vec<SubSessionRef>,
    pub(crate) usage: Vec<UsageEntry>,
    pub(crate) staged: Vec<(StepId, CallId, StepWrites)>,
    pub(crate) retired: BTreeSet<CallId>,
    #[serde(default)]
    pub(crate) answered: BTreeMap<CallId, AnsweredCall>,
    pub(crate) stream: Option<Stream>,
}

impl Stored for Document {
    const KIND: &'static str = "document";
    const VERSION: u32 = 1;
}

/// Replaces the item that is the same, or appends.
fn upsert<T>(all: &mut Vec<T>, one: T, same: impl Fn(&T, &T) -> bool) {
    match all.iter_mut().find(|have| same(have, &one)) {
        Some(slot) => *slot = one,
        None => all.push(one),
    }
}

impl Document {
    /// Whether the document has content and is stored.
    pub(crate) fn is_kept(&self) -> bool {
        self.header.is_some() || self.stream.is_some()
    }

    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        let header = self.header.clone()?;
        let latest = header.run.as_ref().map(|run| &run.id);
        let run = self
            .runs
            .iter()
            .find(|run| Some(&run.id) == latest)
            .cloned();
        let mut session: SessionState = header.session.clone();
        session.custom_state = self.states.last().cloned()?;
        session.pending_client_tool_calls = self.pending.clone();
        let found: Result<_, Infallible> = Snapshot::new(
            Arc::unwrap_or_clone(header),
            session,
            run,
            self.open_step.clone(),
            |call| Ok(self.answered.contains_key(call)),
        );
        found.ok()
    }

    /// The state of the session at a version.
    pub(crate) fn state(
        &self,
        session: &SessionId,
        version: u64,
    ) -> Result<Arc<Value>, StoreError> {
        let index = usize::try_from(version)
            .ok()
            .and_then(|version| version.checked_sub(1));
        let found = index.and_then(|index| self.states.get(index));
        found.cloned().ok_or_else(|| StoreError::Invalid {
            session: session.clone(),
            reason: format!("its state has no version {version}"),
        })
    }

    /// The number of messages that stay when the history is cut to `count`, so that no step is split.
    pub(crate) fn whole_steps(&self, count: usize) -> usize {
        let mut keep = count.min(self.messages.len());
        while matches!(self.messages.get(keep), Some(Message::Tool(_))) {
            keep -= 1;
        }
        keep
    }

    /// Writes one row of a plan.
    ///
    /// No `_` arm, and a lint that forbids one: a kind that is added to the enum must not be lost here.
    #[deny(clippy::wildcard_enum_match_arm)]
    pub(crate) fn write(&mut self, session: &SessionId, row: Row) -> Result<(), StoreError> {
        match row {
            Row::DeleteAll => *self = Self::default(),
            Row::Messages { messages, .. } => self.messages.extend(messages),
            Row::TruncateMessages { keep } => {
                for message in self.messages.split_off(keep) {
                    if let Message::Assistant(cut) = message {
                        self.retired
                            .extend(cut.tool_calls().map(|call| call.id.clone()));
                    }
                }
            }
            Row::StateSet { value, .. } => self.states.push(value),
            Row::StateWrites { version, writes } => {
                let mut state = self.state(session, version - 1)?;
                apply_writes(Arc::make_mut(&mut state), &writes).map_err(|source| {
                    let session = session.clone();
                    StoreError::State { session, source }
                })?;
                self.states.push(state);
            }
            Row::StateRewind { to, .. } => self.states.push(self.state(session, to)?),
            Row::Run(run) => upsert(&mut self.runs, *run, |a, b| a.id == b.id),
            Row::Checkpoint(checkpoint) => {
                self.checkpoints.retain(|have| have.id != checkpoint.id);
                self.checkpoints.push(checkpoint);
            }
            Row::DropCheckpoints { after } => {
                let kept = self
                    .checkpoints
                    .iter()
                    .position(|one| Some(&one.id) == after.as_ref());
                self.checkpoints.truncate(kept.map_or(0, |kept| kept + 1));
            }
            Row::OpenStep(step) => self.open_step = step.map(Arc::unwrap_or_clone),
            Row::OpenCall(call, open) => {
                if let Some(step) = &mut self.open_step {
                    step.set_call(&call, *open);
                }
            }
            Row::Pending(call) => drop(self.pending.insert(call.tool_call_id.clone(), *call)),
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
            Row::ForgetAnswered(calls) => self.answered.retain(|call, _| !calls.contains(call)),
            Row::Child(child) => upsert(&mut self.children, *child, |a, b| {
                a.session_id == b.session_id
            }),
            Row::UpdateChild(child) => {
                let mut known = self.children.iter_mut();
                if let Some(known) = known.find(|one| one.session_id == child.session_id) {
                    *known = *child;
                }
            }
            Row::Unlink(calls) => {
                self.children
                    .retain(|child| !calls.contains(&child.tool_call_id));
            }
            Row::Usage(entry) => self.usage.push(entry),
            Row::Stage(step, call, writes) => {
                let staged = (step, call, writes);
                upsert(&mut self.staged, staged, |a, b| {
                    (&a.0, &a.1) == (&b.0, &b.1)
                });
            }
            Row::Unstage(Unstage::Step(step)) => self.staged.retain(|(have, ..)| *have != step),
            Row::Unstage(Unstage::AllBut(keep)) => {
                self.staged.retain(|(have, ..)| Some(have) == keep.as_ref());
            }
            Row::RetireCallIds(ids) => self.retired.extend(ids),
        }
        Ok(())
    }
}
