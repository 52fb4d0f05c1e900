//! The runtime that performs runs in this process.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use helix_agents_core::SessionId;
use helix_agents_core::agent::{AgentRegistry, AnyAgent, ResolveError};
use helix_agents_core::entries::{
    BudgetRequest, Continuation, Entered, Entries, EntryError, ExecuteRequest, Performer,
    ResumeMode, ResumeRequest, Submitted, ToolAnswer, WaitingRun,
};
use helix_agents_core::id::IdSource;
use helix_agents_core::machine::{AgentLimits, RunState};
use helix_agents_core::perform::Ports;
use helix_agents_core::runtime::{Backend, RunOptions, Runtime, RuntimeError, StartedRun};
use helix_agents_core::session::RunRecord;
use helix_agents_core::store::{Lookup, SessionKey, Snapshot};
use helix_agents_core::time::{Clock, Timestamp};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::LocalRuntimeBuilder;
use crate::children::Children;
use crate::driver::Driver;
use crate::lease::Holding;
use crate::table::{Entering, Known, Report, Table};

/// The name of this kind of host. Only hosts of the same kind take over its runs.
pub(crate) const HOST: &str = "local";

/// Runs agents in this process, on any store. Clones share one runtime.
///
/// It needs a tokio runtime with time enabled, and performs each run as one task of it. Dropping
/// every clone stops no run; call [`LocalRuntime::shutdown`] before the process ends.
///
/// ```
/// use helix_agents_core::memory::MemoryStore;
/// use helix_agents_core::model::{Model, ModelReply};
/// use helix_agents_core::runtime::RuntimeExt;
/// use helix_agents_core::{Agent, Error};
/// use helix_agents_runtime_local::LocalRuntime;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let echo = Model::from_fn(|input| async move { Ok(ModelReply::text(input.last_user_text())) });
/// let agent = Agent::builder("echo").model(echo).build()?;
/// let runtime = LocalRuntime::new(MemoryStore::new());
/// assert_eq!(runtime.execute(&agent, "Hello.").await?.output().await?, "Hello.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LocalRuntime {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) backend: Backend,
    pub(crate) agents: Arc<AgentRegistry>,
    pub(crate) clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    /// The ports of every run; each run gets a copy with its own cache.
    pub(crate) ports: Ports,
    pub(crate) entries: Entries,
    pub(crate) performer: Performer,
    pub(crate) table: Arc<Table>,
    pub(crate) recovery: bool,
    pub(crate) auto_continue: bool,
    pub(crate) take_over: bool,
    pub(crate) clean_up: bool,
    /// When old chunks were last removed.
    pub(crate) tidied: Mutex<Option<Timestamp>>,
    pub(crate) sweep_every: Duration,
    expire_after: Option<Duration>,
    /// The task that sweeps for due work, once it was started.
    pub(crate) sweeper: Mutex<Option<JoinHandle<()>>>,
    /// Allows one sweep at a time: two would take the same run over from each other.
    pub(crate) sweeping: tokio::sync::Mutex<()>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A run in progress holds a reference, so none is left; this ends the sweeper.
        self.table.close();
    }
}

impl fmt::Debug for LocalRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalRuntime")
            .field("backend", &self.inner.backend)
            .field("agents", &self.inner.agents)
            .field("performer", &self.inner.performer)
            .finish_non_exhaustive()
    }
}

impl LocalRuntime {
    /// A runtime over a store. It recovers by itself: see
    /// [`recovery`](LocalRuntimeBuilder::recovery).
    #[must_use]
    pub fn new(backend: impl Into<Backend>) -> Self {
        Self::builder(backend).build()
    }

    /// Returns a builder for a runtime over a store.
    pub fn builder(backend: impl Into<Backend>) -> LocalRuntimeBuilder {
        LocalRuntimeBuilder::new(backend.into())
    }

    pub(crate) fn from_builder(with: LocalRuntimeBuilder) -> Self {
        let LocalRuntimeBuilder {
            backend,
            agents,
            models,
            clock,
            ids,
            recovery,
            auto_continue,
            take_over,
            warn_of_deadlines,
            clean_up,
            lease,
            sweep_every,
            stop_grace,
            expire_after,
            holder,
        } = with;
        let holder = holder.or_else(|| backend.holder.as_deref().map(instance_of));
        let holder = holder.unwrap_or_else(|| ids.next(HOST));
        let (store, streams) = (&backend.store, &backend.streams);
        let performer = Performer::new(HOST).leased(holder, lease);
        let entries = Entries::new(
            Arc::clone(store),
            Arc::clone(streams),
            Arc::clone(&clock),
            Arc::clone(&ids),
        );
        let mut ports = Ports::new(
            Arc::clone(store),
            Arc::clone(streams),
            Arc::clone(&clock),
            Arc::clone(&ids),
            Arc::clone(&agents),
        )
        .with_models(Arc::new(models))
        .with_stops(Arc::clone(&backend.stops))
        .with_meter(backend.meter.clone())
        .with_performer(performer.clone());
        ports.stop_grace = stop_grace;
        ports.warns_of_deadlines = warn_of_deadlines;
        let runtime = Self {
            inner: Arc::new(Inner {
                backend,
                agents,
                clock,
                ids,
                ports,
                entries,
                performer,
                table: Arc::default(),
                recovery,
                auto_continue,
                take_over,
                clean_up,
                tidied: Mutex::default(),
                sweep_every,
                expire_after,
                sweeper: Mutex::default(),
                sweeping: tokio::sync::Mutex::default(),
            }),
        };
        runtime.ensure_recovery();
        runtime
    }

