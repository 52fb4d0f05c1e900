//! The commit of an effect: how it is put together, and how it is made.

use std::sync::Arc;

use super::PerformError;
use super::patience::Patience;
use super::recorded::recorded;
use super::scope::{EffectContext, Scope};
use super::view::Family;
use crate::budget::{BudgetAction, BudgetChange};
use crate::id::{CallId, IdSourceExt};
use crate::machine::{EffectAddress, EffectKind, Event};
use crate::session::{Checkpoint, OpenCall, OpenStep, PendingCall, SessionStatus};
use crate::state::StepWrites;
use crate::store::{
    Change, Commit, EffectPosition, Field, OpenStepMark, Precondition, Receipt, SessionReceipt,
    Snapshot, StoreError,
};
use crate::stream::{Chunk, ChunkPayload, StreamStatus};
use crate::time::Timestamp;

/// Puts the commit of an effect together: everything in it is of the effect's session, and bears one
/// instant.
#[derive(Clone)]
#[must_use]
pub(super) struct EffectCommit<'a> {
    scope: Scope<'a>,
    commit: Commit,
    /// Whether budgets limit the session.
    is_limited: bool,
    /// The parent of the session, and its reference to it; `None` for a root.
    family: Option<&'a Arc<Family>>,
}

impl<'a> EffectContext<'a> {
    /// Begins the commit of the effect. It cannot be made by a run that was taken over, nor once the
    /// effect, or a later one of its run, was committed.
    #[inline]
    pub(super) fn begin(self) -> EffectCommit<'a> {
        let mut commit = self.scope.fenced_commit(self.now);
        commit.is_limited = self.ledger().is_some();
        commit.family = self.view.context.family.as_ref();
        if commit.is_limited && self.time_left().is_some() {
            commit = commit.budget(Some(self.budget_change(BudgetAction::Tick)));
        }
        match (&self.scope.effect.kind, &self.view.open) {
            (EffectKind::Tool { index, .. } | EffectKind::Child { index }, Some(open)) => {
                let call = open.call_at(*index);
                commit.when(Precondition::OpenCall {
                    step: open.id.clone(),
                    index: *index,
                    attempt: call.map_or(0, |(_, call)| call.attempts()),
                })
            }
            _ => commit
                .when(Precondition::Effect(self.scope.place(self.view.attempt)))
                .change(Change::Effect(self.at().n, None)),
        }
    }

    /// A checkpoint of the session after the commit, and the chunk that tells of it. The store fills
    /// in what the session is then.
    pub(super) fn checkpoint(self) -> Result<(Checkpoint, ChunkPayload), PerformError> {
        let checkpoint = Checkpoint {
            id: self.ports().ids.checkpoint_id()?,
            session_id: self.at().session_id.clone(),
            run_id: self.at().run_id.clone(),
            status: SessionStatus::Active,
            timestamp: self.now,
            step_count: 0,
            message_count: 0,
            state_version: 0,
            open_step: None,
        };
        let created = ChunkPayload::CheckpointCreated {
            checkpoint_id: checkpoint.id.clone(),
        };
        Ok((checkpoint, created))
    }
}

impl<'a> EffectCommit<'a> {
    /// The instant of the commit.
    pub(super) fn now(&self) -> Timestamp {
        self.commit.at
    }

