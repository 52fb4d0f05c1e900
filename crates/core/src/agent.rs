//! Agents: who answers, with what, under which rules.
//!
//! An [`Agent`] is plain data and code, fixed when it is built. It knows no store and no runtime:
//! the same agent runs on every engine. `Out` is the type of its output; everything else is erased.
//! Runtimes and registries keep agents as [`AnyAgent`].

mod builder;
mod error;
mod registry;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde_json::Value;

use crate::budget::Budgets;
use crate::context::{ContextPolicy, UnknownContextLimit};
use crate::error::{Coded, ErrorCode};
use crate::hooks::AgentHooks;
use crate::model::{Model, ModelConfig, ToolSchema};
use crate::perform::Models;
use crate::schema::Schema;
use crate::step::{StopConfig, SystemPrompt};
use crate::tool::Tool;

pub use builder::AgentBuilder;
pub use error::DefinitionError;
pub(crate) use error::{check_sub_agent_name, check_tool_name};
pub use registry::{AgentContext, AgentNotFound, AgentRegistry, AlreadyRegistered, ResolveError};

/// How often a model that owes an output is asked again, when an agent does not say.
pub const DEFAULT_MAX_COMPLETION_RETRIES: u32 = 2;

/// An agent whose output is an `Out`; one without an output schema gives a text. Clones share
/// everything.
///
/// ```
/// use helix_agents::prelude::*;
///
/// let agent = Agent::builder("assistant").model("anthropic/claude-sonnet-4-5").system_prompt("Be brief.").build()?;
/// assert_eq!(agent.name(), "assistant");
/// # Ok::<(), Error>(())
/// ```
pub struct Agent<Out = String> {
    def: Arc<AgentDef>,
    out: PhantomData<fn() -> Out>,
}

/// An agent with its output as JSON, to be kept beside others.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::AnyAgent;
///
/// let writer = Agent::builder("writer").model("anthropic/claude-sonnet-4-5").build()?;
/// let critic = Agent::builder("critic").model("anthropic/claude-sonnet-4-5").build()?;
/// let agents: Vec<AnyAgent> = vec![writer.erase(), critic.erase()];
/// assert_eq!(agents[1].name(), "critic");
/// # Ok::<(), Error>(())
/// ```
pub type AnyAgent = Agent<Value>;

/// Which model an agent uses.
///
/// ```
/// use helix_agents::ModelRef;
///
/// let model = ModelRef::from("anthropic/claude-sonnet-4-5");
/// assert!(matches!(model, ModelRef::Named(name) if name.starts_with("anthropic/")));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ModelRef {
    /// One that the runtime knows by this name, `provider/model`.
    Named(String),
    /// This one.
    Given(Arc<dyn Model>),
}

impl From<&str> for ModelRef {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl From<String> for ModelRef {
    fn from(name: String) -> Self {
        Self::Named(name)
    }
}

impl<M: Model + 'static> From<M> for ModelRef {
    fn from(model: M) -> Self {
        Self::Given(Arc::new(model))
    }
}

impl ModelRef {
    /// The name of the model, for usage records.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Given(model) => model.name(),
        }
    }

    /// The model, by its name where it is named.
    ///
    /// # Errors
    /// [`UnknownModel`] when there is none of that name.
    pub(crate) fn find(
        &self,
        agent: &str,
        models: &dyn Models,
    ) -> Result<Arc<dyn Model>, UnknownModel> {
        match self {
            Self::Given(model) => Ok(Arc::clone(model)),
            Self::Named(name) => models.model(name).ok_or_else(|| UnknownModel {
                agent: agent.to_owned(),
                model: name.clone(),
                why: models.why_missing(name),
            }),
        }
    }
}

/// An agent names a model that its runtime does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("agent {agent} uses the model {model:?}, {}", self.remedy())]
#[non_exhaustive]
pub struct UnknownModel {
    /// The agent.
    pub agent: String,
    /// The name of the model.
    pub model: String,
    /// Why it cannot be used, and what to do, where more is known than that.
    pub why: Option<String>,
}

impl UnknownModel {
    fn remedy(&self) -> String {
        match &self.why {
            Some(why) => format!("which cannot be used: {why}"),
            None => format!(
                "which this runtime does not know; write one like `anthropic/claude-sonnet-4-5`, register it \
                 with `LocalRuntime::builder(store).model({:?}, ..)`, or give the agent a model of its own \
                 with `.model(..)`",
                self.model
            ),
        }
    }
}

impl Coded for UnknownModel {
    fn code(&self) -> ErrorCode {
        ErrorCode::DefinitionInvalid
    }
}

