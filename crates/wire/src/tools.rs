//! Who runs which tool.

use std::fmt;
use std::sync::Arc;

use helix_agents_core::agent::{AgentRegistry, AnyAgent};
use helix_agents_core::tool::ExecutedBy;

/// Who runs a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolKind {
    /// The server, or a sub-agent. Clients wait for the result.
    #[default]
    Server,
    /// A client, whose answer is the result.
    Client,
}

/// Knows who runs a tool, by the name of the agent and of the tool.
#[derive(Clone, Default)]
pub struct ToolKinds(Option<Arc<Lookup>>);

type Lookup = dyn Fn(&str, &str) -> ToolKind + Send + Sync;

impl ToolKinds {
    /// Asks a function of the agent's and the tool's name.
    #[must_use]
    pub fn new(lookup: impl Fn(&str, &str) -> ToolKind + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(lookup)))
    }

    /// Asks the agents of a registry. A tool that none of them has is the server's.
    #[must_use]
    pub fn of_agents(agents: &Arc<AgentRegistry>) -> Self {
        let agents = Arc::clone(agents);
        Self::new(move |agent, tool| {
            let agent = agents.get(agent);
            agent.map_or(ToolKind::Server, |agent| kind_in(&agent, tool))
        })
    }

    /// Returns who runs a tool.
    #[must_use]
    pub fn of(&self, agent: &str, tool: &str) -> ToolKind {
        self.0
            .as_ref()
            .map_or_else(ToolKind::default, |lookup| lookup(agent, tool))
    }
}

fn kind_in(agent: &AnyAgent, tool: &str) -> ToolKind {
    match agent.tool(tool).map(|tool| tool.spec().executed_by) {
        Some(ExecutedBy::Client) => ToolKind::Client,
        _ => ToolKind::Server,
    }
}

impl fmt::Debug for ToolKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolKinds")
    }
}
