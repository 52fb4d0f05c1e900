//! The limits of an agent that the loop needs.

use serde::{Deserialize, Serialize};

use crate::agent::Agent;

/// The limits of an agent, fixed when a run starts: changing the agent does not affect
/// runs that are running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgentLimits {
    /// The maximum number of steps in a turn; `None` for no limit.
    pub max_steps: Option<u32>,
    /// How many times a model is asked again for a missing output.
    pub max_completion_retries: u32,
    /// How many times a failed model call is retried.
    pub model_retries: u32,
}

impl AgentLimits {
    /// Reads the limits of an agent.
    #[must_use]
    pub fn of<Out>(agent: &Agent<Out>) -> Self {
        Self {
            max_steps: agent.stop_config().max_steps,
            max_completion_retries: agent.max_completion_retries(),
            model_retries: agent.model_config().retries(),
        }
    }
}
