//! A runtime that performs each run on a thread of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, Either, select};
use helix_agents_core::agent::{AgentContext, AgentRegistry, AnyAgent};
use helix_agents_core::entries::{
    Continuation, Entered, Entries, EntryError, ExecuteRequest, KnownSession, Performer,
    ResumeRequest, Submitted, ToolAnswer,
};
use helix_agents_core::id::{IdSource, RunId, SessionId};
use helix_agents_core::machine::{AgentLimits, RunState};
use helix_agents_core::notify::Notify;
use helix_agents_core::perform::{Models, PerformError, Ports};
use helix_agents_core::runtime::{Backend, RunOptions, Runtime, RuntimeError, StartedRun};
use helix_agents_core::session::RunRecord;
use helix_agents_core::store::{SessionKey, Snapshot};
use helix_agents_core::time::{Clock, Timestamp};

use crate::contract::Runner;
use crate::{SequentialIds, VirtualClock, drive};

/// The instant at which the default clock begins.
pub(crate) const DAWN: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Drives a run from its current state to its end, or until it cannot continue.
pub type Driver = Arc<
    dyn Fn(AgentLimits, RunState, Ports) -> BoxFuture<'static, Result<RunState, PerformError>>
        + Send
        + Sync,
>;

/// A [`Runtime`] for tests: performs each run on a thread of its own, on a
/// [`PlainHost`](crate::PlainHost) or another host, over any backend.
///
/// By default it uses virtual time that advances by itself, and counted ids. Clones are the same
/// runtime.
///
/// ```
/// # use helix_agents_core::memory::MemoryStore;
/// # use helix_agents_testkit::ThreadRuntime;
/// let runtime = ThreadRuntime::new(MemoryStore::new()).auto_continue();
/// let after_a_restart = runtime.restarted();
/// ```
#[derive(Clone)]
pub struct ThreadRuntime {
    backend: Backend,
    agents: Arc<AgentRegistry>,
    models: Option<Arc<dyn Models>>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    driver: Driver,
    runner: Runner,
    auto_continue: bool,
    remembering: bool,
    stalls: StalledRuns,
}

impl ThreadRuntime {
    /// Creates a runtime over a backend.
    #[must_use]
    pub fn new(backend: impl Into<Backend>) -> Self {
        Self {
            backend: backend.into(),
            agents: Arc::default(),
            models: None,
            clock: Arc::new(VirtualClock::new(DAWN).auto_advance()),
            ids: Arc::new(SequentialIds::new()),
            driver: Arc::new(|facts, state, ports| {
                Box::pin(async move { drive(&facts, state, &ports).await })
            }),
            runner: Runner::default(),
            auto_continue: false,
            remembering: false,
            stalls: StalledRuns::default(),
        }
    }

    /// Replaces the backend.
    #[must_use]
    pub fn with_backend(mut self, backend: impl Into<Backend>) -> Self {
        self.backend = backend.into();
        self
    }

