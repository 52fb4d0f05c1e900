//! The context that a running tool reads from and acts through.

use std::sync::Arc;

use serde::Serialize;
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde_json::Value;

use super::ToolResult;
use crate::abort::AbortSignal;
use crate::bounds::Bounds;
use crate::id::{CallId, RunId, SessionId, UserId};
use crate::message::Metadata;
use crate::session::IdempotencyKey;
use crate::shared_state::SharedState;
use crate::shared_str::SharedStr;
use crate::state::{Draft, PatchOp, StateError, to_json};
use crate::usage::CustomUsage;

/// Why metadata of a session could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// There is none under this key.
    #[error("the session has no metadata {key:?}; give it with `Turn::metadata`")]
    Missing {
        /// The key.
        key: String,
    },
    /// It is not of the type that was asked for.
    #[error("the session's metadata {key:?} does not have the shape of the type it is read as")]
    Shape {
        /// The key.
        key: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// The value of a key that is absent: `None` for an `Option`, an error for any other type.
struct Absent;

impl<'de> Deserializer<'de> for Absent {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("the value is absent"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_none()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Something a tool made happen while it ran.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ToolEvent {
    /// The state changed.
    StatePatch(Vec<PatchOp>),
    /// An event of the user's own.
    Custom {
        /// Its name.
        name: String,
        /// Its data.
        data: Value,
    },
    /// Something was used.
    Usage(CustomUsage),
}

/// Takes a tool's events while it runs.
pub trait ToolEvents: Send + Sync {
    /// Takes one. Must not block.
    fn emit(&self, call: &CallId, event: ToolEvent);
}

struct Inner {
    agent_type: SharedStr,
    session_id: SessionId,
    run_id: RunId,
    step: u32,
    call_id: CallId,
    user: Option<UserId>,
    tags: Arc<[String]>,
    metadata: Arc<Metadata>,
    idempotency_key: IdempotencyKey,
    state: SharedState,
    events: Option<Arc<dyn ToolEvents>>,
    abort: AbortSignal,
    bounds: Bounds,
}

/// A tool's surroundings. Clones are the same.
///
/// ```
/// use helix_agents::prelude::*;
///
/// async fn charge(cents: u64, cx: &ToolCx) -> ToolResult<String> {
///     let tenant: String = cx.metadata("tenant")?;
///     // The same key when the call is repeated after a crash.
///     Ok(format!("charged {cents} to {tenant} under {}", cx.idempotency_key()))
/// }
/// ```
#[derive(Clone)]
pub struct ToolCx {
    inner: Arc<Inner>,
}

impl ToolCx {
    /// Surroundings for one call.
    pub fn builder(session_id: SessionId, run_id: RunId, call_id: CallId) -> ToolCxBuilder {
        ToolCxBuilder {
            agent_type: SharedStr::default(),
            session_id,
            run_id,
            step: 0,
            call_id,
            user: None,
            tags: None,
            metadata: None,
            idempotency_key: None,
            state: None,
            events: None,
            abort: None,
            bounds: Bounds::default(),
        }
    }

    /// The agent that called.
    #[must_use]
    pub fn agent_type(&self) -> &str {
        &self.inner.agent_type
    }

    /// The session.
    #[must_use]
    pub fn session_id(&self) -> &SessionId {
        &self.inner.session_id
    }

    /// The run.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.inner.run_id
    }

    /// The step, from 1 in each turn.
    #[must_use]
    pub fn step(&self) -> u32 {
        self.inner.step
    }

    /// The call.
    #[must_use]
    pub fn call_id(&self) -> &CallId {
        &self.inner.call_id
    }

    /// The session's owner.
    #[must_use]
    pub fn user(&self) -> Option<&UserId> {
        self.inner.user.as_ref()
    }

    /// The session's tags.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.inner.tags
    }

    /// Metadata of the session as a type: a text as it is, anything else read from JSON. Read what may be
    /// absent as an `Option`, which is `None` then.
    ///
    /// ```
    /// use helix_agents_core::{ToolCx, ToolResult};
    ///
    /// fn greeting(cx: &ToolCx) -> ToolResult<String> {
    ///     let tenant: String = cx.metadata("tenant")?;
    ///     let locale: Option<String> = cx.metadata("locale")?;
    ///     Ok(format!("{tenant} in {}", locale.as_deref().unwrap_or("en")))
    /// }
    /// ```
    ///
    /// # Errors
    /// When there is none under this key and the type is no `Option`, or it does not have the type's
    /// shape. The model reads that the tool failed; the log says why.
    pub fn metadata<T: DeserializeOwned>(&self, key: &str) -> ToolResult<T> {
        let Some(value) = self.inner.metadata.get(key) else {
            let missing = |_| MetadataError::Missing {
                key: key.to_owned(),
            };
            return Ok(T::deserialize(Absent).map_err(missing)?);
        };
        let typed = match value {
            Value::String(text) => T::deserialize(value).or_else(|_| serde_json::from_str(text)),
            other => T::deserialize(other),
        };
        Ok(typed.map_err(|source| MetadataError::Shape {
            key: key.to_owned(),
            source,
        })?)
    }

    /// The same text for the same call, however often and wherever it is tried.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        self.inner.idempotency_key.as_str()
    }

    /// The state as a type: what was committed, plus this call's own writes.
    ///
    /// # Errors
    /// Tells the model that the tool failed when the state does not have the type's shape.
    pub fn get_state<S: DeserializeOwned>(&self) -> ToolResult<S> {
        Ok(self.inner.state.get_as()?)
    }

    /// The state as JSON.
    #[must_use]
    pub fn state(&self) -> &SharedState {
        &self.inner.state
    }

    /// Changes the state as a type. Appends to lists compose with those of parallel calls. Where the
    /// session has no state yet, the change starts from the type's default.
    ///
    /// # Errors
    /// When the state does not have the type's shape, would not be JSON, or the change is too large;
    /// nothing is changed then.
    pub fn update_state<S>(&self, change: impl FnOnce(&mut S)) -> ToolResult<()>
    where
        S: Serialize + DeserializeOwned + Default,
    {
        let patches = self.inner.state.update(change)?;
        self.emit_patches(patches);
        Ok(())
    }

    /// Changes the state through a draft, at a cost that does not depend on its size. Increments
    /// and appends compose with those of parallel calls.
    ///
    /// # Errors
    /// The change's own error, or [`StateError::Exceeded`] as its cause when it is too large; nothing is
    /// changed then.
    pub fn edit_state(
        &self,
        change: impl FnOnce(&mut Draft) -> Result<(), StateError>,
    ) -> ToolResult<()> {
        let patches = self.inner.state.edit(change)?;
        self.emit_patches(patches);
        Ok(())
    }

    fn emit_patches(&self, patches: Vec<PatchOp>) {
        if !patches.is_empty() {
            self.send(ToolEvent::StatePatch(patches));
        }
    }

    /// Sends an event of your own to whoever reads the stream.
    ///
    /// # Errors
    /// [`StateError`] as its cause when the data is not JSON, or deeper or larger than is
    /// [taken](crate::bounds).
    pub fn emit(&self, name: impl Into<String>, data: impl Serialize) -> ToolResult<()> {
        let data = to_json(&data)?;
        let name = name.into();
        self.inner.bounds.check_named("an event", &name, &data)?;
        self.send(ToolEvent::Custom { name, data });
        Ok(())
    }

    /// Records that something was used, with the session.
    ///
    /// # Errors
    /// [`Exceeded`](crate::bounds::Exceeded) as its cause when its data is deeper or larger than is
    /// [taken](crate::bounds).
    pub fn record_usage(&self, usage: CustomUsage) -> ToolResult<()> {
        let data = usage.data.as_ref().unwrap_or(&Value::Null);
        let bounds = self.inner.bounds;
        bounds.check_named("an entry of usage", &usage.name, data)?;
        self.send(ToolEvent::Usage(usage));
        Ok(())
    }

    fn send(&self, event: ToolEvent) {
        if let Some(events) = &self.inner.events {
            events.emit(&self.inner.call_id, event);
        }
    }

    /// Tells when to stop.
    #[must_use]
    pub fn abort_signal(&self) -> &AbortSignal {
        &self.inner.abort
    }
}

