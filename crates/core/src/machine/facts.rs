//! What the loop knows of an agent.

use serde::{Deserialize, Serialize};

use crate::agent::Agent;

/// The limits of an agent, fixed when a run starts: an agent that is changed meanwhile does not
/// change the runs that go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgentFacts {
    /// How many steps a turn may have; `None` is no limit.
    pub max_steps: Option<u32>,
    /// How often a model that owes an output is asked for it again.
    pub max_completion_retries: u32,
    /// How often a model call that failed is tried again.
    pub model_retries: u32,
}

impl AgentFacts {
    /// The facts of an agent.
    #[must_use]
    pub fn of<Out>(agent: &Agent<Out>) -> Self {
        Self {
            max_steps: agent.stop_config().max_steps,
            max_completion_retries: agent.max_completion_retries(),
            model_retries: agent.model_config().retries(),
        }
    }
}
