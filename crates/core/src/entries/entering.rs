//! Reads, plans and commits until no other caller was faster.

use super::descendants::has_children;
use super::double_texting::waiting_run;
use super::{
    AsRead, Drive, Entered, Entries, EntryError, KnownSession, MAX_ATTEMPTS, Performer, Start,
    WaitingRun,
};
use crate::id::{IdSourceExt, MessageId, RunId, SessionId};
use crate::machine::RunState;
use crate::store::{Commit, Precondition, Snapshot, StoreError};

impl Entries {
    /// As [`Entries::enter`], for an entry that starts or continues a run.
    pub(super) async fn drive(
        &self,
        session: KnownSession,
        performer: &Performer,
        edits: Option<MessageId>,
        plan: impl Fn(Option<&Snapshot>, &Start) -> Result<Drive, EntryError>,
    ) -> Result<RunState, EntryError> {
        let id = session.id.clone();
        let plan = |found: Option<&Snapshot>, start: &Start| plan(found, start).map(Planned::Run);
        self.enter(session, performer, edits, plan).await?.run(&id)
    }

    /// Reads, plans and commits until no other caller was faster. What the caller has read is not
    /// read again, unless it has changed.
    pub(super) async fn enter(
        &self,
        session: KnownSession,
        performer: &Performer,
        edits: Option<MessageId>,
        plan: impl Fn(Option<&Snapshot>, &Start) -> Result<Planned, EntryError>,
    ) -> Result<Entered, EntryError> {
        let KnownSession { id, mut read } = session;
        let mut entering = self.entering(&id, performer)?;
        entering.edits = edits;
        loop {
            let found = self.read(&id, std::mem::take(&mut read)).await?;
            let start = self.start(&entering, found.as_ref()).await?;
            let planned = plan(found.as_ref(), &start)?;
            let entered = self.make(&mut entering, found.as_ref(), planned).await?;
            if let Some(entered) = entered {
                return Ok(entered);
            }
        }
    }

    pub(super) fn entering<'a>(
        &self,
        session: &'a SessionId,
        performer: &'a Performer,
    ) -> Result<Entering<'a>, EntryError> {
        Ok(Entering {
            session,
            performer,
            run_id: self.ids.run_id()?,
            edits: None,
            attempts: 0,
        })
    }

    /// Reads a session, unless the caller has.
    pub(super) async fn read(
        &self,
        session: &SessionId,
        read: AsRead,
    ) -> Result<Option<Snapshot>, EntryError> {
        let mut found = match read {
            AsRead::Unread => self.store.find(session).await?,
            AsRead::Absent => None,
            AsRead::Found(found) => Some(*found),
        };
        if let Some(child) = found.as_mut().filter(|found| !found.state.key().is_root()) {
            // The root keeps what the tree has used. Boxed: few sessions have a parent.
            let root = Box::pin(self.store.load(child.state.root().as_root())).await?;
            child.budget = root.and_then(|root| root.budget);
        }
        Ok(found)
    }

    /// Collects the inputs of a plan on a session as it was read.
    pub(super) async fn start(
        &self,
        entering: &Entering<'_>,
        found: Option<&Snapshot>,
    ) -> Result<Start, EntryError> {
        let root = found.map_or(entering.session, |found| found.state.root());
        // The turn begins after all that was committed, also by a process that ended before its stream had it.
        self.streams.catch_up(root).await?;
        let info = self.streams.info(root).await?;
        let (rollback, children) = match found {
            Some(found) => {
                let children = match has_children(found) {
                    // Boxed: every entry holds this future, and few sessions have children.
                    true => Box::pin(self.awaited_children(found)).await?,
                    false => Vec::new(),
                };
                (
                    self.rollback(found, entering.edits.as_ref()).await?,
                    children,
                )
            }
            None => (None, Vec::new()),
        };
        Ok(Start {
            rollback,
            children,
            run_id: entering.run_id.clone(),
            at: self.clock.now(),
            performer: entering.performer.clone(),
            after: info.map(|info| info.last).unwrap_or_default(),
        })
    }

    /// Makes the commit of an entry. Returns `None` if another caller was faster, so that the session is to be
    /// read again.
    pub(super) async fn make(
        &self,
        entering: &mut Entering<'_>,
        found: Option<&Snapshot>,
        planned: Planned,
    ) -> Result<Option<Entered>, EntryError> {
        let session = entering.session;
        let (commit, state, answers) = match planned {
            Planned::Run(drive) => (drive.commit, Some(drive.state), drive.answers),
            Planned::Wait(commit) => (commit, None, Vec::new()),
        };
        entering.attempts += 1;
        let commit = commit.fitting(self.streams.limits());
        let error = match (self.store.commit(commit).await, state) {
            (Ok(receipt), Some(state)) => {
                for answers in &answers {
                    answers.log_timeouts();
                }
                return Ok(Some(Entered::Run(state.fenced(&receipt))));
            }
            (Ok(receipt), None) => {
                let mine = receipt.sessions.get(session);
                let inbox = mine.map(|mine| mine.inbox.as_slice());
                let run = inbox.and_then(waiting_run).unwrap_or(&entering.run_id);
                return Ok(Some(waits(found, session, run)));
            }
            (
                Err(StoreError::Refused {
                    expected: Precondition::LeaseFree,
                    ..
                }),
                Some(state),
            ) => {
                let lease = found.and_then(|found| found.lease.as_ref());
                return Err(EntryError::StillHeld {
                    session: session.clone(),
                    run: state.run_id,
                    holder: lease
                        .map(|lease| lease.holder.clone())
                        .unwrap_or_default()
                        .to_string(),
                });
            }
            (Err(error), _) if error.is_conflict() && entering.attempts < MAX_ATTEMPTS => {
                tracing::debug!(event = "entry.conflict", %session, %error);
                return Ok(None);
            }
            (Err(error), state) if error.may_pass() => {
                // The commit may have been made all the same.
                if let Ok(Some(now)) = self.store.find(session).await
                    && let Some(entered) = entering.made(found, &now, state)
                {
                    return Ok(Some(entered));
                }
                error
            }
            (Err(error), _) => error,
        };
        Err(error.into())
    }
}

