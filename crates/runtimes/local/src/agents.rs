//! The agents that a run needs.

use helix_agents_core::agent::{AgentContext, AnyAgent, ResolveError};
use helix_agents_core::machine::RunState;
use helix_agents_core::perform::{PerformError, Ports, ports_of_child};
use helix_agents_core::runtime::RuntimeError;
use helix_agents_core::store::Snapshot;

use crate::LocalRuntime;

impl LocalRuntime {
    /// The agent of a session, if it is registered here.
    pub(crate) fn agent_of(&self, found: &Snapshot) -> Result<AnyAgent, ResolveError> {
        let mut context = AgentContext::new(found.state.session_id.clone());
        context.user_id.clone_from(&found.state.user_id);
        self.inner.agents.resolve(&found.state.agent_type, &context)
    }

    /// The same, if those above it are registered here, too: their hooks are called in its runs. An entry without them
    /// would begin a run that cannot be performed here.
    pub(crate) async fn performed_agent(&self, found: &Snapshot) -> Result<AnyAgent, RuntimeError> {
        let agent = self.agent_of(found)?;
        if found.state.key().is_root() {
            return Ok(agent);
        }
        match ports_of_child(found, &self.inner.ports).await {
            Ok(_) => Ok(agent),
            Err(PerformError::Agent(error)) => Err(error.into()),
            Err(PerformError::Store(error)) => Err(error.into()),
            Err(error) => Err(RuntimeError::Host {
                why: format!("the agents above the session could not be found: {error}"),
            }),
        }
    }

    /// The ports of a child's run, with the hooks of the agents above it.
    pub(crate) async fn ports_of_child(&self, state: &RunState) -> Result<Ports, PerformError> {
        let ports = &self.inner.ports;
        match ports.store.load(state.key()).await? {
            Some(found) => ports_of_child(&found, ports).await,
            None => Ok(ports.clone()),
        }
    }
}
