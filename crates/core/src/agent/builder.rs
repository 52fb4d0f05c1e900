//! Builds agents and refuses those that cannot work.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::check_name;
use super::{Agent, AgentDef, DEFAULT_MAX_COMPLETION_RETRIES, DefinitionError, ModelRef};
use crate::budget::Budgets;
use crate::context::ContextPolicy;
use crate::hooks::AgentHooks;
use crate::json::value_size;
use crate::model::{ModelConfig, ToolSchema};
use crate::schema::{Schema, schema_of};
use crate::state::{check_state, to_json};
use crate::step::{FINISH_TOOL, StepResult, StopConfig, SystemPrompt};
use crate::tool::{IntoTools, PersistentAgent, Tool, companion_tools};

/// An agent under construction. The first mistake is reported by [`AgentBuilder::build`].
///
/// ```
/// use helix_agents::prelude::*;
///
/// let support = Agent::builder("support")
///     .model("anthropic/claude-sonnet-4-5")
///     .description("Answers customers.")
///     .max_steps(8)
///     .build()?;
/// assert_eq!(support.description(), "Answers customers.");
/// # Ok::<(), Error>(())
/// ```
#[must_use = "an agent is made by `build`"]
pub struct AgentBuilder<Out = String> {
    name: String,
    description: String,
    examples: Vec<String>,
    model: Option<ModelRef>,
    model_config: ModelConfig,
    system_prompt: SystemPrompt,
    tools: Vec<Tool>,
    persistent: Vec<PersistentAgent>,
    output: Option<Value>,
    stop: StopConfig,
    max_completion_retries: u32,
    hooks: Vec<Arc<dyn AgentHooks>>,
    initial_state: Value,
    budgets: Budgets,
    context: ContextPolicy,
    mistake: Option<DefinitionError>,
    out: PhantomData<fn() -> Out>,
}

impl AgentBuilder {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            description: String::new(),
            examples: Vec::new(),
            model: None,
            model_config: ModelConfig::default(),
            system_prompt: SystemPrompt::from(""),
            tools: Vec::new(),
            persistent: Vec::new(),
            output: None,
            stop: StopConfig::default(),
            max_completion_retries: DEFAULT_MAX_COMPLETION_RETRIES,
            hooks: Vec::new(),
            initial_state: Value::Object(Map::new()),
            budgets: Budgets::new(),
            context: ContextPolicy::fail(),
            mistake: None,
            out: PhantomData,
        }
    }
}

impl<Out> AgentBuilder<Out> {
    /// Sets the purpose of the agent, which the model of a parent agent reads.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// Adds messages that show what the agent can do. Front ends offer them where a conversation is empty; no model
    /// reads them.
    pub fn examples(mut self, messages: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.examples.extend(messages.into_iter().map(Into::into));
        self
    }

