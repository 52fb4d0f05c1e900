//! Calls hooks: the parent's, the agent's, the execution's, in this order.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::work::Work;
use super::{PerformError, Ports};
use crate::hooks::{AgentHooks, HookCx};
use crate::machine::At;
use crate::shared_state::SharedState;
use crate::state::StepWrites;
use crate::stream::ChunkPayload;

/// The hooks of a run, over one view of the state.
pub(super) struct Hooks<'a> {
    at: &'a At,
    work: &'a Work,
    ports: &'a Ports,
    state: Option<SharedState>,
    said: Arc<Mutex<Vec<ChunkPayload>>>,
}

impl<'a> Hooks<'a> {
    /// Hooks over a state. What they write is theirs alone until it is committed.
    pub(super) fn over(at: &'a At, work: &'a Work, ports: &'a Ports, state: &Arc<Value>) -> Self {
        let hooks = Self::on(at, work, ports, None);
        if hooks.is_empty() {
            return hooks;
        }
        let state = SharedState::of_committed(Arc::clone(state)).bounded(ports.bounds());
        Self {
            state: Some(state),
            ..hooks
        }
    }

    /// Hooks over a state after some writes, which are not theirs.
    pub(super) fn after(
        at: &'a At,
        work: &'a Work,
        ports: &'a Ports,
        state: &Arc<Value>,
        writes: &StepWrites,
    ) -> Result<Self, PerformError> {
        let hooks = Self::on(at, work, ports, None);
        if hooks.is_empty() {
            return Ok(hooks);
        }
        let state = SharedState::after(Arc::clone(state), writes)?.bounded(ports.bounds());
        Ok(Self {
            state: Some(state),
            ..hooks
        })
    }

    /// Hooks over a view that somebody else writes, too.
    pub(super) fn on(
        at: &'a At,
        work: &'a Work,
        ports: &'a Ports,
        state: Option<SharedState>,
    ) -> Self {
        Self {
            at,
            work,
            ports,
            state,
            said: Arc::default(),
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        Self::is_none(self.work, self.ports)
    }

    /// Whether a run has none.
    pub(super) fn is_none(work: &Work, ports: &Ports) -> bool {
        ports.parent_hooks.is_empty()
            && work.agent().hooks().is_empty()
            && ports.execution_hooks.is_empty()
    }

    /// All of them, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<dyn AgentHooks>> {
        let own = self.work.agent().hooks().iter();
        let parents = self.ports.parent_hooks.iter();
        parents.chain(own).chain(&self.ports.execution_hooks)
    }

    /// The surroundings of the call of a hook. `what` names it within its step.
    pub(super) fn cx(&self, what: &str, index: usize) -> HookCx {
        let At {
            session_id,
            run_id,
            step,
            ..
        } = self.at;
        let who = &self.work.who;
        let said = Arc::clone(&self.said);
        HookCx::builder(session_id.clone(), run_id.clone())
            .agent_type(&self.at.agent_type)
            .step(*step)
            .invocation_id(format!("{session_id}:{run_id}:{step}:{what}:{index}"))
            .session_fields(
                who.user_id.clone(),
                Arc::clone(&who.tags),
                Arc::clone(&who.metadata),
            )
            .parent_session_id(who.parent.clone())
            .state(self.state.clone().unwrap_or_default())
            .abort(self.ports.abort.clone())
            .bounds(self.ports.bounds())
            .emit(move |event_name, data| {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                said.push(ChunkPayload::Custom { event_name, data });
            })
            .build()
    }

    /// The state that is committed.
    pub(super) fn committed(&self) -> Arc<Value> {
        self.work.state()
    }

    /// The state as the hooks left it.
    pub(super) fn state(&self) -> Result<Arc<Value>, PerformError> {
        match &self.state {
            Some(state) => Ok(state.get()?),
            None => Ok(self.work.state()),
        }
    }

    /// What they wrote.
    pub(super) fn writes(&self) -> Result<StepWrites, PerformError> {
        match &self.state {
            Some(state) => Ok(state.writes()?),
            None => Ok(StepWrites::default()),
        }
    }

    /// What they told readers, once.
    pub(super) fn take_said(&self) -> Vec<ChunkPayload> {
        std::mem::take(&mut self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Calls one hook of every kind that is registered, in order. A hook that fails is logged.
macro_rules! fire {
    ($hooks:expr, $method:ident, $what:expr, $payload:expr) => {
        if !$hooks.is_empty() {
            let payload = $payload;
            for (index, hook) in $hooks.iter().enumerate() {
                let cx = $hooks.cx($what, index);
                let failure =
                    match $crate::perform::guard::caught(hook.$method(&payload, &cx)).await {
                        Ok(Ok(())) => continue,
                        Ok(Err(error)) => error.to_string(),
                        Err(panicked) => panicked.to_string(),
                    };
                tracing::warn!(
                    event = "hook.failed",
                    hook = stringify!($method),
                    invocation = cx.invocation_id,
                    error = failure,
                );
            }
        }
    };
}
pub(super) use fire;
