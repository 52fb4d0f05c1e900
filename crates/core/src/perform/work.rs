//! What an effect knows of its session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::patience::patiently;
use super::recorded::recorded;
use super::{PerformError, Ports};
use crate::agent::{AgentContext, AnyAgent};
use crate::id::{CallId, SessionId, UserId};
use crate::machine::{At, Effect, EffectKind, Event};
use crate::message::Metadata;
use crate::session::{OpenCall, OpenStep, RunRecord};
use crate::state::{StepWrites, apply_writes};
use crate::store::{Committed, Page, Snapshot};
use crate::stream::Sequence;
use crate::transcript::{PairedStep, Transcript};

/// What stays the same for a run.
#[derive(Debug)]
pub(super) struct Who {
    pub(super) agent: AnyAgent,
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

    pub(super) fn agent(&self) -> &AnyAgent {
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

pub(super) fn remember(ports: &Ports, change: impl FnOnce(&mut Option<Work>)) {
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
