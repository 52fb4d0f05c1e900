//! The builder of the local runtime.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::agent::{Agent, AgentRegistry};
use helix_agents_core::id::IdSource;
use helix_agents_core::model::Model;
use helix_agents_core::perform::{Models, STOP_GRACE};
use helix_agents_core::runtime::Backend;
use helix_agents_core::time::Clock;

use crate::{LocalRuntime, SystemClock, UuidIds};

/// The default duration of a lease.
const LEASE: Duration = Duration::from_secs(10);
/// The default interval between two sweeps for due work.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// A builder for a [`LocalRuntime`].
///
/// ```
/// use std::time::Duration;
///
/// use helix_agents_core::memory::MemoryStore;
/// use helix_agents_runtime_local::LocalRuntime;
/// # use helix_agents_core::{Agent, Error};
/// # let support = Agent::builder("support").model("anthropic/claude-sonnet-4-5").build()?;
///
/// // A registered agent is recovered before anybody uses it in this process.
/// let runtime = LocalRuntime::builder(MemoryStore::new())
///     .agent(&support)
///     .auto_continue(true)
///     .lease(Duration::from_secs(10))
///     .build();
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "call `build` to get the runtime"]
pub struct LocalRuntimeBuilder {
    pub(crate) backend: Backend,
    pub(crate) agents: Arc<AgentRegistry>,
    pub(crate) models: NamedModels,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) recovery: bool,
    pub(crate) auto_continue: bool,
    pub(crate) take_over: bool,
    pub(crate) warn_of_deadlines: bool,
    pub(crate) clean_up: bool,
    pub(crate) lease: Duration,
    pub(crate) sweep_every: Duration,
    pub(crate) stop_grace: Duration,
    pub(crate) expire_after: Option<Duration>,
    pub(crate) holder: Option<String>,
}

impl LocalRuntimeBuilder {
    pub(crate) fn new(backend: Backend) -> Self {
        Self {
            backend,
            agents: Arc::default(),
            models: NamedModels::default(),
            clock: Arc::new(SystemClock::new()),
            ids: Arc::new(UuidIds::new()),
            recovery: true,
            auto_continue: false,
            take_over: true,
            warn_of_deadlines: false,
            clean_up: true,
            lease: LEASE,
            sweep_every: SWEEP_EVERY,
            stop_grace: STOP_GRACE,
            expire_after: None,
            holder: None,
        }
    }

    /// Registers an agent, so that its runs are resumed and recovered here from the start of the runtime.
    /// Registering two agents of one name is an error, which is reported when either is used.
    pub fn agent<Out>(self, agent: impl Borrow<Agent<Out>>) -> Self {
        self.agents.keep_or_spoil(agent.borrow());
        self
    }

    /// Uses this registry of agents, which may be shared.
    pub fn agents(mut self, agents: Arc<AgentRegistry>) -> Self {
        self.agents = agents;
        self
    }

    /// Sets the model that agents refer to by this name.
    pub fn model(mut self, name: impl Into<String>, model: impl Model + 'static) -> Self {
        self.models.given.insert(name.into(), Arc::new(model));
        self
    }

    /// Sets where models of other names are looked up. With the feature `providers` it is the environment: a
    /// name like `anthropic/claude-sonnet-4-5` is a model of that provider, whose key is in
    /// `ANTHROPIC_API_KEY`.
    pub fn models(mut self, models: Arc<dyn Models>) -> Self {
        self.models.others = Some(models);
        self
    }

    /// Replaces [`SystemClock`] as the source of time.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Replaces [`UuidIds`] as the source of ids.
    pub fn ids(mut self, ids: Arc<dyn IdSource>) -> Self {
        self.ids = ids;
        self
    }

    /// Whether the runtime handles due work by itself, from the moment it first runs in a tokio runtime:
    /// lapsed leases, requests to stop, and expired data. On by default. Without it, call
    /// [`LocalRuntime::recover`](crate::LocalRuntime::recover) to do so once, or
    /// [`LocalRuntime::start_recovery`](crate::LocalRuntime::start_recovery) to do so from then on.
    pub fn recovery(mut self, recovery: bool) -> Self {
        self.recovery = recovery;
        self
    }

    /// Whether the answer to the last open call of a pause resumes the session here, and whether
    /// recovery does so for answers that were given elsewhere. Off by default: the caller that
    /// submits the last answer has to resume the session.
    pub fn auto_continue(mut self, auto_continue: bool) -> Self {
        self.auto_continue = auto_continue;
        self
    }

    /// Whether the sweeper takes over runs whose process is gone. On by default.
    /// [`LocalRuntime::recover_session`](crate::LocalRuntime::recover_session) works in either
    /// case.
    pub fn take_over(mut self, take_over: bool) -> Self {
        self.take_over = take_over;
        self
    }

    /// Whether recovery removes expired sessions, and chunks that are older than the store keeps them.
    /// On by default.
    pub fn clean_up(mut self, clean_up: bool) -> Self {
        self.clean_up = clean_up;
        self
    }

    /// The duration of a lease, which is how long a run stays reserved for this process after its
    /// last renewal; 10 s by default. It is renewed after about a third of that. It must be longer
    /// than any pause of the process, or its runs are taken over while it is alive.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the interval between two sweeps for due work; one second by default.
    pub fn sweep_every(mut self, every: Duration) -> Self {
        self.sweep_every = every;
        self
    }

    /// Lets recovery remove sessions in which no turn was started for this long, here. A turn may say otherwise
    /// ([`Turn::expires_after`](helix_agents_core::runtime::Turn::expires_after)). By default sessions are kept.
    pub fn expire_after(mut self, time: Duration) -> Self {
        self.expire_after = Some(time);
        self
    }

    /// Sets how long a tool may take to end after its run was asked to stop; 5 s by default. A tool that takes
    /// longer is left behind, and the outcome of its call is unknown.
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// Whether readers are warned when the deadline of a pending call is near; off by default, because it costs
    /// a commit per call. The warning is a custom event `expiring_soon` with `toolCallId`, `toolName` and
    /// `deadline`, when a tenth of the time is left: at least a second, at most a minute.
    pub fn warn_of_deadlines(mut self, warns: bool) -> Self {
        self.warn_of_deadlines = warns;
        self
    }

    /// The name under which leases are held. By default it is the name under which the store knows
    /// this process, so that the store detects its end, followed by a number unique to this
    /// runtime; if the store has no such name, it is a name unique to this runtime.
    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.holder = Some(holder.into());
        self
    }

    /// Builds the runtime. It begins to recover when it is first used in a tokio runtime, unless recovery
    /// was turned off.
    #[must_use]
    pub fn build(self) -> LocalRuntime {
        LocalRuntime::from_builder(self)
    }
}

/// A lookup of models by name.
#[derive(Debug)]
pub(crate) struct NamedModels {
    given: BTreeMap<String, Arc<dyn Model>>,
    others: Option<Arc<dyn Models>>,
}

impl Default for NamedModels {
    fn default() -> Self {
        #[cfg(feature = "providers")]
        let others: Option<Arc<dyn Models>> = Some(Arc::new(helix_agents_models::Providers::new()));
        #[cfg(not(feature = "providers"))]
        let others = None;
        Self {
            given: BTreeMap::new(),
            others,
        }
    }
}

impl Models for NamedModels {
    fn model(&self, name: &str) -> Option<Arc<dyn Model>> {
        let given = self.given.get(name).cloned();
        given.or_else(|| self.others.as_ref()?.model(name))
    }

    fn why_missing(&self, name: &str) -> Option<String> {
        self.others.as_ref()?.why_missing(name)
    }
}
