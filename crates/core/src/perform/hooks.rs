//! Calls hooks: the parent's, the agent's, the execution's, in this order.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;

use super::PerformError;
use super::scope::EffectContext;
use crate::hooks::{AgentHooks, AgentResumed, AgentStart, HookCx, SuspendReason};
use crate::machine::EffectAddress;
use crate::message::{Message, ResultStatus, UserMessage};
use crate::session::{OpenCall, RunTrigger};
use crate::shared_state::SharedState;
use crate::state::StepWrites;
use crate::stream::ChunkPayload;
use crate::transcript::Transcript;

/// The hooks of a run, over one view of the state.
pub(super) struct Hooks<'a> {
    cx: EffectContext<'a>,
    state: Option<SharedState>,
    /// The chunks that hooks emitted and no commit has taken; made when the first hook is called.
    said: OnceLock<Arc<Mutex<Vec<ChunkPayload>>>>,
}

impl<'a> Hooks<'a> {
    /// Hooks over a state. What they write is theirs alone until it is committed.
    pub(super) fn over(cx: EffectContext<'a>, state: &Arc<Value>) -> Self {
        let hooks = Self::on(cx, None);
        if hooks.is_empty() {
            return hooks;
        }
        let state = SharedState::of_committed(Arc::clone(state)).bounded(cx.ports().bounds());
        Self {
            state: Some(state),
            ..hooks
        }
    }

    /// Hooks over a state after some writes, which are not theirs.
    pub(super) fn after(
        cx: EffectContext<'a>,
        state: &Arc<Value>,
        writes: &StepWrites,
    ) -> Result<Self, PerformError> {
        let hooks = Self::on(cx, None);
        if hooks.is_empty() {
            return Ok(hooks);
        }
        let state = SharedState::after(Arc::clone(state), writes)?.bounded(cx.ports().bounds());
        Ok(Self {
            state: Some(state),
            ..hooks
        })
    }

    /// Hooks over a view that somebody else writes, too.
    pub(super) fn on(cx: EffectContext<'a>, state: Option<SharedState>) -> Self {
        Self {
            cx,
            state,
            said: OnceLock::new(),
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        Self::is_none(self.cx)
    }

    /// Whether a run has none.
    pub(super) fn is_none(cx: EffectContext<'_>) -> bool {
        let ports = cx.ports();
        ports.parent_hooks.is_empty()
            && cx.view.agent().hooks().is_empty()
            && ports.execution_hooks.is_empty()
    }

    /// All of them, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<dyn AgentHooks>> {
        let own = self.cx.view.agent().hooks().iter();
        let ports = self.cx.ports();
        let parents = ports.parent_hooks.iter();
        parents.chain(own).chain(&ports.execution_hooks)
    }

    /// The surroundings of the call of a hook. `what` names it within its step.
    pub(super) fn cx(&self, what: &str, index: usize) -> HookCx {
        let EffectAddress {
            session_id,
            run_id,
            step,
            agent_type,
            ..
        } = self.cx.at();
        let (ports, run) = (self.cx.ports(), &self.cx.view.context);
        let said = Arc::clone(self.said.get_or_init(Arc::default));
        HookCx::builder(session_id.clone(), run_id.clone())
            .agent_type(agent_type)
            .step(*step)
            .invocation_id(format!("{session_id}:{run_id}:{step}:{what}:{index}"))
            .session_fields(
                run.user_id.clone(),
                Arc::clone(&run.tags),
                Arc::clone(&run.metadata),
            )
            .parent_session_id(run.family.as_ref().map(|family| family.parent.clone()))
            .state(self.state.clone().unwrap_or_default())
            .abort(ports.abort.clone())
            .bounds(ports.bounds())
            .emit(move |event_name, data| {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                said.push(ChunkPayload::Custom { event_name, data });
            })
            .build()
    }

    /// The state as the hooks left it.
    pub(super) fn state(&self) -> Result<Arc<Value>, PerformError> {
        match &self.state {
            Some(state) => Ok(state.get()?),
            None => Ok(self.cx.view.state()),
        }
    }

    /// The writes of the hooks.
    pub(super) fn writes(&self) -> Result<StepWrites, PerformError> {
        match &self.state {
            Some(state) => Ok(state.writes()?),
            None => Ok(StepWrites::default()),
        }
    }

    /// Takes what they told readers.
    pub(super) fn take_said(&self) -> Vec<ChunkPayload> {
        let said = self.said.get();
        let said = said.map(|said| said.lock().unwrap_or_else(PoisonError::into_inner));
        said.map_or_else(Vec::new, |mut said| std::mem::take(&mut *said))
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

impl Hooks<'_> {
    /// Fires the hooks of a run that begins, or goes on.
    pub(super) async fn fire_started(&self, history: &Transcript) -> Result<(), PerformError> {
        if self.cx.view.run.trigger == RunTrigger::Continue {
            self.fire_resumed().await;
            return Ok(());
        }
        // A notice to the model may stand before the messages of the turn. Older records do not say how
        // many these are.
        let messages = usize::try_from(self.cx.view.run.messages).unwrap_or(usize::MAX);
        let messages = if messages == 0 { usize::MAX } else { messages };
        let mut input: Vec<UserMessage> = Vec::new();
        for message in history.iter().rev().take(messages) {
            match message {
                Message::User(user) => input.push(user.clone()),
                _ => break,
            }
        }
        input.reverse();
        let state = self.state()?;
        fire!(
            self,
            on_agent_start,
            "on_agent_start",
            AgentStart::new(&input, &state)
        );
        Ok(())
    }

    /// Fires the hooks of a run that goes on after a pause.
    pub(super) async fn fire_resumed(&self) {
        let reason = if self.every_answer(is_decided) {
            SuspendReason::Approval
        } else if self.every_answer(has_timed_out) {
            SuspendReason::Timeout
        } else if self.waited_for_children() {
            SuspendReason::AwaitingChildren
        } else {
            SuspendReason::ClientTool
        };
        fire!(
            self,
            on_agent_resumed,
            "on_agent_resumed",
            AgentResumed::new(reason, &self.cx.view.answered)
        );
    }

    /// Whether nothing was answered in the session itself, and children worked on its calls.
    fn waited_for_children(&self) -> bool {
        let view = self.cx.view;
        let mut calls = view.open.iter().flat_map(|open| &open.calls);
        view.answered.is_empty() && calls.any(|call| call.child.is_some())
    }

    /// Whether there are answers, and every call that was answered is like this.
    fn every_answer(&self, is_so: fn(&OpenCall) -> bool) -> bool {
        let view = self.cx.view;
        let Some(open) = &view.open else {
            return false;
        };
        let mut answered = open
            .calls()
            .filter(|(call, _)| view.answered.contains(&call.id))
            .peekable();
        answered.peek().is_some() && answered.all(|(_, open)| is_so(open))
    }
}

/// Whether a person decided about the call.
fn is_decided(open: &OpenCall) -> bool {
    open.approval.is_some() || has_status(open, ResultStatus::Denied)
}

/// Whether nobody answered the call before its deadline.
fn has_timed_out(open: &OpenCall) -> bool {
    has_status(open, ResultStatus::TimedOut)
}

fn has_status(open: &OpenCall, status: ResultStatus) -> bool {
    let result = open.result.as_ref();
    result.is_some_and(|result| result.status == status)
}
