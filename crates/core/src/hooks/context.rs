//! The context of a hook.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::abort::AbortSignal;
use crate::bounds::Bounds;
use crate::id::{RunId, SessionId, UserId};
use crate::message::Metadata;
use crate::shared_state::SharedState;
use crate::shared_str::SharedStr;
use crate::state::{Draft, StateError, to_json};

type Emit = Arc<dyn Fn(String, Value) + Send + Sync>;

/// The context of a hook. State written here is committed with the step.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::{AfterTool, HookCx, HookResult};
/// # #[derive(Default, serde::Serialize, serde::Deserialize)] struct Stats { calls: u32 }
///
/// fn count(call: &AfterTool<'_>, cx: &HookCx) -> HookResult {
///     cx.update_state(|stats: &mut Stats| stats.calls += 1)?;
///     cx.emit("tool_settled", json!({ "tool": call.call.name, "step": cx.step }))?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct HookCx {
    /// The name of the agent.
    pub agent_type: SharedStr,
    /// The session of the run.
    pub session_id: SessionId,
    /// The run that calls the hook.
    pub run_id: RunId,
    /// The parent's session, in a sub-agent.
    pub parent_session_id: Option<SessionId>,
    /// The number of the step in its turn, from 1.
    pub step: u32,
    /// An id that is the same when this call of the hook is repeated after a crash.
    pub invocation_id: String,
    /// The user who owns the session.
    pub user_id: Option<UserId>,
    /// The tags of the session.
    pub tags: Arc<[String]>,
    /// The metadata of the session.
    pub metadata: Arc<Metadata>,
    /// Signals when the hook must stop.
    pub abort: AbortSignal,
    state: SharedState,
    emit: Option<Emit>,
    bounds: Bounds,
}

impl HookCx {
    /// Starts building the context of one hook call.
    #[doc(hidden)]
    pub fn builder(session_id: SessionId, run_id: RunId) -> HookCxBuilder {
        HookCxBuilder(Self {
            agent_type: SharedStr::default(),
            session_id,
            run_id,
            parent_session_id: None,
            step: 0,
            invocation_id: String::new(),
            user_id: None,
            tags: Arc::from([]),
            metadata: Arc::default(),
            abort: AbortSignal::default(),
            state: SharedState::default(),
            emit: None,
            bounds: Bounds::default(),
        })
    }

    /// Returns the state as a type.
    ///
    /// # Errors
    /// [`StateError`] if the state does not have the type's shape.
    pub fn get_state<S: DeserializeOwned>(&self) -> Result<S, StateError> {
        self.state.get_as()
    }

    /// Returns the state as this hook sees it.
    #[must_use]
    #[doc(hidden)]
    pub fn state(&self) -> &SharedState {
        &self.state
    }

    /// Changes the state as a type. The change is committed with the step. If the session has no state
    /// yet, the change starts from the type's default.
    ///
    /// # Errors
    /// [`StateError`] if the state does not have the type's shape, would not be JSON, or the change
    /// is too large; nothing is changed then.
    pub fn update_state<S>(&self, change: impl FnOnce(&mut S)) -> Result<(), StateError>
    where
        S: Serialize + DeserializeOwned + Default,
    {
        self.state.update(change).map(drop)
    }

    /// Changes the state through a draft. The change is committed with the step.
    ///
    /// # Errors
    /// The [`StateError`] of the change, or [`StateError::Exceeded`] if it is too large;
    /// nothing is changed then.
    pub fn edit_state(
        &self,
        change: impl FnOnce(&mut Draft) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        self.state.edit(change).map(drop)
    }

    /// Sends a custom event to the readers of the stream.
    ///
    /// # Errors
    /// [`StateError`] if the data is not JSON, or exceeds the [limits](crate::bounds) on depth or size.
    pub fn emit(&self, name: impl Into<String>, data: impl Serialize) -> Result<(), StateError> {
        let data = to_json(&data)?;
        let name = name.into();
        self.bounds.check_named("an event", &name, &data)?;
        if let Some(emit) = &self.emit {
            emit(name, data);
        }
        Ok(())
    }
}

impl std::fmt::Debug for HookCx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HookCx")
            .field("session_id", &self.session_id)
            .field("run_id", &self.run_id)
            .field("step", &self.step)
            .field("invocation_id", &self.invocation_id)
            .finish_non_exhaustive()
    }
}

/// A builder of a [`HookCx`].
#[derive(Debug)]
#[must_use]
pub struct HookCxBuilder(HookCx);

impl HookCxBuilder {
    /// Sets the name of the agent.
    pub(crate) fn agent_type(mut self, agent_type: impl Into<SharedStr>) -> Self {
        self.0.agent_type = agent_type.into();
        self
    }

    /// Sets the number of the step.
    pub(crate) fn step(mut self, step: u32) -> Self {
        self.0.step = step;
        self
    }

    /// Sets the id of this hook call.
    pub(crate) fn invocation_id(mut self, id: impl Into<String>) -> Self {
        self.0.invocation_id = id.into();
        self
    }

    /// Sets the session's owner, tags and metadata.
    pub(crate) fn session_fields(
        mut self,
        user_id: Option<UserId>,
        tags: Arc<[String]>,
        metadata: Arc<Metadata>,
    ) -> Self {
        self.0.user_id = user_id;
        self.0.tags = tags;
        self.0.metadata = metadata;
        self
    }

    /// Sets the parent's session.
    pub(crate) fn parent_session_id(mut self, parent: Option<SessionId>) -> Self {
        self.0.parent_session_id = parent;
        self
    }

    /// Sets the state that the hook reads and writes.
    pub fn state(mut self, state: SharedState) -> Self {
        self.0.state = state;
        self
    }

    /// Sets the function that receives the hook's events.
    pub(crate) fn emit(mut self, emit: impl Fn(String, Value) + Send + Sync + 'static) -> Self {
        self.0.emit = Some(Arc::new(emit));
        self
    }

    /// Sets the limits on what the hook emits.
    pub(crate) fn bounds(mut self, bounds: Bounds) -> Self {
        self.0.bounds = bounds;
        self
    }

    /// Sets the signal that tells the hook to stop.
    pub(crate) fn abort(mut self, abort: AbortSignal) -> Self {
        self.0.abort = abort;
        self
    }

    /// Returns the finished context.
    #[must_use]
    pub fn build(self) -> HookCx {
        self.0
    }
}
