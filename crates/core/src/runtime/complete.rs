//! The parts of a request that only a runtime can fill in.

use std::sync::Arc;

use super::RuntimeError;
use crate::agent::{AgentContext, AnyAgent};
use crate::budget::{BudgetTerms, BudgetUnit, CallEstimate};
use crate::context::{StandIn, SummaryWriter};
use crate::entries::{AsRead, EntryError, ExecuteRequest, ResumeRequest};
use crate::perform::Ports;

impl ExecuteRequest {
    /// Completes the request for a runtime with these ports: generates the id of a new session, and
    /// resolves the agent, which gives the initial state.
    ///
    /// # Errors
    /// [`RuntimeError::Agent`] if the agent cannot be resolved, [`RuntimeError::Model`] if it names a
    /// model that the runtime does not have, [`RuntimeError::Context`] if it leaves turns out near a limit
    /// that is not known, [`RuntimeError::Budget`] for a budget in micro-dollars on a model whose prices are
    /// not known.
    pub fn complete(mut self, ports: &Ports) -> Result<(AnyAgent, Self), RuntimeError> {
        self.choose_session(ports.ids.as_ref())
            .map_err(EntryError::from)?;
        let mut context = AgentContext::new(self.session()?.clone());
        context.user_id.clone_from(match &self.read {
            AsRead::Found(found) => &found.state.user_id,
            AsRead::Unread | AsRead::Absent => &self.user_id,
        });
        let agent = ports.agents.resolve(&self.agent_type, &context)?;
        let model = agent.model().find(agent.name(), ports.models.as_ref())?;
        agent.check_context(model.as_ref())?;
        let requested = self.budget.limits.as_deref();
        if let Some(SummaryWriter { model, config }) = agent.context().summary_writer() {
            let found = model.find(agent.name(), ports.models.as_ref())?;
            let budgets = requested.map(|requested| agent.budgets().overlaid(requested));
            let budgets = budgets.as_ref().unwrap_or_else(|| agent.budgets());
            let is_limited = budgets.limits_unit(BudgetUnit::MicroDollars);
            CallEstimate::of_config(config, found.as_ref()).check_priced_as(
                agent.name(),
                model.name(),
                is_limited,
            )?;
        }
        self.messages.iter_mut().for_each(StandIn::remove);
        self.budget.terms = BudgetTerms::of(&agent, model.as_ref(), &self.messages, requested)?;
        let initial_state = agent.initial_state();
        self.initial_state
            .get_or_insert_with(|| Arc::clone(initial_state));
        Ok((agent, self))
    }
}

impl ResumeRequest {
    /// Completes the request with the limits that the agent of the session has now.
    #[must_use]
    pub fn complete(mut self, agent: &AnyAgent) -> Self {
        self.budget.terms = BudgetTerms::of_agent(agent);
        self
    }
}
