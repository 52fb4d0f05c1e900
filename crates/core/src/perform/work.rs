//! What an effect knows of its session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::patience::{Patience, patiently};
use super::recorded::recorded;
use super::{PerformError, Ports};
use crate::agent::{Agent, AgentContext};
use crate::id::{AgentId, CallId, IdSourceExt, SessionId, UserId};
use crate::machine::{At, Effect, EffectKind, Event};
use crate::message::Metadata;
use crate::session::{Checkpoint, OpenCall, OpenStep, RunRecord, SessionStatus};
use crate::state::{StepWrites, apply_writes};
use crate::store::{
    Change, Commit, Committed, EffectPlace, OpenMark, Page, Precondition, Receipt, Snapshot,
    StoreError,
};
use crate::stream::{Chunk, ChunkBase, ChunkPayload, Sequence};
use crate::time::Timestamp;
use crate::transcript::{PairedStep, Transcript};

/// What stays the same for a run.
#[derive(Debug)]
pub(super) struct Who {
    pub(super) agent: Agent,
    pub(super) user_id: Option<UserId>,
    pub(super) tags: Arc<[String]>,
    pub(super) metadata: Arc<Metadata>,
    pub(super) parent: Option<SessionId>,
}

/// The committed state, until it is let go of.
///
/// Writes are brought into a state in place while nobody else holds it, and into a copy of all of it
/// otherwise. What is remembered for the next effects is to be changed in place, so an effect lets go
/// of the state once its commit is made.
#[derive(Debug)]
struct Held(Mutex<Arc<Value>>);

impl Held {
    fn get(&self) -> MutexGuard<'_, Arc<Value>> {
        // It is replaced in whole assignments only.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        Self(Mutex::new(Arc::clone(&self.get())))
    }
}

/// What an effect knows of its session. A clone is cheap and its own.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) who: Arc<Who>,
    pub(super) run: Arc<RunRecord>,
    pub(super) open: Option<Arc<OpenStep>>,
    /// The calls of the open step that somebody outside answered.
    pub(super) answered: Arc<[CallId]>,
    state: Held,
    pub(super) state_version: u64,
    pub(super) message_count: usize,
    cuts: u32,
    /// A place in the stream that the run's own chunks have not passed, where it is known.
    pub(super) sequence: Option<Sequence>,
    /// The history, once an effect needed it.
    pub(super) transcript: Option<Transcript>,
    /// Whether somebody asked the run to stop.
    pub(super) stop: bool,
    /// How often the run was taken over since its last commit.
    pub(super) takeovers: u32,
    /// Which attempt at the effect this is; 0 when nothing was noted of it.
    pub(super) attempt: u32,
}

/// What a look at the store gives.
pub(super) enum Look {
    /// The effect is to be performed.
    Work(Box<Work>),
    /// Its commit was made before.
    Done(Event),
}

impl Work {
    fn of(snapshot: Snapshot, at: &At, ports: &Ports) -> Result<Self, PerformError> {
        let superseded = || PerformError::Superseded {
            session: at.session_id.clone(),
        };
        let run = snapshot.run.ok_or_else(superseded)?;
        let session = snapshot.state;
        let mut context = AgentContext::new(at.session_id.clone());
        context.run_id = Some(at.run_id.clone());
        context.user_id.clone_from(&session.user_id);
        let agent = ports.agents.resolve(&at.agent_type, &context)?;
        let metadata = session.metadata.into_iter();
        Ok(Self {
            who: Arc::new(Who {
                agent,
                user_id: session.user_id,
                tags: session.tags.into(),
                metadata: Arc::new(metadata.map(|(key, value)| (key, value.into())).collect()),
                parent: session.parent_session_id,
            }),
            run: Arc::new(run),
            answered: snapshot.answered.into(),
            open: snapshot.open_step.map(Arc::new),
            state: Held(Mutex::new(session.custom_state)),
            state_version: snapshot.state_version,
            message_count: snapshot.message_count,
            cuts: snapshot.cuts,
            sequence: None,
            transcript: None,
            stop: snapshot.stop.is_some_and(|stop| stop.run_id == at.run_id),
            takeovers: snapshot.takeovers,
            attempt: snapshot.mark.attempt_at(at.n),
        })
    }

    pub(super) fn agent(&self) -> &Agent {
        &self.who.agent
    }

    /// The committed state.
    pub(super) fn state(&self) -> Arc<Value> {
        Arc::clone(&self.state.get())
    }

