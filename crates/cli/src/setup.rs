//! Builds everything a command needs from the configuration: agents, store, runtime.

mod place;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::agent::AgentRegistry;
use helix_agents_core::agent::AnyAgent;
use helix_agents_core::id::IdSource;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::Backend;
use helix_agents_core::time::Clock;
use helix_agents_runtime_local::{LocalRuntime, LocalRuntimeBuilder, SystemClock, UuidIds};
use helix_agents_store_sqlite::{Error as SqliteError, SqliteConfig, SqliteStore};

use crate::config::{Config, ConfigError, StoreUrl};
use crate::{UsageError, demo};

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
}

impl Plan {
    /// Opens the store. An empty one is set up; an older or newer schema is refused.
    ///
    /// # Errors
    /// A [`UsageError`] if the store cannot be used.
    pub async fn open(self) -> anyhow::Result<Setup> {
        let backend = open_store(&self.store, false, self.config.runtime.keep_deltas).await?;
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
            Some(_) => Err(UsageError(format!(
                "store {} not found; name the one you mean with --store or --config, or let `helix \
                 run`, `serve` or `migrate` make it",
                self.store
            ))),
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

    /// Checks the URL of the stream store. Streams are kept in the store; a separate place is not
    /// supported yet.
    ///
    /// # Errors
    /// A [`UsageError`] that says what to write instead.
    pub fn check_stream(&self, url: &str) -> Result<(), UsageError> {
        let stream = StoreUrl::parse(url, Path::new("."))
            .map_err(|error| UsageError(format!("--stream: {error}")))?;
        if stream == self.store {
            return Ok(());
        }
        Err(UsageError(format!(
            "--stream: streams outside of the store ({}) are not supported yet; leave --stream out, and \
             they are kept in the store",
            self.store
        )))
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

/// Creates a folder that only its owner can read. An existing one is not changed.
fn make_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Opens a store. An empty one is set up; an older schema is upgraded if `migrate` is set, and
/// refused otherwise. The deltas of a turn are kept for `keep_deltas` after its end.
///
/// # Errors
/// A [`UsageError`] that says what to do.
pub async fn open_store(
    url: &StoreUrl,
    migrate: bool,
    keep_deltas: Duration,
) -> Result<Backend, UsageError> {
    let path = match url {
        StoreUrl::Memory => return Ok(MemoryStore::new().keep_deltas(keep_deltas).into()),
        StoreUrl::Sqlite(path) => path,
    };
    if path == Path::new(STORE)
        && let Some(folder) = path.parent()
    {
        make_private(folder).map_err(|error| {
            UsageError(format!(
                "the folder {} cannot be created: {error}",
                folder.display()
            ))
        })?;
    }
    let open = async |migrate| {
        let config = SqliteConfig::new()
            .migrate(migrate)
            .keep_deltas(keep_deltas);
        SqliteStore::open_with(path, config).await
    };
    let opened = match open(migrate).await {
        Err(SqliteError::SchemaTooOld { found: 0, .. }) => open(true).await,
        Err(SqliteError::SchemaTooOld { found, known, .. }) => {
            return Err(UsageError(format!(
                "the store {url} has schema version {found}, this program needs {known}; run \
                 `helix migrate --store {}`",
                place::quoted(&url.to_string())
            )));
        }
        other => other,
    };
    let store = opened.map_err(|error| {
        let causes =
            std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        let causes: String = causes.map(|cause| format!(": {cause}")).collect();
        UsageError(format!("the store {url} cannot be used: {error}{causes}"))
    })?;
    Ok(store.into())
}
