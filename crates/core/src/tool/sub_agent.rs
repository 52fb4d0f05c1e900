//! Tools that are agents.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::build::parse_input;
use super::{Tool, ToolBuilder, ToolResult};
use crate::agent::{Agent, AnyAgent};
use crate::message::UserMessage;
use crate::schema::schema_of;
use crate::step::SUBAGENT_TOOL_PREFIX;

/// An agent that answers the calls of a tool.
#[derive(Clone)]
pub(crate) struct SubAgent {
    pub(crate) agent: AnyAgent,
    message: Arc<dyn Fn(Value) -> ToolResult<UserMessage> + Send + Sync>,
}

impl SubAgent {
    /// The message with which the agent begins, from the arguments of a call.
    pub(crate) fn message(&self, arguments: Value) -> ToolResult<UserMessage> {
        (self.message)(arguments)
    }
}

impl fmt::Debug for SubAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SubAgent").field(&self.agent.name()).finish()
    }
}

/// The task of a sub-agent.
#[derive(Deserialize, JsonSchema)]
struct Task {
    /// The task, with everything that the agent has to know: it sees nothing else of this conversation.
    message: String,
}

impl Tool {
    /// An agent as a tool, named `subagent__` and the name of the agent.
    ///
    /// A call starts the agent in a session of its own, with the `message` of the call as its only message. Its
    /// output is the result of the call. It has its own state and its own tools; its chunks are on the stream of
    /// the session that called it. Where it waits for a person or a client, so does its caller, and the answer is
    /// submitted to the root session.
    ///
    /// ```
    /// use helix_agents::prelude::*;
    ///
    /// let researcher = Agent::builder("researcher")
    ///     .model("anthropic/claude-sonnet-5")
    ///     .description("Finds facts and names its sources.")
    ///     .build()?;
    /// let writer = Agent::builder("writer")
    ///     .model("anthropic/claude-sonnet-5")
    ///     .tools(Tool::sub_agent(&researcher))
    ///     .build()?;
    /// assert_eq!(writer.tools()[0].name(), "subagent__researcher");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn sub_agent<Out>(agent: &Agent<Out>) -> ToolBuilder {
        Self::sub_agent_with(agent, |task: Task| task.message)
    }

    /// [`Tool::sub_agent`] with an input of its own, from which the message of the agent is made.
    ///
    /// ```
    /// use helix_agents::prelude::*;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Topic {
    ///     subject: String,
    ///     max_words: u32,
    /// }
    ///
    /// # fn tools(researcher: &Agent) -> Result<Tool, Error> {
    /// let research = Tool::sub_agent_with(researcher, |topic: Topic| {
    ///     format!("Write at most {} words on {}.", topic.max_words, topic.subject)
    /// });
    /// # Ok(research.build()?)
    /// # }
    /// ```
    pub fn sub_agent_with<Out, In, Message>(
        agent: &Agent<Out>,
        message: impl Fn(In) -> Message + Send + Sync + 'static,
    ) -> ToolBuilder
    where
        In: DeserializeOwned + JsonSchema + 'static,
        Message: Into<UserMessage>,
    {
        let name = format!("{SUBAGENT_TOOL_PREFIX}{}", agent.name());
        let description = match agent.description() {
            "" => format!("Gives a task to the agent {}.", agent.name()),
            text => text.to_owned(),
        };
        let tool = name.clone();
        let sub_agent = SubAgent {
            agent: agent.erase(),
            message: Arc::new(move |arguments| {
                let input = parse_input::<In>(&tool, arguments)?;
                Ok(message(input).into())
            }),
        };
        ToolBuilder::of_sub_agent(name, description, schema_of::<In>(), sub_agent)
    }
}
