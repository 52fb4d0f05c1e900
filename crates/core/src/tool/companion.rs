//! The tools with which an agent works with persistent agents.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Tool, ToolBuilder};
use crate::agent::{Agent, AnyAgent, DefinitionError};

/// The prefix of the tools with which an agent works with its persistent agents.
pub(crate) const COMPANION_TOOL_PREFIX: &str = "companion__";

/// An agent that another one starts, and can send further messages to. It keeps its session, and with it what it
/// knows.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::PersistentAgent;
///
/// let writer = Agent::builder("writer").model("anthropic/claude-sonnet-5").build()?;
/// let scout = Agent::builder("scout").model("anthropic/claude-sonnet-5").build()?;
/// let editor = Agent::builder("editor")
///     .model("anthropic/claude-sonnet-5")
///     .persistent_agents([PersistentAgent::blocking(&writer), PersistentAgent::non_blocking(&scout)])
///     .build()?;
/// assert!(editor.tool("companion__spawnAgent").is_some());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PersistentAgent {
    pub(crate) agent: AnyAgent,
    pub(crate) blocking: bool,
    description: Option<String>,
}

impl PersistentAgent {
    /// An agent for whose outcome the calls wait that start it or send it a message.
    #[must_use]
    pub fn blocking<Out>(agent: &Agent<Out>) -> Self {
        Self {
            agent: agent.erase(),
            blocking: true,
            description: None,
        }
    }

    /// An agent that works beside its caller, which is told when it is done.
    #[must_use]
    pub fn non_blocking<Out>(agent: &Agent<Out>) -> Self {
        Self {
            blocking: false,
            ..Self::blocking(agent)
        }
    }

    /// Sets how the agent is described to the model, in place of its own description.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    fn line(&self) -> String {
        let text = match &self.description {
            Some(text) => text.as_str(),
            None => self.agent.description(),
        };
        let mode = match self.blocking {
            true => "blocking",
            false => "non-blocking",
        };
        let name = self.agent.name();
        match text {
            "" => format!("- {name} ({mode})"),
            text => format!("- {name} ({mode}): {text}"),
        }
    }
}

/// What a companion tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CompanionOp {
    SpawnAgent,
    SendMessage,
    ListChildren,
    GetChildStatus,
    TerminateChild,
    WaitForResult,
}

impl CompanionOp {
    const ALL: [Self; 6] = [
        Self::SpawnAgent,
        Self::SendMessage,
        Self::ListChildren,
        Self::GetChildStatus,
        Self::TerminateChild,
        Self::WaitForResult,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::SpawnAgent => "spawnAgent",
            Self::SendMessage => "sendMessage",
            Self::ListChildren => "listChildren",
            Self::GetChildStatus => "getChildStatus",
            Self::TerminateChild => "terminateChild",
            Self::WaitForResult => "waitForResult",
        }
    }

    fn description(self, agents: &[PersistentAgent]) -> String {
        match self {
            Self::SpawnAgent => {
                let lines: Vec<_> = agents.iter().map(PersistentAgent::line).collect();
                format!(
                    "Starts an agent that keeps its memory, so that it can be sent further messages by its name. \
                     A blocking agent returns its output here; a non-blocking one works on its own, and you are \
                     told when it is done. The agents:\n{}",
                    lines.join("\n")
                )
            }
            Self::SendMessage => "Sends a message to an agent that you have started. One that is working is \
                interrupted and goes on with the message; one that is done begins again, with its memory."
                .to_owned(),
            Self::ListChildren => "Lists the agents that you have started, with their status.".to_owned(),
            Self::GetChildStatus => {
                "Tells the status of an agent that you have started, and its output if it is done.".to_owned()
            }
            Self::TerminateChild => "Ends what an agent that you have started is doing. It keeps its memory and \
                can be sent further messages."
                .to_owned(),
            Self::WaitForResult => {
                "Waits until an agent that you have started is done, and returns its output.".to_owned()
            }
        }
    }

    fn input(self, agents: &[PersistentAgent]) -> Value {
        let name = json!({ "type": "string", "description": "The name of the agent that you have started." });
        match self {
            Self::SpawnAgent => {
                let names: Vec<_> = agents.iter().map(|one| one.agent.name()).collect();
                json!({
                    "type": "object",
                    "properties": {
                        "agent": { "type": "string", "enum": names, "description": "Which agent to start." },
                        "name": {
                            "type": "string",
                            "description": "A name of your choice to address it by: letters, digits, _ and -. \
                                Without one, it is named after the agent and numbered."
                        },
                        "initialMessage": {
                            "type": "string",
                            "description": "The task, with everything that the agent has to know: it sees \
                                nothing else of this conversation."
                        }
                    },
                    "required": ["agent", "initialMessage"],
                    "additionalProperties": false
                })
            }
            Self::SendMessage => json!({
                "type": "object",
                "properties": { "name": name, "message": { "type": "string", "description": "The message." } },
                "required": ["name", "message"],
                "additionalProperties": false
            }),
            Self::ListChildren => {
                json!({ "type": "object", "properties": {}, "additionalProperties": false })
            }
            Self::GetChildStatus | Self::TerminateChild | Self::WaitForResult => json!({
                "type": "object",
                "properties": { "name": name },
                "required": ["name"],
                "additionalProperties": false
            }),
        }
    }
}

/// The arguments of the tool that starts an agent.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SpawnAgent {
    pub(crate) agent: String,
    pub(crate) name: Option<String>,
    pub(crate) initial_message: String,
}

/// The arguments of a tool that addresses an agent, and perhaps sends it a message.
#[derive(Debug, Deserialize)]
pub(crate) struct Addressed {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) message: String,
}

/// A companion tool of an agent.
#[derive(Debug, Clone)]
pub(crate) struct CompanionTool {
    pub(crate) op: CompanionOp,
    pub(crate) agents: Arc<[PersistentAgent]>,
}

/// The companion tools of an agent with these persistent agents.
///
/// # Errors
/// [`DefinitionError`] when two of them have one name.
pub(crate) fn companion_tools(
    of: &str,
    agents: Vec<PersistentAgent>,
) -> Result<Vec<Tool>, DefinitionError> {
    if agents.is_empty() {
        return Ok(Vec::new());
    }
    for (at, one) in agents.iter().enumerate() {
        let mut before = agents.iter().take(at);
        if before.any(|other| other.agent.name() == one.agent.name()) {
            return Err(DefinitionError::DuplicateAgent {
                agent: of.to_owned(),
                twice: one.agent.name().to_owned(),
            });
        }
    }
    let waits = agents.iter().any(|one| one.blocking);
    let agents: Arc<[PersistentAgent]> = agents.into();
    let ops = CompanionOp::ALL.into_iter();
    ops.filter(|op| *op != CompanionOp::WaitForResult || waits)
        .map(|op| {
            let name = format!("{COMPANION_TOOL_PREFIX}{}", op.name());
            let (description, input) = (op.description(&agents), op.input(&agents));
            let agents = Arc::clone(&agents);
            let tool = CompanionTool { op, agents };
            ToolBuilder::of_companion(name, description, input, tool).build()
        })
        .collect()
}
