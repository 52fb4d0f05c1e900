//! The parts of a request that only a runtime can fill in.

use std::sync::Arc;

use super::RuntimeError;
use crate::agent::{AgentContext, AnyAgent};
use crate::entries::{AsRead, EntryError, ExecuteRequest};
use crate::perform::Ports;

impl ExecuteRequest {
    /// Completes the request for a runtime with these ports: generates the id of a new session, and
    /// resolves the agent, which gives the initial state.
    ///
    /// # Errors
    /// [`RuntimeError::Agent`] if the agent cannot be resolved, [`RuntimeError::Model`] if it names a
    /// model that the runtime does not have.
    pub fn complete(mut self, ports: &Ports) -> Result<(AnyAgent, Self), RuntimeError> {
        self.choose_session(ports.ids.as_ref())
            .map_err(EntryError::from)?;
        let mut context = AgentContext::new(self.session()?.clone());
        context.user_id.clone_from(match &self.read {
            AsRead::Found(found) => &found.state.user_id,
            AsRead::Unread | AsRead::Absent => &self.user_id,
        });
        let agent = ports.agents.resolve(&self.agent_type, &context)?;
        agent.check_model(ports.models.as_ref())?;
        let initial_state = agent.initial_state();
        self.initial_state
            .get_or_insert_with(|| Arc::clone(initial_state));
        Ok((agent, self))
    }
}