    /// Makes an entry and performs the resulting run.
    ///
    /// Both happen in a separate task, so a caller that stops waiting loses no run.
    pub(crate) async fn enter<F>(
        &self,
        session: Option<SessionId>,
        agent: &AnyAgent,
        options: RunOptions,
        entry: F,
    ) -> Result<StartedRun, RuntimeError>
    where
        F: Future<Output = Result<Entered, EntryError>> + Send + 'static,
    {
        let entering = self.inner.table.enter(session)?;
        self.enter_since(entering, None, agent, options, entry)
            .await
    }

    /// The same with a permission, for a run whose lease was requested at an instant, or is requested by the entry.
    pub(crate) async fn enter_since<F>(
        &self,
        entering: Entering,
        asked: Option<Timestamp>,
        agent: &AnyAgent,
        options: RunOptions,
        entry: F,
    ) -> Result<StartedRun, RuntimeError>
    where
        F: Future<Output = Result<Entered, EntryError>> + Send + 'static,
    {
        let host = tokio_here()?;
        self.ensure_recovery();
        let inner = Arc::clone(&self.inner);
        let facts = AgentLimits::of(agent);
        let (tell, told) = oneshot::channel();
        // Boxed, so that the task is moved into its place as a few words.
        let entry = Box::pin(entry);
        host.spawn(async move {
            // The lease is counted from before it is requested.
            let asked = asked.unwrap_or_else(|| inner.clock.now());
            // The caller may have stopped waiting for the result.
            let state = match entry.await {
                Ok(Entered::Run(state)) => state,
                Ok(Entered::Waits(WaitingRun {
                    root, session, run, ..
                })) => {
                    drop(entering);
                    let run = StartedRun::new(SessionKey::new(&root, &session), run);
                    let _ = tell.send(Ok(run));
                    return;
                }
                Err(error) => {
                    drop(entering);
                    let _ = tell.send(Err(RuntimeError::from(error)));
                    return;
                }
            };
            let run = StartedRun::new(state.key(), state.run_id.clone());
            let performing = entering.perform(&run);
            let _ = tell.send(Ok(run.clone()));
            let runtime = Self { inner };
            let ports = match state.key().is_root() {
                true => Ok(runtime.inner.ports.clone()),
                // Boxed: every run holds this future, and few have a parent.
                false => Box::pin(runtime.ports_of_child(&state)).await,
            };
            let report = match ports {
                Ok(ports) => {
                    let driver = runtime.driver(facts, state, (ports, options), asked);
                    driver.drive().await
                }
                Err(error) => Report::Stalled(Arc::new(error)),
            };
            if let Report::Stalled(error) = &report {
                tracing::error!(event = "run.stalled", host = HOST, %error);
            }
            let (has_ended, delivers) = match report {
                Report::Ended { messages_wait } => (true, messages_wait),
                _ => (false, false),
            };
            performing.done(report);
            if has_ended && !run.key().is_root() {
                runtime.child_ended(&run).await;
            }
            if delivers {
                let (root, session) = (run.root_session_id.clone(), run.session_id.clone());
                let options = RunOptions::default();
                runtime.deliver_waiting(root, session, options).await;
            }
        });
        told.await.unwrap_or_else(|_| {
            Err(RuntimeError::Host {
                why: "the entry ended without a result, perhaps because of a panic; check whether the run \
                      was started before you try again"
                    .to_owned(),
            })
        })
    }

    /// Resumes a session as it was read.
    pub(crate) async fn resume_found(
        &self,
        found: Snapshot,
        (mode, budget): (ResumeMode, BudgetRequest),
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError> {
        let agent = self.performed_agent(&found).await?;
        let (entries, performer) = (self.inner.entries.clone(), self.inner.performer.clone());
        let session = found.state.session_id.clone();
        let mut request = ResumeRequest::new(found, mode);
        request.budget = budget;
        let request = request.complete(&agent);
        let entry = async move {
            let entered = entries.resume(request, &performer).await;
            entered.map(Entered::Run)
        };
        self.enter(Some(session), &agent, options, entry).await
    }

    /// Resumes the session after its last pending call was answered, if this runtime can. The
    /// answer is already stored, so a failure here is left to the sweeper of any process.
    async fn continue_after(&self, session: &SessionId) -> Continuation {
        let options = RunOptions::default();
        match self.resume_session(session.into(), options).await {
            Ok(_) => Continuation::NewRun,
            Err(RuntimeError::Entry(error)) if is_late(&error) => Continuation::NewRun,
            Err(RuntimeError::Agent(ResolveError::NotFound(_)) | RuntimeError::ShuttingDown) => {
                Continuation::CallerResumes
            }
            Err(error) => {
                tracing::warn!(event = "run.not_continued", %session, %error);
                Continuation::CallerResumes
            }
        }
    }
}

impl LocalRuntime {
    /// Boxed: this future holds that of another run's start.
    fn child_ended<'a>(
        &'a self,
        run: &'a StartedRun,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.continue_parent(run.key()))
    }