    /// The address of the effect.
    pub(super) fn effect(&self) -> &'a EffectAddress {
        self.scope.at()
    }

    /// The parent of the session of the effect; `None` for a root.
    pub(super) fn family(&self) -> Option<&'a Family> {
        self.family.map(|family| &**family)
    }

    /// The text of the step that the commit moves into the history.
    pub(super) fn reply_text(&self) -> Option<String> {
        let mut changes = self.commit.changes.iter().rev();
        changes.find_map(|(_, change)| match change {
            Change::AppendStep(step) => step.assistant().content(),
            _ => None,
        })
    }

    /// The commit as stores take it.
    #[inline]
    pub(super) fn build(self) -> Commit {
        match self.family {
            Some(family) if family.persistent.is_some() => self.count_above(family),
            _ => self.commit,
        }
    }

    /// Counts what a persistent child uses as usage of those for which it works, too, in the same commit.
    fn count_above(mut self, family: &Family) -> Commit {
        let at = self.scope.at();
        let mine = self
            .commit
            .changes
            .iter()
            .filter(|(session, _)| *session == at.session_id);
        let used = mine.filter_map(|(_, change)| match change {
            Change::Usage(entry) => Some(entry),
            _ => None,
        });
        let above = family.persistent.iter().flat_map(|child| &child.above);
        let above = above.map(|one| (&one.session_id, one.agent_type.as_str()));
        let all = std::iter::once((&family.parent, &*at.agent_type)).chain(above);
        let counted = used.flat_map(|entry| {
            let all = all.clone();
            all.filter_map(|(session, agent)| {
                let entry = entry.as_sub_agents(agent)?;
                Some((session.clone(), Change::Usage(entry)))
            })
        });
        let counted: Vec<_> = counted.collect();
        self.commit.changes.extend(counted);
        self.commit
    }

    /// Hands the commit to code that adds to a plain one.
    pub(super) fn with(mut self, add: impl FnOnce(Commit) -> Commit) -> Self {
        self.commit = add(self.commit);
        self
    }

    /// Adds a precondition.
    #[inline]
    pub(super) fn when(mut self, precondition: Precondition) -> Self {
        let session = self.scope.at().session_id.clone();
        self.commit.preconditions.push((session, precondition));
        self
    }

    /// Refuses the commit when the open step is not as it was read: a call has come to something.
    #[inline]
    pub(super) fn unless_moved(self, open: Option<&OpenStep>) -> Self {
        self.when(Precondition::Open(open.map(OpenStepMark::of)))
    }

    /// Refuses the commit when the run is asked to stop.
    pub(super) fn unless_stopped(self) -> Self {
        let run = self.scope.at().run_id.clone();
        self.when(Precondition::Stop(run, false))
    }

    /// Refuses the commit when the run is asked to fail: nothing takes an abort back.
    pub(super) fn unless_aborted(self) -> Self {
        let run = self.scope.at().run_id.clone();
        self.when(Precondition::NotAborted(run))
    }

    /// Adds a change.
    #[inline]
    pub(super) fn change(mut self, change: Change) -> Self {
        let session = self.scope.at().session_id.clone();
        self.commit.changes.push((session, change));
        self
    }

    /// Adds changes.
    pub(super) fn changes(mut self, changes: impl IntoIterator<Item = Change>) -> Self {
        let session = &self.scope.at().session_id;
        let changes = changes.into_iter();
        let changes = changes.map(|change| (session.clone(), change));
        self.commit.changes.extend(changes);
        self
    }

    /// Sets fields.
    pub(super) fn set(self, fields: impl IntoIterator<Item = Field>) -> Self {
        self.changes(fields.into_iter().map(Change::Set))
    }

    /// Sets a call of the open step.
    #[inline]
    pub(super) fn set_call(self, index: u32, id: &CallId, call: &OpenCall) -> Self {
        let call = Box::new(call.clone());
        self.change(Change::OpenCall(index, id.clone(), call))
    }

    /// Writes to the state, where there is something to write.
    #[inline]
    pub(super) fn write_state(self, writes: &StepWrites) -> Self {
        if writes.is_empty() {
            return self;
        }
        self.change(Change::WriteState(writes.clone()))
    }

    /// Puts a question on the list, where the root finds its owner. Answers name a call by its id alone, so the commit
    /// is refused while another session of the tree waits for a call of this id.
    pub(super) fn ask(self, pending: PendingCall) -> Self {
        let at = self.scope.at();
        let call = pending.tool_call_id.clone();
        let free = Precondition::CallFree(call.clone(), at.session_id.clone());
        let owner = Field::CallOwner(call, Some(at.session_id.clone()));
        let mut asked = self.change(Change::Pending(Box::new(pending)));
        let root = &at.root_session_id;
        asked.commit.preconditions.push((root.clone(), free));
        let change = (root.clone(), Change::Set(owner));
        asked.commit.changes.push(change);
        asked
    }

    /// Counts what the session used or reserves, at the root of its tree.
    pub(super) fn budget(mut self, change: Option<Box<BudgetChange>>) -> Self {
        if let Some(change) = change {
            let root = self.scope.at().root_session_id.clone();
            self.commit.changes.push((root, Change::Budget(change)));
        }
        self
    }

    /// Drops a reservation that the run still holds when it ends.
    pub(super) fn end_budget(self) -> Self {
        self.end_budget_by(BudgetAction::End)
    }

    /// Drops all that the ledger keeps of the session, if it answers a single call: it has no other turn. The ledger
    /// would grow with every sub-agent that is done.
    pub(super) fn leave_budget(self) -> Self {
        let is_over = self.family().is_some_and(|one| one.persistent.is_none());
        self.end_budget_by(match is_over {
            true => BudgetAction::Leave,
            false => BudgetAction::End,
        })
    }

    fn end_budget_by(self, action: BudgetAction) -> Self {
        if !self.is_limited {
            return self;
        }
        let end = self.scope.budget_change(action);
        self.budget(Some(end))
    }

    /// Tells readers something.
    pub(super) fn tell(mut self, payloads: impl IntoIterator<Item = ChunkPayload>) -> Self {
        let (base, now) = (self.scope.base, self.commit.at);
        let chunks = payloads.into_iter();
        let chunks = chunks.map(|payload| Chunk::new(Arc::clone(base), now, payload));
        self.commit.chunks.extend(chunks);
        self
    }

    /// Adds chunks as they are.
    #[inline]
    pub(super) fn chunks(mut self, chunks: &[Chunk]) -> Self {
        self.commit.chunks.extend_from_slice(chunks);
        self
    }

    /// Sets the status of the stream, which is the root's to set.
    pub(super) fn stream(mut self, status: StreamStatus) -> Self {
        let at = self.scope.at();
        if at.session_id == at.root_session_id {
            self.commit.stream = Some(status);
        }
        self
    }
}