/// An entry in progress.
pub(super) struct Entering<'a> {
    session: &'a SessionId,
    performer: &'a Performer,
    /// The id of the run that it starts, and of the row that waits for one.
    run_id: RunId,
    /// The user message whose turn is removed, with all that followed.
    edits: Option<MessageId>,
    /// How often its commit was tried.
    attempts: usize,
}

impl Entering<'_> {
    /// Returns the result of a commit whose acknowledgement was lost, if it was made. `state` is the run that
    /// was to start; without one, a message was to wait.
    fn made(
        &self,
        before: Option<&Snapshot>,
        now: &Snapshot,
        state: Option<RunState>,
    ) -> Option<Entered> {
        let Some(state) = state else {
            let run = taken_by(now, &self.run_id)?;
            return Some(waits(Some(now), self.session, run));
        };
        let fence = now.fence;
        self.was_committed(before, now, &state)
            .then_some(Entered::Run(RunState { fence, ..state }))
    }

    /// Whether the run that was to start, or to be taken over, is now held by this performer. Without a lease
    /// nobody knows who took a run over, and a run that others may have taken over is not this performer's.
    fn was_committed(&self, before: Option<&Snapshot>, now: &Snapshot, wanted: &RunState) -> bool {
        let run = now.run.as_ref();
        let Some(run) = run.filter(|run| run.id == wanted.run_id && !run.status.is_ended()) else {
            return false;
        };
        let holder = now.lease.as_ref().map(|lease| &lease.holder);
        let me = self.performer.lease.as_ref().map(|(holder, _)| holder);
        let last = before.and_then(|before| before.run.as_ref());
        let is_started = last.is_none_or(|last| last.id != wanted.run_id);
        let is_untouched = is_started && now.takeovers == 0 && now.mark.effect == 0;
        // Several entries may start the run that messages wait for: it says which did.
        let is_mine = !is_started
            || wanted.run_id == self.run_id
            || run.inbox.iter().any(|entry| *entry == self.run_id.as_str());
        // The store chooses the fence of a new session.
        let is_held = holder == me && now.fence >= wanted.fence;
        is_held && is_mine && (me.is_some() || is_untouched)
    }
}

/// The commit that an entry plans.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, and nearly all are runs"
)]
pub(super) enum Planned {
    /// Starts or continues a run.
    Run(Drive),
    /// Writes a message that waits for the next run.
    Wait(Commit),
}

fn waits(found: Option<&Snapshot>, session: &SessionId, run: &RunId) -> Entered {
    let root = found.map_or(session, |found| found.state.root());
    Entered::Waits(WaitingRun {
        session: session.clone(),
        root: root.clone(),
        run: run.clone(),
    })
}

/// Returns the run that takes, or has taken, the waiting row of this id.
fn taken_by<'a>(now: &'a Snapshot, row: &RunId) -> Option<&'a RunId> {
    if now.inbox.iter().any(|waiting| waiting.id == row.as_str()) {
        return waiting_run(&now.inbox);
    }
    let run = now.run.as_ref()?;
    let took_it = run.inbox.iter().any(|taken| taken == row.as_str());
    took_it.then_some(&run.id)
}