    /// Replaces the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Replaces the source of ids.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn IdSource>) -> Self {
        self.ids = ids;
        self
    }

    /// Sets the models that agents can name.
    #[must_use]
    pub fn with_models(mut self, models: Arc<dyn Models>) -> Self {
        self.models = Some(models);
        self
    }

    /// Replaces the function that drives runs.
    #[must_use]
    pub fn driven_by(mut self, driver: Driver) -> Self {
        self.driver = driver;
        self
    }

    /// Replaces the function that runs futures, also on the threads of its runs.
    #[must_use]
    pub fn run_by(mut self, runner: Runner) -> Self {
        self.runner = runner;
        self
    }

    /// Makes the runtime resume a session when its last open call is answered.
    #[must_use]
    pub fn auto_continue(mut self) -> Self {
        self.auto_continue = true;
        self
    }

    /// Makes each run remember what its own effects read and wrote.
    #[must_use]
    pub fn remembering(mut self) -> Self {
        self.remembering = true;
        self
    }

    /// The runtime of a new process: it shares the backend, agents, clock and ids, and nothing
    /// else.
    #[must_use]
    pub fn restarted(&self) -> Self {
        Self {
            stalls: StalledRuns::default(),
            ..self.clone()
        }
    }

    /// Takes over a run whose process is gone.
    ///
    /// # Errors
    /// As [`Entries::recover`].
    pub async fn recover(&self, session: &SessionId) -> Result<StartedRun, RuntimeError> {
        let found = KnownSession::from(session).load(self.backend.store.as_ref());
        let found = found.await?;
        let agent = self.agent_of(&found)?;
        let state = self.entries().recover(found, &performer()).await?;
        self.perform(&agent, state, RunOptions::default())
    }

    /// Starts the run that the messages in the inbox of a session wait for.
    ///
    /// # Errors
    /// As [`Entries::deliver`].
    pub async fn deliver(&self, session: &SessionId) -> Result<StartedRun, RuntimeError> {
        let found = KnownSession::from(session).load(self.backend.store.as_ref());
        let found = found.await?;
        let agent = self.agent_of(&found)?;
        let state = self.entries().deliver(&agent, found, &performer()).await?;
        self.perform(&agent, state, RunOptions::default())
    }

    /// The clock of the runtime.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The ports of its effects.
    #[must_use]
    pub fn ports(&self) -> Ports {
        let ports = Ports::new(
            Arc::clone(&self.backend.store),
            Arc::clone(&self.backend.streams),
            Arc::clone(&self.clock),
            Arc::clone(&self.ids),
            Arc::clone(&self.agents),
        )
        .with_stops(Arc::clone(&self.backend.stops));
        let ports = match &self.models {
            Some(models) => ports.with_models(Arc::clone(models)),
            None => ports,
        };
        if self.remembering {
            ports.remembering()
        } else {
            ports
        }
    }

    fn entries(&self) -> Entries {
        Entries::new(
            Arc::clone(&self.backend.store),
            Arc::clone(&self.backend.streams),
            Arc::clone(&self.clock),
            Arc::clone(&self.ids),
        )
    }

    /// The agent of a stored session. A run of an agent that is not here is not even begun.
    fn agent_of(&self, found: &Snapshot) -> Result<AnyAgent, RuntimeError> {
        let mut context = AgentContext::new(found.state.session_id.clone());
        context.user_id.clone_from(&found.state.user_id);
        Ok(self.agents.resolve(&found.state.agent_type, &context)?)
    }

    /// Performs a run on a thread.
    fn perform(
        &self,
        agent: &AnyAgent,
        state: RunState,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError> {
        let run = StartedRun::new(state.key(), state.run_id.clone());
        let facts = AgentLimits::of(agent);
        let mut ports = self.ports();
        ports.execution_hooks = options.hooks;
        let this = self.clone();
        let id = run.run_id.clone();
        let session = run.session_id.clone();
        let performing = move || {
            let driven = this.runner.block_on((this.driver)(facts, state, ports));
            match driven {
                Ok(state) if state.messages_wait => {
                    // Another process may have been faster.
                    let _ = this.runner.block_on(Box::pin({
                        let this = this.clone();
                        async move { this.deliver(&session).await.map(drop) }
                    }));
                }
                Ok(state) if !state.key().is_root() => {
                    let runner = this.runner.clone();
                    runner.block_on(Box::pin(async move { this.continue_parent(&state).await }));
                }
                Ok(_) => {}
                Err(error) => this.stalls.note(id, error),
            }
        };
        let name = format!("run {}", run.run_id);
        // Without a thread the run is left to recovery.
        match thread::Builder::new().name(name).spawn(performing) {
            Ok(_) => Ok(run),
            Err(_) => Err(RuntimeError::ShuttingDown),
        }
    }
}

/// The performer of its runs. Other kinds of hosts do not take them over.
impl ThreadRuntime {
    /// Continues the session for which an ended one worked, if it waits for nothing else.
    async fn continue_parent(&self, ended: &RunState) {
        if !self.auto_continue {
            return;
        }
        let store = &self.backend.store;
        let Ok(Some(child)) = store.load(ended.key()).await else {
            return;
        };
        if let Some(parent) = child.state.parent_session_id {
            // It may wait for others, or for nobody.
            let options = RunOptions::default();
            let _ = self.resume_session((&parent).into(), options).await;
        }
    }
}

