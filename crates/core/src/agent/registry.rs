//! Agents by name, for runtimes that start from a stored session.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Agent, AnyAgent, DefinitionError};
use crate::error::{Coded, ErrorCode};
use crate::id::{RunId, SessionId, UserId};
use crate::tool::Tool;

type Factory = Arc<dyn Fn(&AgentContext) -> Result<AnyAgent, DefinitionError> + Send + Sync>;

/// For whom a factory makes an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentContext {
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: Option<RunId>,
    /// The session's owner.
    pub user_id: Option<UserId>,
}

impl AgentContext {
    /// For a session.
    #[must_use]
    pub fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            run_id: None,
            user_id: None,
        }
    }
}

/// No agent has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no agent named {name:?}; register it, or use one of: {}", known.join(", "))]
#[non_exhaustive]
pub struct AgentNotFound {
    /// The name.
    pub name: String,
    /// The names there are.
    pub known: Vec<String>,
}

impl Coded for AgentNotFound {
    fn code(&self) -> ErrorCode {
        ErrorCode::AgentNotFound
    }
}

/// The name is taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "another agent named {name:?} is registered; build an agent once and share its clones, give this one \
     another name, or put it in the other's place with `AgentRegistry::replace`"
)]
#[non_exhaustive]
pub struct AlreadyRegistered {
    /// The name.
    pub name: String,
}

impl Coded for AlreadyRegistered {
    fn code(&self) -> ErrorCode {
        ErrorCode::DefinitionInvalid
    }
}

/// Why a name did not lead to an agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// No agent has this name.
    #[error(transparent)]
    NotFound(#[from] AgentNotFound),
    /// Two agents were registered under this name.
    #[error("two agents named {name:?} were registered; give each a name of its own")]
    Twice {
        /// The name.
        name: String,
    },
    /// The factory made something impossible.
    #[error("the factory of agent {name} failed")]
    Factory {
        /// The name.
        name: String,
        /// Why.
        #[source]
        source: DefinitionError,
    },
    /// The factory made an agent of another name.
    #[error("the factory of agent {name} made one named {made}; give both one name")]
    OtherName {
        /// The name that was asked for.
        name: String,
        /// The name of what was made.
        made: String,
    },
}

impl Coded for ResolveError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound(error) => error.code(),
            Self::Factory { source, .. } => source.code(),
            Self::Twice { .. } | Self::OtherName { .. } => ErrorCode::DefinitionInvalid,
        }
    }
}

enum Entry {
    Agent(AnyAgent),
    Factory(Factory),
    /// Two agents were to have this name; neither is taken for the other.
    Twice,
}

/// Agents by name. Shared by reference; every method takes `&self`.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::AgentRegistry;
///
/// let agents = AgentRegistry::new();
/// agents.replace(&Agent::builder("support").model("anthropic/claude-sonnet-4-5").build()?);
/// assert!(agents.has("support"));
/// # Ok::<(), Error>(())
/// ```
#[derive(Default)]
pub struct AgentRegistry {
    entries: RwLock<BTreeMap<String, Entry>>,
}