    /// Lets go of the state: what this effect knew of it is no longer needed.
    pub(super) fn let_go(&self) {
        *self.state.get() = Arc::default();
    }

    /// The open step of an effect.
    pub(super) fn open_step(&self, at: &At) -> Result<&Arc<OpenStep>, PerformError> {
        let open = self.open.as_ref().filter(|open| open.step == at.step);
        open.ok_or_else(|| PerformError::Missing {
            session: at.session_id.clone(),
            what: "that open step",
        })
    }

    /// The history; read once.
    pub(super) async fn history(
        &mut self,
        at: &At,
        ports: &Ports,
    ) -> Result<Transcript, PerformError> {
        if let Some(history) = &self.transcript {
            return Ok(history.clone());
        }
        let store = &ports.store;
        let messages = patiently(ports, || store.messages(at.key(), Page::ALL)).await?;
        let (mut history, _) = Transcript::load(messages.items);
        let family = patiently(ports, || store.family(at.key())).await?;
        history.retire_call_ids(family.retired_call_ids);
        self.transcript = Some(history.clone());
        Ok(history)
    }
}

/// Reads the session of an effect, or remembers it.
pub(super) async fn look(effect: &Effect, ports: &Ports) -> Result<Look, PerformError> {
    if let Some(memo) = &ports.memo {
        let known = lock(memo).work.clone();
        if let Some(work) = known {
            return Ok(Look::Work(Box::new(work)));
        }
    }
    look_again(effect, ports).await
}

/// Reads the session of an effect, whatever is remembered.
pub(super) async fn look_again(effect: &Effect, ports: &Ports) -> Result<Look, PerformError> {
    let before = changes(ports);
    let snapshot = read(&effect.at, ports).await?;
    let look = judge(effect, snapshot, ports)?;
    if let Look::Work(work) = &look {
        remember_read(ports, work, before);
    }
    Ok(look)
}

/// What is to be done about an effect by what is stored.
pub(super) fn judge(
    effect: &Effect,
    snapshot: Snapshot,
    ports: &Ports,
) -> Result<Look, PerformError> {
    if let Some(event) = recorded(effect, &snapshot) {
        return Ok(Look::Done(event));
    }
    let is_call = matches!(effect.kind, EffectKind::Tool { .. });
    if !is_call && snapshot.mark.effect >= effect.at.n {
        // Later effects were committed: the run has gone on without this attempt.
        return Err(PerformError::Overtaken {
            session: effect.at.session_id.clone(),
        });
    }
    let work = Work::of(snapshot, &effect.at, ports)?;
    Ok(Look::Work(Box::new(work)))
}

/// Reads the session of an effect, patiently, unless the run was taken over.
pub(super) async fn read(at: &At, ports: &Ports) -> Result<Snapshot, PerformError> {
    let superseded = || PerformError::Superseded {
        session: at.session_id.clone(),
    };
    let snapshot = patiently(ports, || ports.store.load(at.key())).await?;
    let snapshot = snapshot.ok_or_else(superseded)?;
    let is_mine =
        snapshot.fence == at.fence && snapshot.run.as_ref().is_some_and(|run| run.id == at.run_id);
    if is_mine {
        Ok(snapshot)
    } else {
        Err(superseded())
    }
}

/// What a host that performs a run alone remembers of it.
#[derive(Debug, Default)]
pub(super) struct Memo {
    work: Option<Work>,
    /// How often it changed: what was read before a change is not remembered after it.
    changes: u64,
}

fn lock(memo: &Mutex<Memo>) -> MutexGuard<'_, Memo> {
    // What is remembered is replaced in whole assignments only.
    memo.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remember(ports: &Ports, change: impl FnOnce(&mut Option<Work>)) {
    if let Some(memo) = &ports.memo {
        let mut memo = lock(memo);
        memo.changes += 1;
        change(&mut memo.work);
    }
}

/// How often what is remembered has changed.
fn changes(ports: &Ports) -> u64 {
    ports.memo.as_ref().map_or(0, |memo| lock(memo).changes)
}

/// Remembers what was read, unless something was written since.
fn remember_read(ports: &Ports, work: &Work, before: u64) {
    if let Some(memo) = &ports.memo {
        let mut memo = lock(memo);
        if memo.changes == before {
            memo.work = Some(work.clone());
        }
    }
}

/// The open step that is remembered.
pub(super) fn remembered_step(ports: &Ports) -> Option<Arc<OpenStep>> {
    let memo = lock(ports.memo.as_ref()?);
    memo.work.as_ref()?.open.clone()
}