/// The definition of an agent, without the type of its output.
#[derive(Debug, Clone)]
pub(crate) struct AgentDef {
    name: String,
    description: String,
    examples: Vec<String>,
    model: ModelRef,
    model_config: ModelConfig,
    system_prompt: SystemPrompt,
    tools: Vec<Tool>,
    /// The tools that the model is shown, with `__finish__` when there is an output schema.
    effective_tools: Vec<ToolSchema>,
    output_schema: Option<Schema>,
    stop: StopConfig,
    max_completion_retries: u32,
    hooks: Vec<Arc<dyn AgentHooks>>,
    initial_state: Arc<Value>,
    budgets: Budgets,
    context: ContextPolicy,
    /// The size of what every prompt begins with, as far as it does not depend on the session.
    fixed_bytes: usize,
}

impl Agent {
    /// Begins an agent. The name is how runtimes, sessions and parents refer to it.
    pub fn builder(name: impl Into<String>) -> AgentBuilder {
        AgentBuilder::new(name.into())
    }
}

impl<Out> Agent<Out> {
    /// The agent's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.def.name
    }

    /// Messages that show what it can do.
    #[must_use]
    pub fn examples(&self) -> &[String] {
        &self.def.examples
    }

    /// The purpose of the agent, as the model of a parent agent reads it; empty by default.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.def.description
    }

    /// The model it uses.
    #[must_use]
    pub fn model(&self) -> &ModelRef {
        &self.def.model
    }

    /// The model's settings.
    #[must_use]
    pub fn model_config(&self) -> &ModelConfig {
        &self.def.model_config
    }

    /// Who it is told to be.
    #[must_use]
    pub fn system_prompt(&self) -> &SystemPrompt {
        &self.def.system_prompt
    }

    /// Its tools.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        &self.def.tools
    }

    /// The tool with this name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.def.tools.iter().find(|tool| tool.name() == name)
    }

    /// The tools that the model is shown, with `__finish__` when there is an output schema.
    #[must_use]
    pub fn effective_tools(&self) -> &[ToolSchema] {
        &self.def.effective_tools
    }

    /// The schema of the typed output; `None` for an agent that answers with text.
    #[must_use]
    pub fn output_schema(&self) -> Option<&Schema> {
        self.def.output_schema.as_ref()
    }

    /// The rules that end a turn.
    #[must_use]
    pub fn stop_config(&self) -> &StopConfig {
        &self.def.stop
    }

    /// How often the model is asked again for an output that it owes.
    #[must_use]
    pub fn max_completion_retries(&self) -> u32 {
        self.def.max_completion_retries
    }

    /// Its hooks, in the order they were given.
    #[must_use]
    pub fn hooks(&self) -> &[Arc<dyn AgentHooks>] {
        &self.def.hooks
    }

    /// The state of a new session.
    #[must_use]
    pub fn initial_state(&self) -> &Arc<Value> {
        &self.def.initial_state
    }

    /// Returns the limits of its runs, its sessions and their trees. Empty if it has none.
    pub fn budgets(&self) -> &Budgets {
        &self.def.budgets
    }

    /// Returns what happens when a conversation comes near the context limit of its model.
    #[must_use]
    pub fn context(&self) -> &ContextPolicy {
        &self.def.context
    }

    /// Checks that the context limit of this model is known, if the agent leaves turns out near it.
    ///
    /// # Errors
    /// [`UnknownContextLimit`] if neither the model nor the agent says when a conversation is too long.
    pub fn check_context(&self, model: &dyn Model) -> Result<(), UnknownContextLimit> {
        self.def.context.limit(&self.erase(), model).map(drop)
    }

    /// The size of its system prompt and its tools in bytes. A system prompt that is made from the state is
    /// left out.
    pub(crate) fn fixed_bytes(&self) -> usize {
        self.def.fixed_bytes
    }

    /// Whether both are clones of one agent.
    pub(crate) fn is_same<Other>(&self, other: &Agent<Other>) -> bool {
        Arc::ptr_eq(&self.def, &other.def)
    }

    /// The same agent with another model, as a test wants it.
    #[must_use]
    pub fn with_model(&self, model: impl Into<ModelRef>) -> Self {
        let mut def = AgentDef::clone(&self.def);
        def.model = model.into();
        Self {
            def: Arc::new(def),
            out: PhantomData,
        }
    }

    /// Checks that its model is one that the runtime knows.
    ///
    /// # Errors
    /// [`UnknownModel`] when it is not.
    pub fn check_model(&self, models: &dyn Models) -> Result<(), UnknownModel> {
        self.def.model.find(&self.def.name, models).map(drop)
    }

    /// The same agent with its output as JSON, to be kept beside others.
    #[must_use]
    pub fn erase(&self) -> AnyAgent {
        Agent {
            def: Arc::clone(&self.def),
            out: PhantomData,
        }
    }
}

impl<Out> Clone for Agent<Out> {
    fn clone(&self) -> Self {
        Self {
            def: Arc::clone(&self.def),
            out: PhantomData,
        }
    }
}

impl<Out> fmt::Debug for Agent<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("name", &self.def.name)
            .field(
                "tools",
                &self.def.tools.iter().map(Tool::name).collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}