    fn driver(
        &self,
        facts: AgentLimits,
        state: RunState,
        (ports, options): (Ports, RunOptions),
        asked: Timestamp,
    ) -> Driver {
        let inner = &self.inner;
        let mut ports = ports.remembering();
        ports.execution_hooks = options.hooks;
        let holding = Holding::new(
            Arc::clone(&inner.backend.store),
            Arc::clone(&inner.clock),
            inner.performer.clone(),
            &state,
            asked,
        );
        ports.hold = Some(Arc::clone(&holding.hold));
        Driver {
            facts,
            state,
            ports,
            holding,
            stop: inner.table.stop(),
            children: Children(self.clone()),
        }
    }
}

/// Returns a unique name for a runtime in the process of this name, so that two runtimes of one
/// process do not mistake each other's runs for their own.
fn instance_of(process: &str) -> String {
    static INSTANCES: AtomicU64 = AtomicU64::new(1);
    let number = INSTANCES.fetch_add(1, Ordering::Relaxed);
    format!("{process}:{number}")
}

/// Whether an entry was refused because another process was faster.
pub(crate) fn is_late(error: &EntryError) -> bool {
    matches!(
        error,
        EntryError::AlreadyRunning { .. }
            | EntryError::AwaitingAnswers { .. }
            | EntryError::AlreadyCompleted { .. }
            | EntryError::Stale { .. }
            | EntryError::NotRunning { .. }
            | EntryError::NothingWaits { .. }
            | EntryError::BudgetExhausted { .. }
            | EntryError::StillHeld { .. }
            | EntryError::OtherHost { .. }
    )
}

/// Returns the current tokio runtime.
pub(crate) fn tokio_here() -> Result<tokio::runtime::Handle, RuntimeError> {
    tokio::runtime::Handle::try_current().map_err(|error| RuntimeError::Host {
        why: format!("{error}; call it from within a tokio runtime"),
    })
}

#[async_trait]
impl Runtime for LocalRuntime {
    fn shared(&self) -> Arc<dyn Runtime> {
        Arc::new(self.clone())
    }

    fn backend(&self) -> &Backend {
        &self.inner.backend
    }

    fn agents(&self) -> &Arc<AgentRegistry> {
        &self.inner.agents
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    fn ids(&self) -> &Arc<dyn IdSource> {
        &self.inner.ids
    }

    async fn start(
        &self,
        request: ExecuteRequest,
        options: RunOptions,
    ) -> Result<StartedRun, RuntimeError> {
        let (agent, mut request) = request.complete(&self.inner.ports)?;
        request.expires_after = request.expires_after.or(self.inner.expire_after);
        let (entries, performer) = (self.inner.entries.clone(), self.inner.performer.clone());
        let session = request.session_id.clone();
        let entry = async move { entries.send(request, &performer).await };
        self.enter(session, &agent, options, entry).await
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
        let found = session.load(self.inner.backend.store.as_ref()).await;
        let found = found.map_err(EntryError::from)?;
        self.resume_found(found, (mode, budget), options).await
    }

    async fn submit_answer(&self, answer: ToolAnswer) -> Result<Submitted, RuntimeError> {
        self.ensure_recovery();
        let mut submitted = self.inner.entries.submit(&answer).await?;
        if self.inner.auto_continue && submitted.continuation == Continuation::CallerResumes {
            submitted.continuation = self.continue_after(&submitted.owner).await;
        }
        Ok(submitted)
    }

    async fn ended(&self, run: &StartedRun) -> Result<RunRecord, RuntimeError> {
        self.ensure_recovery();
        let report = match self.inner.table.known(run) {
            Known::Nothing => Report::Ended {
                messages_wait: false,
            },
            Known::Left(report) => report,
            Known::Performed(mut pending) => {
                let report = pending.wait_for(Option::is_some).await;
                let report = report.ok().and_then(|report| report.clone());
                report.unwrap_or(Report::Broken("its report was lost"))
            }
        };
        let (session, id) = (run.key(), &run.run_id);
        let Some(error) = report.error(id) else {
            let clock = &*self.inner.clock;
            return self.inner.backend.run_ended(session, id, clock).await;
        };
        if !matches!(report, Report::Superseded) {
            // Another process may have ended the run since it was left here.
            let which = Lookup::One(id.clone());
            let found = self.inner.backend.store.runs(session, which).await?;
            let mut ended = found.items.into_iter();
            if let Some(record) = ended.find(|record| record.status.is_ended()) {
                return Ok(record);
            }
        }
        Err(error)
    }
}