/// The number of changes that room is made for: those of a step that is settled.
const USUAL_CHANGES: usize = 8;

/// The outcome of a commit.
pub(super) enum CommitOutcome<T = Event> {
    /// It was made, and the session is this now.
    Made(SessionReceipt),
    /// It, or that of another attempt, had been made before, as what is stored shows.
    Before(T),
}

impl<'a> Scope<'a> {
    /// A commit of the run, which a run that was taken over cannot make.
    #[inline]
    pub(super) fn fenced_commit(self, now: Timestamp) -> EffectCommit<'a> {
        let at = self.at();
        let mut commit = EffectCommit {
            scope: self,
            commit: Commit::new(at.root_session_id.clone(), now),
            is_limited: false,
            family: None,
        };
        commit.commit.changes.reserve(USUAL_CHANGES);
        commit.when(Precondition::Fence(at.fence))
    }

    /// The place of an attempt at the effect.
    pub(super) fn place(self, attempt: u32) -> EffectPosition {
        let at = self.at();
        EffectPosition::new(at.run_id.clone(), at.step, at.n, attempt)
    }

    /// Makes the commit of the effect, as [`Scope::make`] does; what is stored tells its event when it
    /// was made before.
    pub(super) async fn write(
        self,
        commit: impl Fn() -> EffectCommit<'a>,
    ) -> Result<CommitOutcome, PerformError> {
        self.make(commit, |found| recorded(self, found)).await
    }

    /// Makes a commit. While the store cannot be reached it is tried again: what was paid for is not
    /// thrown away. A commit whose acknowledgement was lost is never made again before a look has
    /// shown that it was not made.
    ///
    /// `commit` puts it together: once, and again when it has to be made again. It gives the same
    /// commit each time, with the same ids and instants. `made` finds out by what is stored whether it
    /// was made before.
    pub(super) async fn make<T>(
        self,
        commit: impl Fn() -> EffectCommit<'a>,
        made: impl Fn(&Snapshot) -> Option<T>,
    ) -> Result<CommitOutcome<T>, PerformError> {
        let ports = self.ports;
        let mut patience = Patience::new(ports);
        let limits = ports.streams.limits();
        loop {
            self.await_hold().await?;
            let commit = commit().build().fitting(limits);
            let error = match ports.store.commit(commit).await {
                Ok(receipt) => {
                    ports.memory.keep_sequence(receipt.sequence);
                    return Ok(CommitOutcome::Made(self.committed(receipt)));
                }
                Err(error) => error,
            };
            ports.memory.forget();
            if self.lacks_another(&error) {
                return Err(PerformError::Store(error));
            }
            let is_overtaken = self.is_overtaken(&error);
            if !is_overtaken {
                // Also when the patience is over: what was made is told.
                let over = patience.bear(error, ports).await.err();
                if let Some(error) = over {
                    return Err(error);
                }
            }
            let found = self.snapshot().await?;
            if let Some(before) = made(&found) {
                return Ok(CommitOutcome::Before(before));
            }
            if is_overtaken {
                return Err(self.overtaken());
            }
        }
    }

    /// Whether a commit names another session that was deleted meanwhile. The run goes on without it.
    fn lacks_another(self, error: &StoreError) -> bool {
        let at = self.at();
        let is_own = |session| [&at.session_id, &at.root_session_id].contains(&session);
        matches!(error, StoreError::NotFound { session } if !is_own(session))
    }

    /// Resolves when the run may commit: at once where its host holds no lease, or the lease is valid;
    /// else when it was renewed.
    ///
    /// # Errors
    /// [`PerformError::Superseded`] when the lease is lost.
    async fn await_hold(self) -> Result<(), PerformError> {
        let ports = self.ports;
        let Some(hold) = &ports.hold else {
            return Ok(());
        };
        if hold.valid(ports.clock.as_ref()).await {
            return Ok(());
        }
        Err(self.superseded())
    }

    /// Whether the effect, or its call, was committed by another attempt.
    fn is_overtaken(self, error: &StoreError) -> bool {
        let StoreError::Refused { expected, .. } = error else {
            return false;
        };
        match expected {
            Precondition::Effect(_) | Precondition::OpenCall { .. } => true,
            // Somebody else's reply is there.
            Precondition::Open(None) => matches!(self.effect.kind, EffectKind::Model { .. }),
            _ => false,
        }
    }

    fn committed(self, mut receipt: Receipt) -> SessionReceipt {
        let at = self.at();
        let mut mine = receipt.sessions.remove(&at.session_id).unwrap_or_default();
        if !at.key().is_root() {
            // The counters of all budgets are the root's, and stay when the commit does not name it.
            mine.budget = match receipt.sessions.get(&at.root_session_id) {
                Some(root) => root.budget.clone(),
                None => self.ports.memory.view().and_then(|view| view.budget),
            };
        }
        mine
    }
}
