//! The session of an effect, as the effect knows it.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::PerformError;
use super::scope::Scope;
use crate::agent::{AgentContext, AnyAgent};
use crate::budget::BudgetLedger;
use crate::id::{CallId, RunId, SessionId, UserId};
use crate::message::{Metadata, UserMessage};
use crate::session::{
    ChildStatus, OpenCall, OpenStep, PersistentChild, RunRecord, SessionAbove, SessionState,
    SubSessionRef,
};
use crate::shared_str::SharedStr;
use crate::state::{StepWrites, apply_writes};
use crate::store::{Change, SessionReceipt, Snapshot};
use crate::stream::Sequence;
use crate::transcript::{PairedStep, Transcript};

/// The part of a session that stays the same for a run.
#[derive(Debug)]
pub(super) struct RunContext {
    pub(super) agent: AnyAgent,
    /// The name of the agent's model.
    pub(super) model: SharedStr,
    pub(super) user_id: Option<UserId>,
    pub(super) tags: Arc<[String]>,
    pub(super) metadata: Arc<Metadata>,
    pub(super) family: Option<Arc<Family>>,
}

/// The parent of a session, and its reference to the session.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) parent: SessionId,
    pub(super) persistent: Option<Box<PersistentChild>>,
    /// The reference of the parent to a persistent child.
    link: Option<SubSessionRef>,
}

impl Family {
    fn of(session: &SessionState) -> Option<Arc<Self>> {
        Some(Arc::new(Self {
            parent: session.parent_session_id.clone()?,
            persistent: session.persistent.clone(),
            link: session.persistent_link(),
        }))
    }

    /// The sessions that record what the persistent children of this session use, but for itself. `agent` is its own.
    pub(super) fn above(&self, agent: &str) -> Vec<SessionAbove> {
        let Some(child) = &self.persistent else {
            return Vec::new();
        };
        let parent = SessionAbove::new(self.parent.clone(), agent);
        std::iter::once(parent)
            .chain(child.above.iter().cloned())
            .collect()
    }

    /// Notes in the reference of the parent what a run of a persistent child has come to.
    pub(super) fn noted(&self, run: &RunId, status: ChildStatus) -> Option<Change> {
        let link = self.link.clone()?;
        Some(Change::UpdateChild(Box::new(link.noted(run, status))))
    }
}

/// The committed state, until it is let go of.
///
/// Writes are brought into a state in place while nobody else holds it, and into a copy of all of it
/// otherwise. What is remembered for the next effects is to be changed in place, so an effect lets go
/// of the state once its commit is made.
#[derive(Debug)]
struct Held(Mutex<Arc<Value>>);

/// The value that takes the place of a state that was let go of: `null`, shared by all.
static LET_GO: LazyLock<Arc<Value>> = LazyLock::new(Arc::default);

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

/// A session as an effect read it, or as a host remembers it. A clone is cheap and its own.
#[derive(Debug, Clone)]
pub(super) struct SessionView {
    pub(super) context: Arc<RunContext>,
    pub(super) run: Arc<RunRecord>,
    pub(super) open: Option<Arc<OpenStep>>,
    /// The calls of the open step that somebody outside answered.
    pub(super) answered: Arc<[CallId]>,
    state: Held,
    state_version: u64,
    message_count: usize,
    cuts: u32,
    /// A place in the stream that the run's own chunks have not passed, where it is known.
    pub(super) sequence: Option<Sequence>,
    /// The history, once an effect needed it.
    pub(super) transcript: Option<Transcript>,
    /// The ids of calls that other sessions of the tree wait for.
    pub(super) taken_ids: Arc<[CallId]>,
    /// Whether somebody asked the run to stop.
    pub(super) stop: bool,
    /// How often the run was taken over since its last commit.
    pub(super) takeovers: u32,
    /// Which attempt at the effect this is; 0 when nothing was noted of it.
    pub(super) attempt: u32,
    /// What the sessions of the tree have used and reserved, where there are limits.
    pub(super) budget: Option<Arc<BudgetLedger>>,
}