/// Remembers the history.
pub(super) fn keep_history(ports: &Ports, history: &Transcript) {
    remember(ports, |memo| {
        if let Some(work) = memo {
            work.transcript = Some(history.clone());
        }
    });
}

/// Forgets what is remembered: the next effect reads.
pub(super) fn forget(ports: &Ports) {
    remember(ports, |memo| *memo = None);
}

/// Remembers what a commit left behind. `change` says what it did beside the counters.
pub(super) fn update(ports: &Ports, committed: &Committed, change: impl FnOnce(&mut Work)) {
    remember(ports, |memo| {
        if let Some(work) = memo {
            change(work);
            work.stop = committed.stop.is_some();
            let expected = (work.message_count, work.cuts, work.state_version);
            let Committed {
                message_count,
                cuts,
                state_version,
                ..
            } = *committed;
            if expected != (message_count, cuts, state_version) {
                // Somebody else wrote beside the run.
                *memo = None;
            }
        }
    });
}

impl Work {
    /// Remembers a result of one call.
    pub(super) fn set_call(&mut self, call: &CallId, result: OpenCall) {
        let Some(open) = &mut self.open else { return };
        let open = Arc::make_mut(open);
        let index = open.message.tool_calls().position(|made| made.id == *call);
        if let Some(slot) = index.and_then(|index| open.calls.get_mut(index)) {
            *slot = result;
        }
    }

    /// Remembers what the calls of a step came to, as far as that is more than was known.
    pub(super) fn set_calls(&mut self, step: &OpenStep) {
        let Some(open) = &mut self.open else { return };
        if open.id != step.id {
            return;
        }
        let open = Arc::make_mut(open);
        for (slot, known) in open.calls.iter_mut().zip(&step.calls) {
            if slot.result.is_none() && known.result.is_some() {
                *slot = known.clone();
            }
        }
    }

    /// Remembers that a step moved into the history.
    pub(super) fn settle(&mut self, step: PairedStep, writes: &StepWrites) {
        self.open = None;
        self.message_count += step.message_count();
        self.write(writes);
        if let Some(history) = &mut self.transcript
            && history.push_step(step).is_err()
        {
            self.transcript = None;
        }
    }

    /// Remembers writes to the state.
    pub(super) fn write(&mut self, writes: &StepWrites) {
        if writes.is_empty() {
            return;
        }
        match apply_writes(Arc::make_mut(&mut self.state.get()), writes) {
            Ok(()) => self.state_version += 1,
            // The numbers no longer agree, so what is remembered is forgotten.
            Err(error) => tracing::warn!(event = "state.writes_do_not_apply", %error),
        }
    }
}

/// The commit of an effect. It cannot be made by a run that was taken over, nor once the effect, or a
/// later one of its run, was committed.
pub(super) fn begin(effect: &Effect, work: &Work, now: Timestamp) -> Commit {
    let at = &effect.at;
    let session = || at.session_id.clone();
    let commit = fenced(at, now);
    match (&effect.kind, &work.open) {
        (EffectKind::Tool { index, .. }, Some(open)) => {
            let (step, index) = (open.id.clone(), *index);
            let place = usize::try_from(index).ok();
            let call = place.and_then(|place| open.calls.get(place));
            let attempt = call.map_or(0, OpenCall::attempts);
            let open = Precondition::OpenCall {
                step,
                index,
                attempt,
            };
            commit.when_in(session(), open)
        }
        _ => {
            let place = EffectPlace::new(at.run_id.clone(), at.step, at.n, work.attempt);
            commit
                .when_in(session(), Precondition::Effect(place))
                .then_in(session(), Change::Effect(at.n, None))
        }
    }
}

/// A commit of a run, which a run that was taken over cannot make.
pub(super) fn fenced(at: &At, now: Timestamp) -> Commit {
    Commit::new(at.root_session_id.clone(), now)
        .when_in(at.session_id.clone(), Precondition::Fence(at.fence))
}

/// The open step is as it was read: no call has come to anything since.
pub(super) fn as_read(commit: Commit, at: &At, open: Option<&OpenStep>) -> Commit {
    let open = open.map(OpenMark::of);
    commit.when_in(at.session_id.clone(), Precondition::Open(open))
}

/// Adds changes of the effect's session.
pub(super) fn then(commit: Commit, at: &At, changes: impl IntoIterator<Item = Change>) -> Commit {
    let changes = changes.into_iter();
    changes.fold(commit, |commit, change| {
        commit.then_in(at.session_id.clone(), change)
    })
}

