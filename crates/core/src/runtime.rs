//! The runtime port, which users and servers call whatever engine is behind it.
//!
//! [`Runtime`] is the port: erased, in JSON values, so that a server can be built on any of them.
//! [`RuntimeExt`] has the verbs that users call, with types. A run that was started goes on whoever
//! looks; a [`Handle`] is a place to look from.

mod asking;
mod backend;
mod chunks;
mod complete;
mod error;
mod ext;
mod handle;
mod outcome;
mod run_reader;
mod text;
mod text_events;
mod turn;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::agent::AgentRegistry;
use crate::entries::{ExecuteRequest, ResumeRequest, Submitted, ToolAnswer};
use crate::hooks::AgentHooks;
use crate::id::{IdSource, RunId, SessionId};
use crate::session::RunRecord;
use crate::store::SessionKey;
use crate::time::Clock;

pub use asking::{Branch, Messages, Pending, Resume, Stop};
pub use backend::Backend;
pub use chunks::ChunkStream;
pub use error::RuntimeError;
pub use ext::RuntimeExt;
pub use handle::Handle;
pub use outcome::{NoOutput, Outcome, Pause};
// `Handle::chunks` and `Handle::text` are for users; the command line reads item by item.
#[doc(hidden)]
pub use run_reader::RunReader;
pub use text::TextStream;
pub use text_events::{TextEvent, TextEventStream};
pub use turn::Turn;

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

/// Options of one run that are not stored with it.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// Hooks of this run, after the agent's own, and of the sub-agents that it starts in this process. They are gone
    /// when the process is.
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

/// Runs agents on some engine: the port that engines implement. Users call the verbs of
/// [`RuntimeExt`], which every runtime has.
///
/// `start` and `resume_session` return when the run is durable; it goes on by itself. Entries are
/// refused with the [`EntryError`](crate::entries::EntryError) that says why, and then nothing was
/// written.
///
/// ```
/// use helix_agents::prelude::*;
/// use std::sync::Arc;
///
/// // The same code on every runtime.
/// struct App {
///     runtime: Arc<dyn Runtime>,
/// }
///
/// impl App {
///     async fn answer(&self, agent: &Agent, question: &str) -> Result<String, Error> {
///         self.runtime.execute(agent, question).await?.output().await
///     }
/// }
/// ```
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait Runtime: Send + Sync + fmt::Debug {
    /// This very runtime, to be kept by a handle.
    fn shared(&self) -> Arc<dyn Runtime>;

    /// Where sessions and streams are.
    fn backend(&self) -> &Backend;

    /// The agents it can run.
    fn agents(&self) -> &Arc<AgentRegistry>;

    /// The time it goes by.
    fn clock(&self) -> &Arc<dyn Clock>;

    /// Where its ids come from.
    fn ids(&self) -> &Arc<dyn IdSource>;

    /// Starts a turn of an agent that is registered. A runtime [completes](ExecuteRequest::complete) the
    /// request first.
    async fn start(
        &self,
        request: ExecuteRequest,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError>;

    /// Resumes a session of an agent that is registered, in the mode of the request.
    async fn resume_session(
        &self,
        request: ResumeRequest,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError>;

    /// Answers a pending call. Durable when it returns.
    async fn submit_answer(&self, answer: ToolAnswer) -> Result<Submitted, RuntimeError>;

    /// Waits for the end of a run, in whatever process it is performed. Safe to drop.
    async fn ended(&self, run: &StartedRun) -> Result<RunRecord, RuntimeError>;
}

/// A runtime that is shared is the same runtime.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl<R: Runtime + ?Sized> Runtime for Arc<R> {
    fn shared(&self) -> Arc<dyn Runtime> {
        (**self).shared()
    }

    fn backend(&self) -> &Backend {
        (**self).backend()
    }

    fn agents(&self) -> &Arc<AgentRegistry> {
        (**self).agents()
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        (**self).clock()
    }

    fn ids(&self) -> &Arc<dyn IdSource> {
        (**self).ids()
    }

    async fn start(
        &self,
        request: ExecuteRequest,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError> {
        (**self).start(request, options).await
    }

    async fn resume_session(
        &self,
        request: ResumeRequest,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError> {
        (**self).resume_session(request, options).await
    }

    async fn submit_answer(&self, answer: ToolAnswer) -> Result<Submitted, RuntimeError> {
        (**self).submit_answer(answer).await
    }

    async fn ended(&self, run: &StartedRun) -> Result<RunRecord, RuntimeError> {
        (**self).ended(run).await
    }
}