impl AgentRegistry {
    /// A registry without agents.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Entry>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, name: String, entry: Entry) -> Result<(), AlreadyRegistered> {
        let mut entries = self.write();
        if entries.contains_key(&name) {
            return Err(AlreadyRegistered { name });
        }
        entries.insert(name, entry);
        Ok(())
    }

    /// Adds an agent under its name.
    ///
    /// # Errors
    /// [`AlreadyRegistered`] when the name is taken.
    pub fn register<Out>(&self, agent: &Agent<Out>) -> Result<(), AlreadyRegistered> {
        self.keep_sub_agents(agent)?;
        self.add(agent.name().to_owned(), Entry::Agent(agent.erase()))
    }

    /// Adds a function that makes the agent anew for each session.
    ///
    /// # Errors
    /// [`AlreadyRegistered`] when the name is taken.
    pub fn register_factory<Out, F>(
        &self,
        name: impl Into<String>,
        factory: F,
    ) -> Result<(), AlreadyRegistered>
    where
        F: Fn(&AgentContext) -> Result<Agent<Out>, DefinitionError> + Send + Sync + 'static,
    {
        let erased = move |context: &AgentContext| factory(context).map(|agent| agent.erase());
        self.add(name.into(), Entry::Factory(Arc::new(erased)))
    }

    /// Registers the agents that are tools of this one, so that any process can perform their runs.
    fn keep_sub_agents<Out>(&self, agent: &Agent<Out>) -> Result<(), AlreadyRegistered> {
        let mut sub_agents = agent.tools().iter().flat_map(Tool::agents);
        sub_agents.try_for_each(|sub_agent| self.keep(sub_agent))
    }

    /// Puts an agent in the place of whatever has its name. True when there was something.
    pub fn replace<Out>(&self, agent: &Agent<Out>) -> bool {
        for sub_agent in agent.tools().iter().flat_map(Tool::agents) {
            self.replace(sub_agent);
        }
        let entry = Entry::Agent(agent.erase());
        self.write()
            .insert(agent.name().to_owned(), entry)
            .is_some()
    }

    /// Makes sure that this very agent is what its name leads to. Clones of an agent are the same; one
    /// that is built a second time is another.
    ///
    /// # Errors
    /// [`AlreadyRegistered`] when another agent, or a factory, has the name.
    #[doc(hidden)]
    pub fn keep<Out>(&self, agent: &Agent<Out>) -> Result<(), AlreadyRegistered> {
        let is_same = |entry: &Entry| matches!(entry, Entry::Agent(have) if have.is_same(agent));
        if self.read().get(agent.name()).is_some_and(is_same) {
            return Ok(());
        }
        match self.register(agent) {
            // Somebody may have registered it between the look and this.
            Err(_) if self.read().get(agent.name()).is_some_and(is_same) => Ok(()),
            registered => registered,
        }
    }

    /// As [`AgentRegistry::keep`], for those who cannot report a mistake: when another agent has the name,
    /// using either is an error from then on.
    pub fn keep_or_spoil<Out>(&self, agent: &Agent<Out>) {
        if let Err(error) = self.keep(agent) {
            tracing::error!(event = "agent.registered_twice", %error);
            self.write().insert(error.name, Entry::Twice);
        }
    }

    /// Removes an agent. True when there was one.
    pub fn unregister(&self, name: &str) -> bool {
        self.write().remove(name).is_some()
    }

    /// Removes all agents.
    #[doc(hidden)]
    pub fn clear(&self) {
        self.write().clear();
    }

    /// Whether the name leads somewhere.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.read().contains_key(name)
    }

    /// The agent of this name, unless a factory makes it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<AnyAgent> {
        match self.read().get(name)? {
            Entry::Agent(agent) => Some(agent.clone()),
            Entry::Factory(_) | Entry::Twice => None,
        }
    }

    /// All names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.read().keys().cloned().collect()
    }

    /// The agent of this name, made by its factory where there is one.
    ///
    /// # Errors
    /// [`ResolveError`] for an unknown name, or a factory that fails.
    pub fn resolve(&self, name: &str, context: &AgentContext) -> Result<AnyAgent, ResolveError> {
        let factory = {
            let entries = self.read();
            match entries.get(name) {
                Some(Entry::Agent(agent)) => return Ok(agent.clone()),
                Some(Entry::Factory(factory)) => Arc::clone(factory),
                Some(Entry::Twice) => {
                    return Err(ResolveError::Twice {
                        name: name.to_owned(),
                    });
                }
                None => {
                    return Err(ResolveError::NotFound(AgentNotFound {
                        name: name.to_owned(),
                        known: entries.keys().cloned().collect(),
                    }));
                }
            }
        };
        // The factory runs outside the lock: it may use the registry itself.
        let agent = factory(context).map_err(|source| ResolveError::Factory {
            name: name.to_owned(),
            source,
        })?;
        if agent.name() == name {
            for sub_agent in agent.tools().iter().flat_map(Tool::agents) {
                // It may make another agent of that name each time; the first one stays.
                let _ = self.keep(sub_agent);
            }
            return Ok(agent);
        }
        Err(ResolveError::OtherName {
            name: name.to_owned(),
            made: agent.name().to_owned(),
        })
    }
}

impl fmt::Debug for AgentRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentRegistry")
            .field("names", &self.names())
            .finish()
    }
}
