//! Builds everything a command needs from the configuration: agents, store, runtime.

mod open;
mod place;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helix_agents_core::agent::AgentRegistry;
use helix_agents_core::agent::AnyAgent;
use helix_agents_core::id::IdSource;
use helix_agents_core::runtime::Backend;
use helix_agents_core::time::Clock;
use helix_agents_runtime_local::{LocalRuntime, LocalRuntimeBuilder, SystemClock, UuidIds};

use crate::config::{Config, ConfigError, StoreUrl};
use crate::{UsageError, demo};

pub use open::{Opening, open_store};
pub use place::Place;

/// The configuration file that is read if none is named.
const CONFIG: &str = "helix.toml";
/// The default location of the store.
pub(crate) const STORE: &str = ".helix/helix.db";

/// Returns the configuration of the demo agents.
///
/// # Errors
/// Only if this program has a bug.
pub fn demo_config() -> anyhow::Result<Config> {
    let path = Path::new("(built-in demo)");
    let mut config = Config::parse(path, String::new())?;
    config.agents = demo::agents()?;
    Ok(config)
}

/// The configuration and the store to use; nothing is opened yet.
#[derive(Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The configuration file; `None` for the demo.
    pub file: Option<PathBuf>,
    /// The configuration to use.
    pub config: Config,
    /// The URL of the store.
    pub store: StoreUrl,
    /// The URL of the streams; `None` if they are kept in the store.
    pub stream: Option<StoreUrl>,
}

impl Plan {
    /// Opens the store. An empty one is set up; an older or newer schema is refused.
    ///
    /// # Errors
    /// A [`UsageError`] if the store cannot be used.
    pub async fn open(self) -> anyhow::Result<Setup> {
        self.open_as(Opening::Create).await
    }

    pub(crate) async fn open_as(self, opening: Opening) -> anyhow::Result<Setup> {
        let keep_deltas = self.config.runtime.keep_deltas;
        // Boxed, or the types of commands nest deeper than the compiler follows.
        let opened = Box::pin(open_store(
            &self.store,
            self.stream.as_ref(),
            opening,
            keep_deltas,
        ));
        let backend = opened.await?;
        Ok(Setup::new(self, backend))
    }

    /// Returns the file of the store if it does not exist.
    #[must_use]
    pub fn missing(&self) -> Option<&Path> {
        match &self.store {
            StoreUrl::Sqlite(path) if !path.exists() => Some(path),
            _ => None,
        }
    }

    /// Checks that the store exists, so that a command that only reads does not create one.
    ///
    /// # Errors
    /// A [`UsageError`] that says what to do.
    pub fn must_exist(&self) -> Result<(), UsageError> {
        match self.missing() {
            None => Ok(()),
            Some(_) => Err(open::not_found(&self.store)),
        }
    }

    /// Returns an agent by its name.
    ///
    /// # Errors
    /// [`ConfigError`] or [`UsageError`] name the others.
    pub fn agent(&self, name: &str) -> anyhow::Result<&AnyAgent> {
        let agents = &self.config.agents;
        if let Some(agent) = agents.iter().find(|agent| agent.name() == name) {
            return Ok(agent);
        }
        let known: Vec<&str> = agents.iter().map(AnyAgent::name).collect();
        let why = match known.as_slice() {
            [] => "no agents are configured; write [agents.NAME]".to_owned(),
            known => format!("agent `{name}` not found; use one of: {}", known.join(", ")),
        };
        Err(match &self.file {
            Some(file) => ConfigError::of_file(file, why).into(),
            None => UsageError(why).into(),
        })
    }

    /// Returns the agent of chats that name none: the given one, or else the first.
    ///
    /// # Errors
    /// As [`Plan::agent`].
    pub fn default_agent(&self, asked: Option<&str>) -> anyhow::Result<Option<AnyAgent>> {
        match asked {
            Some(name) => self.agent(name).cloned().map(Some),
            None => Ok(self.config.agents.first().cloned()),
        }
    }

    /// Checks that the environment variables of tools and models are set, before a run is performed.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the missing variable.
    pub fn check_environment(&self) -> anyhow::Result<()> {
        let mut variables = self.config.variables.iter();
        let Some(missing) = variables.find(|variable| !variable.optional && !variable.is_set())
        else {
            return Ok(());
        };
        let (name, holds) = (&missing.name, &missing.holds);
        let why = format!("the environment variable {name} is not set; put {holds} into it");
        Err(match &self.file {
            Some(file) => {
                let mut error = ConfigError::of_file(file, why);
                error.line = Some(missing.line);
                error.into()
            }
            None => UsageError(why).into(),
        })
    }
}

/// The configuration, with the opened store.
#[derive(Debug)]
#[non_exhaustive]
pub struct Setup {
    /// The configuration and the URL of the store.
    pub plan: Plan,
    /// The store, which is open.
    pub backend: Backend,
    /// The clock of this process, of its runtime and of commands without one.
    pub clock: Arc<dyn Clock>,
    /// The source of ids.
    pub ids: Arc<dyn IdSource>,
}

impl Setup {
    /// Creates a setup with the system clock.
    pub(crate) fn new(plan: Plan, backend: Backend) -> Self {
        Self {
            plan,
            backend,
            clock: Arc::new(SystemClock::new()),
            ids: Arc::new(UuidIds::new()),
        }
    }

    /// Returns the registry of the agents.
    #[must_use]
    pub fn agents(&self) -> Arc<AgentRegistry> {
        let agents = AgentRegistry::new();
        for agent in &self.plan.config.agents {
            agents.replace(agent);
        }
        Arc::new(agents)
    }

    /// Returns a builder of a runtime over the store, with the agents.
    pub fn runtime_builder(&self) -> LocalRuntimeBuilder {
        self.runtime_builder_on(self.backend.clone())
    }

    /// Returns the same over a wrapped store, like one that is measured.
    pub fn runtime_builder_on(&self, backend: Backend) -> LocalRuntimeBuilder {
        let config = &self.plan.config.runtime;
        let builder = LocalRuntime::builder(backend)
            .agents(self.agents())
            .clock(Arc::clone(&self.clock))
            .ids(Arc::clone(&self.ids))
            .lease(config.lease)
            .stop_grace(config.stop_grace)
            .recovery(false);
        match config.expire_after {
            Some(time) => builder.expire_after(time),
            None => builder,
        }
    }

    /// A runtime for one command: it neither continues answered sessions nor takes over runs by itself.
    #[must_use]
    pub fn runtime(&self) -> LocalRuntime {
        self.runtime_builder().build()
    }
}