    /// The model: `provider/model`, or one of your own.
    pub fn model(mut self, model: impl Into<ModelRef>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// The model's settings.
    pub fn model_config(mut self, config: ModelConfig) -> Self {
        self.model_config = config;
        self
    }

    /// Who the agent is told to be.
    pub fn system_prompt(mut self, prompt: impl Into<SystemPrompt>) -> Self {
        self.system_prompt = prompt.into();
        self
    }

    /// Who the agent is told to be, made from its state before every model call.
    pub fn system_prompt_from_state<S, F>(mut self, render: F) -> Self
    where
        S: DeserializeOwned + Default,
        F: Fn(&S) -> String + Send + Sync + 'static,
    {
        self.system_prompt = SystemPrompt::from_state(render);
        self
    }

    /// Adds tools.
    pub fn tools(mut self, tools: impl IntoTools) -> Self {
        match tools.into_tools() {
            Ok(mut tools) => self.tools.append(&mut tools),
            Err(mistake) => self.note(mistake),
        }
        self
    }

    /// Lets the agent start these agents and keep them, with the `companion__` tools.
    ///
    /// `companion__spawnAgent` starts one under a name, `companion__sendMessage` gives it more to do,
    /// `companion__listChildren` and `companion__getChildStatus` tell how far they are, `companion__terminateChild`
    /// ends what one is doing, and `companion__waitForResult`, which is there if one of them is blocking, waits for
    /// one. See [`PersistentAgent`].
    pub fn persistent_agents(mut self, agents: impl IntoIterator<Item = PersistentAgent>) -> Self {
        self.persistent.extend(agents);
        self
    }

    /// The agent owes an output of this type. It ends its turn by giving one.
    pub fn output<T: DeserializeOwned + JsonSchema>(self) -> AgentBuilder<T> {
        self.with_output(schema_of::<T>())
    }

    /// The agent owes an output that fits this JSON schema, and gives it as JSON.
    pub fn output_schema(self, schema: Value) -> AgentBuilder<Value> {
        self.with_output(schema)
    }

    fn with_output<T>(self, schema: Value) -> AgentBuilder<T> {
        AgentBuilder {
            name: self.name,
            description: self.description,
            examples: self.examples,
            model: self.model,
            model_config: self.model_config,
            system_prompt: self.system_prompt,
            tools: self.tools,
            persistent: self.persistent,
            output: Some(schema),
            stop: self.stop,
            max_completion_retries: self.max_completion_retries,
            hooks: self.hooks,
            initial_state: self.initial_state,
            budgets: self.budgets,
            context: self.context,
            mistake: self.mistake,
            out: PhantomData,
        }
    }

    /// How many steps a turn may have. 50 when not set; `None` is no limit.
    pub fn max_steps(mut self, steps: impl Into<Option<u32>>) -> Self {
        self.stop = self.stop.max_steps(steps);
        self
    }

    /// How often a model that owes an output is asked again. 2 when not set.
    pub fn max_completion_retries(mut self, retries: u32) -> Self {
        self.max_completion_retries = retries;
        self
    }

    /// Ends the turn after a step for which this is true.
    pub fn stop_when(mut self, rule: impl Fn(&StepResult) -> bool + Send + Sync + 'static) -> Self {
        self.stop = self.stop.stop_when(rule);
        self
    }

    /// Adds hooks.
    pub fn hooks(mut self, hooks: impl AgentHooks + 'static) -> Self {
        self.hooks.push(Arc::new(hooks));
        self
    }

    /// The state of a new session: anything that becomes a JSON object.
    pub fn initial_state(mut self, state: impl Serialize) -> Self {
        let state = to_json(&state).and_then(|state| check_state(&state).map(|()| state));
        match state {
            Ok(state) => self.initial_state = state,
            Err(source) => {
                let agent = self.name.clone();
                self.note(DefinitionError::InitialState { agent, source });
            }
        }
        self
    }

    /// Limits what runs, sessions and trees of sessions may use. A run that reaches a limit is interrupted,
    /// and its session is paused until a resume raises the limit. A [`Budget`](crate::budget::Budget) alone
    /// limits each run.
    pub fn budget(mut self, budgets: impl Into<Budgets>) -> Self {
        self.budgets = budgets.into();
        self
    }

    /// Chooses what happens when a conversation comes near the context limit of its model. If it is not set,
    /// the run fails.
    pub fn context(mut self, policy: ContextPolicy) -> Self {
        self.context = policy;
        self
    }

    fn note(&mut self, mistake: DefinitionError) {
        self.mistake.get_or_insert(mistake);
    }

    /// Checks everything and makes the agent.
    ///
    /// # Errors
    /// The first [`DefinitionError`].
    pub fn build(mut self) -> Result<Agent<Out>, DefinitionError> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        let companions = companion_tools(&self.name, std::mem::take(&mut self.persistent))?;
        self.tools.extend(companions);
        check_name("an agent", &self.name)?;
        let Some(model) = self.model else {
            return Err(DefinitionError::NoModel { agent: self.name });
        };
        if self.stop.max_steps == Some(0) {
            return Err(DefinitionError::ZeroLimit {
                agent: self.name,
                limit: "max_steps",
            });
        }
        if let Some((_, unit)) = self.budgets.zero_limit() {
            return Err(DefinitionError::ZeroLimit {
                agent: self.name,
                limit: unit.as_str(),
            });
        }
        if let Some(limit) = self.context.zero_limit() {
            return Err(DefinitionError::ZeroLimit {
                agent: self.name,
                limit,
            });
        }
        let mut names = HashSet::new();
        if let Some(twice) = self.tools.iter().find(|tool| !names.insert(tool.name())) {
            return Err(DefinitionError::DuplicateTool {
                tool: twice.name().to_owned(),
                agent: self.name,
            });
        }
        let output_schema = self
            .output
            .map(|json| Schema::object(&format!("the output of agent {}", self.name), json))
            .transpose()?;
        let mut effective_tools: Vec<_> = self.tools.iter().map(Tool::schema).collect();
        effective_tools.extend(output_schema.as_ref().map(|schema| ToolSchema {
            strict: self.model_config.strict_output,
            ..ToolSchema::new(
                FINISH_TOOL,
                "Ends the task. Call it alone, with the final output.",
                schema.clone(),
            )
        }));
        let fixed_bytes = fixed_bytes(&self.system_prompt, &effective_tools);
        Ok(Agent {
            def: Arc::new(AgentDef {
                name: self.name,
                description: self.description,
                examples: self.examples,
                model,
                model_config: self.model_config,
                system_prompt: self.system_prompt,
                tools: self.tools,
                effective_tools,
                output_schema,
                stop: self.stop,
                max_completion_retries: self.max_completion_retries,
                hooks: self.hooks,
                initial_state: Arc::new(self.initial_state),
                budgets: self.budgets,
                context: self.context,
                fixed_bytes,
            }),
            out: PhantomData,
        })
    }
}

/// Returns the size of the parts of a prompt that are the same in every session.
fn fixed_bytes(system: &SystemPrompt, tools: &[ToolSchema]) -> usize {
    let system = match system {
        SystemPrompt::Static(text) => text.len(),
        SystemPrompt::Dynamic(_) => 0,
    };
    let tools = tools.iter().map(|tool| {
        let schema = value_size(tool.input.json());
        tool.name.len() + tool.description.len() + schema
    });
    tools.sum::<usize>() + system
}

impl<Out> fmt::Debug for AgentBuilder<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
