//! Everything a command needs, made from what the operator says: agents, store, runtime.

mod place;

use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// The file that is read when it is there and none is named.
const CONFIG: &str = "helix.toml";
/// Where sessions are kept when nobody says where.
pub(crate) const STORE: &str = ".helix/helix.db";

/// The configuration of the demo agents.
///
/// # Errors
/// Never, unless this program is broken.
pub fn demo_config() -> anyhow::Result<Config> {
    let path = Path::new("(built-in demo)");
    let mut config = Config::parse(path, String::new())?;
    config.agents = demo::agents()?;
    Ok(config)
}

/// What is to be used; nothing is opened yet.
#[derive(Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The file; `None` for the demo.
    pub file: Option<PathBuf>,
    /// The configuration.
    pub config: Config,
    /// The store.
    pub store: StoreUrl,
}

impl Plan {
    /// Opens the store. An empty one is set up; an older or newer schema is refused.
    ///
    /// # Errors
    /// [`UsageError`] when the store cannot be used.
    pub async fn open(self) -> anyhow::Result<Setup> {
        let backend = open_store(&self.store, false).await?;
        Ok(Setup::new(self, backend))
    }

    /// The file of the store, when it is not there.
    #[must_use]
    pub fn missing(&self) -> Option<&Path> {
        match &self.store {
            StoreUrl::Sqlite(path) if !path.exists() => Some(path),
            _ => None,
        }
    }

    /// Checks that the store is there, so that none is made by looking for something in it.
    ///
    /// # Errors
    /// [`UsageError`] says what to do.
    pub fn must_exist(&self) -> Result<(), UsageError> {
        match self.missing() {
            None => Ok(()),
            Some(_) => Err(UsageError(format!(
                "there is no store {}; name the one you mean with --store or --config, or let `helix \
                 run`, `serve` or `migrate` make it",
                self.store
            ))),
        }
    }

    /// An agent by its name.
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
            known => format!(
                "there is no agent `{name}`; use one of: {}",
                known.join(", ")
            ),
        };
        Err(match &self.file {
            Some(file) => ConfigError::of_file(file, why).into(),
            None => UsageError(why).into(),
        })
    }

    /// The agent of chats that name none: the one that was asked for, or else the first.
    ///
    /// # Errors
    /// As [`Plan::agent`].
    pub fn default_agent(&self, asked: Option<&str>) -> anyhow::Result<Option<AnyAgent>> {
        match asked {
            Some(name) => self.agent(name).cloned().map(Some),
            None => Ok(self.config.agents.first().cloned()),
        }
    }

    /// Checks that what tools need from the environment is there, before anything is performed.
    ///
    /// # Errors
    /// [`ConfigError`] names the variable that is not set.
    pub fn check_environment(&self) -> anyhow::Result<()> {
        let mut variables = self.config.variables.iter();
        let Some(missing) = variables.find(|variable| !variable.is_set()) else {
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

    /// Checks where streams are asked to be kept. They are kept in the store; a place of their own
    /// is not built yet.
    ///
    /// # Errors
    /// [`UsageError`] says what to write instead.
    pub fn check_stream(&self, url: &str) -> Result<(), UsageError> {
        let stream = StoreUrl::parse(url, Path::new("."))
            .map_err(|error| UsageError(format!("--stream: {error}")))?;
        if stream == self.store {
            return Ok(());
        }
        Err(UsageError(format!(
            "--stream: streams apart from the store ({}) are not built yet; leave --stream out, and \
             they are kept in the store",
            self.store
        )))
    }
}

/// What is used.
#[derive(Debug)]
#[non_exhaustive]
pub struct Setup {
    /// What was said.
    pub plan: Plan,
    /// The store.
    pub backend: Backend,
    /// The time that this process goes by: that of its runtime, and of commands without one.
    pub clock: Arc<dyn Clock>,
    /// Where its ids come from.
    pub ids: Arc<dyn IdSource>,
}

impl Setup {
    /// What is used, in the time of this machine.
    pub(crate) fn new(plan: Plan, backend: Backend) -> Self {
        Self {
            plan,
            backend,
            clock: Arc::new(SystemClock::new()),
            ids: Arc::new(UuidIds::new()),
        }
    }

    /// The agents by name.
    #[must_use]
    pub fn agents(&self) -> Arc<AgentRegistry> {
        let agents = AgentRegistry::new();
        for agent in &self.plan.config.agents {
            agents.replace(agent);
        }
        Arc::new(agents)
    }

    /// A runtime under construction, over the store, with the agents.
    pub fn runtime_builder(&self) -> LocalRuntimeBuilder {
        self.runtime_builder_on(self.backend.clone())
    }

    /// The same over another form of the store, like one that is measured.
    pub fn runtime_builder_on(&self, backend: Backend) -> LocalRuntimeBuilder {
        LocalRuntime::builder(backend)
            .agents(self.agents())
            .clock(Arc::clone(&self.clock))
            .ids(Arc::clone(&self.ids))
            .lease(self.plan.config.runtime.lease)
            .recovery(false)
    }

    /// A runtime for one command: whoever answers, resumes, and nobody takes over the runs of others.
    #[must_use]
    pub fn runtime(&self) -> LocalRuntime {
        self.runtime_builder().build()
    }
}

/// Makes a folder for its owner alone. One that is there stays as it is.
fn make_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Opens a store. An empty one is set up; an older schema is brought up to date with `migrate`, and
/// refused without.
///
/// # Errors
/// [`UsageError`] says what to do.
pub async fn open_store(url: &StoreUrl, migrate: bool) -> Result<Backend, UsageError> {
    let path = match url {
        StoreUrl::Memory => return Ok(MemoryStore::new().into()),
        StoreUrl::Sqlite(path) => path,
    };
    if path == Path::new(STORE)
        && let Some(folder) = path.parent()
    {
        make_private(folder).map_err(|error| {
            UsageError(format!(
                "the folder {} cannot be made: {error}",
                folder.display()
            ))
        })?;
    }
    let open = async |migrate| {
        let config = SqliteConfig::new().migrate(migrate);
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