/// Tells readers something.
pub(super) fn say(
    commit: Commit,
    base: &Arc<ChunkBase>,
    now: Timestamp,
    payloads: impl IntoIterator<Item = ChunkPayload>,
) -> Commit {
    let payloads = payloads.into_iter();
    payloads.fold(commit, |commit, payload| {
        commit.say(Chunk::new(Arc::clone(base), now, payload))
    })
}

/// A checkpoint of what the session is after a commit, and the chunk that tells of it.
pub(super) fn checkpoint(
    at: &At,
    ports: &Ports,
    now: Timestamp,
) -> Result<(Checkpoint, ChunkPayload), PerformError> {
    let checkpoint = Checkpoint::new(
        ports.ids.checkpoint_id()?,
        at.session_id.clone(),
        at.run_id.clone(),
        SessionStatus::Active,
        now,
    );
    let created = ChunkPayload::CheckpointCreated {
        checkpoint_id: checkpoint.id.clone(),
    };
    Ok((checkpoint, created))
}

/// The base of an effect's chunks.
pub(super) fn base(at: &At) -> Arc<ChunkBase> {
    Arc::new(ChunkBase::new(
        AgentId::of_session(&at.session_id),
        &at.agent_type,
        at.session_id.clone(),
        at.run_id.clone(),
        at.step,
    ))
}

/// What a commit came to.
pub(super) enum Written {
    /// It was made, and the session is this now.
    Now(Committed),
    /// It, or that of another attempt, had been made before: this is what it came to.
    Before(Event),
}

/// Makes the commit of an effect. While the store cannot be reached it is tried again: what was paid
/// for is not thrown away. A commit whose acknowledgement was lost is never made again before a look
/// has shown that it was not made.
///
/// `commit` puts it together: once, and again when it has to be made again. It gives the same commit
/// each time, with the same ids and instants.
pub(super) async fn write(
    effect: &Effect,
    ports: &Ports,
    commit: impl Fn() -> Commit,
) -> Result<Written, PerformError> {
    match make(effect, ports, commit, |found| recorded(effect, found)).await? {
        Made::Now(committed) => Ok(Written::Now(committed)),
        Made::Before(event) => Ok(Written::Before(event)),
    }
}

/// What became of a commit.
pub(super) enum Made<T> {
    /// It was made, and the session is this now.
    Now(Committed),
    /// It had been made before, as a look has shown.
    Before(T),
}

/// Makes a commit that `commit` puts together; `made` finds out by what is stored whether it was made
/// before.
pub(super) async fn make<T>(
    effect: &Effect,
    ports: &Ports,
    commit: impl Fn() -> Commit,
    made: impl Fn(&Snapshot) -> Option<T>,
) -> Result<Made<T>, PerformError> {
    let at = &effect.at;
    let mut patience = Patience::new(ports);
    let limits = ports.streams.limits();
    loop {
        ports.held(at).await?;
        let error = match ports.store.commit(commit().fitting(limits)).await {
            Ok(receipt) => {
                let sequence = receipt.sequence;
                remember(ports, |memo| {
                    if let Some(work) = memo {
                        work.sequence = Some(sequence);
                    }
                });
                return Ok(Made::Now(of_session(receipt, at)));
            }
            Err(error) => error,
        };
        forget(ports);
        let is_overtaken = is_overtaken(effect, &error);
        if !is_overtaken {
            // Also when the patience is over: what was made is told.
            let over = patience.bear(error, ports).await.err();
            if let Some(error) = over {
                return Err(error);
            }
        }
        let found = read(at, ports).await?;
        if let Some(before) = made(&found) {
            return Ok(Made::Before(before));
        }
        if is_overtaken {
            return Err(PerformError::Overtaken {
                session: at.session_id.clone(),
            });
        }
    }
}

/// Whether an effect, or a call, was committed by another attempt.
fn is_overtaken(effect: &Effect, error: &StoreError) -> bool {
    let StoreError::Refused { expected, .. } = error else {
        return false;
    };
    match expected {
        Precondition::Effect(_) | Precondition::OpenCall { .. } => true,
        // Somebody else's reply is there.
        Precondition::Open(None) => matches!(effect.kind, EffectKind::Model { .. }),
        _ => false,
    }
}

fn of_session(mut receipt: Receipt, at: &At) -> Committed {
    receipt.sessions.remove(&at.session_id).unwrap_or_default()
}