impl std::fmt::Debug for ToolCx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolCx")
            .field("session_id", &self.inner.session_id)
            .field("run_id", &self.inner.run_id)
            .field("call_id", &self.inner.call_id)
            .finish_non_exhaustive()
    }
}

/// Puts a [`ToolCx`] together.
#[must_use]
pub struct ToolCxBuilder {
    agent_type: SharedStr,
    session_id: SessionId,
    run_id: RunId,
    step: u32,
    call_id: CallId,
    user: Option<UserId>,
    tags: Option<Arc<[String]>>,
    metadata: Option<Arc<Metadata>>,
    idempotency_key: Option<IdempotencyKey>,
    state: Option<SharedState>,
    events: Option<Arc<dyn ToolEvents>>,
    abort: Option<AbortSignal>,
    bounds: Bounds,
}

impl std::fmt::Debug for ToolCxBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolCxBuilder").finish_non_exhaustive()
    }
}

impl ToolCxBuilder {
    /// The agent that calls.
    pub fn agent_type(mut self, agent_type: impl Into<SharedStr>) -> Self {
        self.agent_type = agent_type.into();
        self
    }

    /// The step.
    pub fn step(mut self, step: u32) -> Self {
        self.step = step;
        self
    }

    /// The session's owner, tags and metadata.
    pub fn session_fields(
        mut self,
        user: Option<UserId>,
        tags: Arc<[String]>,
        metadata: Arc<Metadata>,
    ) -> Self {
        self.user = user;
        self.tags = Some(tags);
        self.metadata = Some(metadata);
        self
    }

    /// The key of the call, where another run made it.
    pub fn idempotency_key(mut self, key: impl Into<IdempotencyKey>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// The state as this call sees it.
    pub fn state(mut self, state: SharedState) -> Self {
        self.state = Some(state);
        self
    }

    /// Who takes the call's events.
    #[doc(hidden)]
    pub fn events(mut self, events: Arc<dyn ToolEvents>) -> Self {
        self.events = Some(events);
        self
    }

    /// How large what the call says may be.
    pub(crate) fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Sets the signal that tells the call to stop.
    pub fn abort(mut self, abort: AbortSignal) -> Self {
        self.abort = Some(abort);
        self
    }

    /// The surroundings.
    #[must_use]
    pub fn build(self) -> ToolCx {
        let made = || IdempotencyKey::of(&self.session_id, &self.run_id, &self.call_id);
        let idempotency_key = self.idempotency_key.unwrap_or_else(made);
        ToolCx {
            inner: Arc::new(Inner {
                agent_type: self.agent_type,
                session_id: self.session_id,
                run_id: self.run_id,
                step: self.step,
                call_id: self.call_id,
                user: self.user,
                tags: self.tags.unwrap_or_default(),
                metadata: self.metadata.unwrap_or_default(),
                idempotency_key,
                state: self.state.unwrap_or_default(),
                events: self.events,
                abort: self.abort.unwrap_or_default(),
                bounds: self.bounds,
            }),
        }
    }
}