fn performer() -> Performer {
    Performer::new("threads")
}

#[async_trait]
impl Runtime for ThreadRuntime {
    fn shared(&self) -> Arc<dyn Runtime> {
        Arc::new(self.clone())
    }

    fn backend(&self) -> &Backend {
        &self.backend
    }

    fn agents(&self) -> &Arc<AgentRegistry> {
        &self.agents
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn ids(&self) -> &Arc<dyn IdSource> {
        &self.ids
    }

    async fn start(
        &self,
        request: ExecuteRequest,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError> {
        let (agent, request) = request.complete(&self.ports())?;
        match self.entries().send(request, &performer()).await? {
            Entered::Run(state) => self.perform(&agent, state, options),
            Entered::Waits(waiting) => {
                let session = SessionKey::new(&waiting.root, &waiting.session);
                Ok(StartedRun::new(session, waiting.run))
            }
        }
    }

    async fn resume_session(
        &self,
        request: ResumeRequest,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError> {
        let ResumeRequest {
            session,
            mode,
            budget,
            ..
        } = request;
        let found = session.load(self.backend.store.as_ref()).await?;
        let agent = self.agent_of(&found)?;
        let mut request = ResumeRequest::new(found, mode);
        request.budget = budget;
        let request = request.complete(&agent);
        let state = self.entries().resume(request, &performer()).await?;
        self.perform(&agent, state, options)
    }

    async fn submit_answer(&self, answer: ToolAnswer) -> Result<Submitted, RuntimeError> {
        let mut submitted = self.entries().submit(&answer).await?;
        if !self.auto_continue || submitted.continuation != Continuation::CallerResumes {
            return Ok(submitted);
        }
        submitted.continuation = match self
            .resume_session((&submitted.owner).into(), RunOptions::default())
            .await
        {
            Ok(_) => Continuation::NewRun,
            // Another process was faster, and continues with the answer.
            Err(RuntimeError::Entry(EntryError::AlreadyRunning { .. })) => Continuation::None,
            // The answer is stored; any process that has the agent can resume.
            Err(_) => Continuation::CallerResumes,
        };
        Ok(submitted)
    }

    async fn ended(&self, run: &StartedRun) -> Result<RunRecord, RuntimeError> {
        let ended = pin!(self.backend.run_ended(run.key(), &run.run_id, &*self.clock));
        let stalled = pin!(self.stalls.of(&run.run_id));
        match select(ended, stalled).await {
            Either::Left((record, _)) => record,
            Either::Right((error, _)) if error.is_superseded() => Err(RuntimeError::Superseded {
                run: run.run_id.clone(),
            }),
            Either::Right((error, _)) => Err(RuntimeError::Stalled {
                run: run.run_id.clone(),
                source: Arc::new(error),
            }),
        }
    }
}

impl fmt::Debug for ThreadRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadRuntime")
            .field("backend", &self.backend)
            .field("agents", &self.agents)
            .field("auto_continue", &self.auto_continue)
            .field("remembering", &self.remembering)
            .finish_non_exhaustive()
    }
}

/// The runs of this process that cannot continue, and the reasons.
#[derive(Debug, Clone, Default)]
struct StalledRuns {
    why: Arc<Mutex<BTreeMap<RunId, PerformError>>>,
    bell: Notify,
}

impl StalledRuns {
    fn note(&self, run: RunId, error: PerformError) {
        let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.insert(run, error);
        drop(why);
        self.bell.ring();
    }

    /// Resolves when the run cannot continue, once.
    async fn of(&self, run: &RunId) -> PerformError {
        loop {
            let heard = self.bell.heard();
            let error = {
                let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
                why.remove(run)
            };
            match error {
                Some(error) => return error,
                None => heard.await,
            }
        }
    }
}
