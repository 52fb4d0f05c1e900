//! Counts tool runs and model calls, in all processes of a play.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use helix_agents_core::hooks::{AgentHooks, BeforeModelCall, BeforeTool, HookCx, HookResult};
use helix_agents_core::{CallId, SessionId};

/// Hooks that count tool runs and model calls. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Observer {
    seen: Arc<Mutex<ObservedCounts>>,
}

/// The place of a model call: the agent, the number of the turn, and that of the replies in it. Sub-agents of a
/// scenario have different names.
pub(super) type ModelCallPlace = (String, usize, usize);

/// The counts so far.
#[derive(Debug, Clone, Default)]
pub(super) struct ObservedCounts {
    /// The number of starts of each call, and whether more than one is allowed.
    pub(super) starts: BTreeMap<CallId, (usize, bool)>,
    /// The same by the session of the call: a sub-agent that is started again may use the ids of the first.
    pub(super) started: BTreeMap<(SessionId, CallId), (usize, bool)>,
    /// The number of model calls at each place of the history.
    pub(super) asked: BTreeMap<ModelCallPlace, usize>,
}

impl Observer {
    fn lock(&self) -> MutexGuard<'_, ObservedCounts> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn seen(&self) -> ObservedCounts {
        self.lock().clone()
    }
}

#[async_trait]
impl AgentHooks for Observer {
    async fn before_tool(&self, payload: &BeforeTool<'_>, cx: &HookCx) -> HookResult {
        // What a companion tool does, its commit does.
        if payload.tool.name.starts_with("companion__") {
            return Ok(());
        }
        let may_repeat = payload.tool.options.is_repeatable() || payload.tool.has_reconcile;
        let mut seen = self.lock();
        let place = (cx.session_id.clone(), payload.call.id.clone());
        seen.started.entry(place).or_insert((0, may_repeat)).0 += 1;
        let start = seen.starts.entry(payload.call.id.clone());
        start.or_insert((0, may_repeat)).0 += 1;
        Ok(())
    }

    async fn before_llm_call(&self, payload: &BeforeModelCall<'_>, cx: &HookCx) -> HookResult {
        let history = payload.prompt.history();
        let place = (
            cx.agent_type.to_string(),
            history.visible_user_messages(),
            history.assistant_messages_since_user(),
        );
        *self.lock().asked.entry(place).or_default() += 1;
        Ok(())
    }
}
