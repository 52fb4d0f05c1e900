//! What users and servers talk to: a runtime, whatever engine is behind it.
//!
//! [`Runtime`] is the port: erased, in JSON values, so that a server can be built on any of them.
//! [`RuntimeExt`] puts types on top. A run that was started goes on whoever looks; a [`Handle`] is a
//! place to look from.

mod backend;
mod error;
mod handle;
mod outcome;
mod run_reader;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::de::DeserializeOwned;

use crate::agent::{Agent, AgentRegistry};
use crate::entries::{Execute, Submitted, ToolAnswer};
use crate::hooks::AgentHooks;
use crate::id::{IdSource, RunId, SessionId};
use crate::message::UserMessage;
use crate::session::{PendingCall, RunRecord};
use crate::store::SessionKey;
use crate::time::Clock;

pub use backend::Backend;
pub use error::RuntimeError;
pub use handle::Handle;
pub use outcome::{Outcome, Pause};
pub use run_reader::RunReader;

/// A run that was started, durably.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartedRun {
    /// The session.
    pub session_id: SessionId,
    /// Its root.
    pub root_session_id: SessionId,
    /// The run.
    pub run_id: RunId,
}

impl StartedRun {
    /// A run that was started.
    #[must_use]
    pub fn new(session: SessionKey<'_>, run_id: RunId) -> Self {
        Self {
            session_id: session.session.clone(),
            root_session_id: session.root.clone(),
            run_id,
        }
    }

    /// How its session is named to a store.
    #[must_use]
    pub fn key(&self) -> SessionKey<'_> {
        SessionKey::new(&self.root_session_id, &self.session_id)
    }
}

/// What a caller adds to one run.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// Hooks of this run alone, after the agent's own. They are gone when the process is.
    pub hooks: Vec<Arc<dyn AgentHooks>>,
}

impl RunOptions {
    /// Adds hooks.
    #[must_use]
    pub fn hooks(mut self, hooks: impl AgentHooks + 'static) -> Self {
        self.hooks.push(Arc::new(hooks));
        self
    }
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOptions")
            .field("hooks", &self.hooks.len())
            .finish()
    }
}

/// Runs agents on some engine.
///
/// `start` and `resume` return when the run is durable; it goes on by itself. Entries are refused
/// with the [`EntryError`](crate::entries::EntryError) that says why, and then nothing was written.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait Runtime: Send + Sync + fmt::Debug {
    /// Where sessions and streams are.
    fn backend(&self) -> &Backend;

    /// The agents it can run.
    fn agents(&self) -> &Arc<AgentRegistry>;

    /// The time it goes by.
    fn clock(&self) -> &Arc<dyn Clock>;

    /// Where its ids come from.
    fn ids(&self) -> &Arc<dyn IdSource>;

    /// Starts a turn of an agent that is registered.
    async fn start(
        &self,
        request: Execute,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError>;

    /// Goes on after a pause whose calls are all answered, or after an interruption.
    async fn resume(
        &self,
        session: &SessionId,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError>;

    /// Answers a pending call. Durable when it returns.
    async fn submit_tool_result(&self, answer: ToolAnswer) -> Result<Submitted, RuntimeError>;

    /// Waits for the end of a run, in whatever process it is performed. Safe to drop.
    async fn ended(&self, run: &StartedRun) -> Result<RunRecord, RuntimeError>;
}

/// Types on top of any runtime.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait RuntimeExt: Runtime + Clone + Sized + 'static {
    /// Starts a turn in a new session.
    async fn execute<Out>(
        &self,
        agent: &Agent<Out>,
        message: impl Into<UserMessage> + crate::maybe_send::MaybeSend,
    ) -> Result<Handle<Out>, RuntimeError>
    where
        Out: DeserializeOwned + 'static,
    {
        let request = Execute::new(agent, message);
        self.execute_with(agent, request, RunOptions::default())
            .await
    }

    /// Starts a turn with everything that can be said about it.
    async fn execute_with<Out>(
        &self,
        agent: &Agent<Out>,
        request: Execute,
        options: RunOptions,
    ) -> Result<Handle<Out>, RuntimeError>
    where
        Out: DeserializeOwned + 'static,
    {
        self.agents().keep(agent);
        let run = self.start(request, options).await?;
        Ok(Handle::new(Arc::new(self.clone()), run))
    }

    /// Goes on with a session of an agent.
    async fn resume_with<Out>(
        &self,
        agent: &Agent<Out>,
        session: &SessionId,
    ) -> Result<Handle<Out>, RuntimeError>
    where
        Out: DeserializeOwned + 'static,
    {
        self.agents().keep(agent);
        let run = self.resume(session, RunOptions::default()).await?;
        Ok(Handle::new(Arc::new(self.clone()), run))
    }

    /// A handle on the latest run of a session; `None` when it never ran.
    async fn handle<Out>(
        &self,
        agent: &Agent<Out>,
        session: &SessionId,
    ) -> Result<Option<Handle<Out>>, RuntimeError>
    where
        Out: DeserializeOwned + 'static,
    {
        self.agents().keep(agent);
        let found = self.backend().store.find(session).await?;
        let run = found.and_then(|found| {
            let run = found.run?;
            Some(StartedRun::new(found.state.key(), run.id))
        });
        Ok(run.map(|run| Handle::new(Arc::new(self.clone()), run)))
    }

    /// What waits for somebody in a session and its children.
    async fn pending(&self, session: &SessionId) -> Result<Vec<PendingCall>, RuntimeError> {
        backend::pending(self.backend(), session).await
    }
}

impl<R: Runtime + Clone + 'static> RuntimeExt for R {}