impl SessionView {
    /// The view that what is stored gives.
    pub(super) fn of(snapshot: Snapshot, scope: Scope<'_>) -> Result<Self, PerformError> {
        let at = scope.at();
        let stop = scope.is_stopped_by(snapshot.stop.as_ref());
        let run = snapshot.run.ok_or_else(|| scope.superseded())?;
        let session = snapshot.state;
        let mut context = AgentContext::new(at.session_id.clone());
        context.run_id = Some(at.run_id.clone());
        context.user_id.clone_from(&session.user_id);
        let agent = scope.ports.agents.resolve(&at.agent_type, &context)?;
        let family = Family::of(&session);
        let owned = session.client_tool_call_ownership.iter();
        let taken = owned.filter(|(_, owner)| **owner != at.session_id);
        let taken_ids = taken.map(|(call, _)| call.clone()).collect();
        let metadata = session.metadata.into_iter();
        Ok(Self {
            context: Arc::new(RunContext {
                model: agent.model().name().into(),
                agent,
                user_id: session.user_id,
                tags: session.tags.into(),
                metadata: Arc::new(metadata.map(|(key, value)| (key, value.into())).collect()),
                family,
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
            taken_ids,
            stop,
            takeovers: snapshot.takeovers,
            attempt: snapshot.mark.attempt_at(at.n),
            budget: snapshot.budget,
        })
    }

    pub(super) fn agent(&self) -> &AnyAgent {
        &self.context.agent
    }

    /// The committed state.
    pub(super) fn state(&self) -> Arc<Value> {
        Arc::clone(&self.state.get())
    }

    /// The version of the committed state.
    pub(super) fn state_version(&self) -> u64 {
        self.state_version
    }

    /// Lets go of the state: what this effect knew of it is no longer needed.
    pub(super) fn let_go(&self) {
        *self.state.get() = Arc::clone(&LET_GO);
    }

    /// The open step of an effect.
    pub(super) fn open_step(&self, scope: Scope<'_>) -> Result<&Arc<OpenStep>, PerformError> {
        let step = scope.at().step;
        let open = self.open.as_ref().filter(|open| open.step == step);
        open.ok_or_else(|| scope.missing("that open step"))
    }

    /// Whether this is what a commit left behind, by the numbers that every write raises.
    pub(super) fn agrees_with(&self, committed: &SessionReceipt) -> bool {
        let expected = (self.message_count, self.cuts, self.state_version);
        let SessionReceipt {
            message_count,
            cuts,
            state_version,
            ..
        } = *committed;
        expected == (message_count, cuts, state_version)
    }

    /// Sets what is known of one call.
    pub(super) fn set_call(&mut self, call: &CallId, known: OpenCall) {
        if let Some(open) = &mut self.open {
            Arc::make_mut(open).set_call(call, known);
        }
    }

    /// Sets what is known of the calls of a step, as far as that is more than was known.
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

    /// Moves the open step into the history.
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

    /// Adds a message of a user to the history.
    pub(super) fn add_user(&mut self, message: UserMessage) {
        self.message_count += 1;
        if let Some(history) = &mut self.transcript {
            history.push_user(message);
        }
    }

    /// The number of messages in the history.
    pub(super) fn message_count(&self) -> usize {
        self.message_count
    }

    /// Lets go of a history that has this many messages now. It is read again when it is needed.
    pub(super) fn forget_history(&mut self, message_count: usize) {
        self.message_count = message_count;
        self.transcript = None;
    }

    /// Takes over a history with one message more: it stands for what is left out of prompts.
    pub(super) fn add_stand_in(&mut self, history: Transcript) {
        self.message_count += 1;
        self.transcript = Some(history);
    }

    /// Applies writes to the state.
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
