//! Builds tools and refuses those that cannot work.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::companion::CompanionTool;
use super::exclusive::{DEADLINE_REMEDY, exclusive_options};
use super::sub_agent::SubAgent;
use super::{
    ApprovalMode, ApprovalRule, Execute, ExecutedBy, OnUnknown, Reconcile, Tool, ToolCx, ToolError,
    ToolOptions, ToolResult, ToolSpec,
};
use crate::agent::{DefinitionError, check_sub_agent_name, check_tool_name};
use crate::bounds::Exceeded;
use crate::maybe_send::MaybeSend;
use crate::schema::{Schema, schema_of};
use crate::state::{StateError, to_json};

/// A tool under construction.
///
/// ```
/// use helix_agents::prelude::*;
/// use std::time::Duration;
///
/// let refund = Tool::raw("refund", "Refunds an order.", json!({ "type": "object" }), async |_arguments, _cx| Ok(json!("done")))
///     .approval()
///     .deadline(Duration::from_secs(3600))
///     .build()?;
/// assert_eq!(refund.name(), "refund");
/// # Ok::<(), Error>(())
/// ```
#[must_use = "a tool is made by `build` or by giving it to an agent"]
pub struct ToolBuilder {
    name: String,
    description: String,
    input: Value,
    output: Option<Value>,
    execute: Option<Arc<dyn Execute>>,
    sub_agent: Option<Box<SubAgent>>,
    companion: Option<CompanionTool>,
    options: ToolOptions,
    always_asks: bool,
    approval_rule: Option<Arc<dyn ApprovalRule>>,
    reconcile: Option<Arc<dyn Reconcile>>,
}

impl std::fmt::Debug for ToolBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolBuilder")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Tool {
    /// A tool whose input and output are types of yours. The input's schema comes from its type.
    ///
    /// ```
    /// # use helix_agents_core::tool::{Tool, ToolResult};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Sum {
    ///     /// The numbers to add.
    ///     numbers: Vec<i64>,
    /// }
    /// let add = Tool::typed("add", "Adds numbers.", async |sum: Sum, _cx| {
    ///     Ok(sum.numbers.iter().sum::<i64>())
    /// })
    /// .read_only()
    /// .build()?;
    /// assert_eq!(add.name(), "add");
    /// # Ok::<(), helix_agents_core::DefinitionError>(())
    /// ```
    pub fn typed<In, Out, F, Fut>(
        name: impl Into<String>,
        description: impl Into<String>,
        run: F,
    ) -> ToolBuilder
    where
        In: DeserializeOwned + JsonSchema + Send + 'static,
        Out: Serialize + 'static,
        F: Fn(In, ToolCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolResult<Out>> + MaybeSend + 'static,
    {
        let run = Arc::new(run);
        let tool_name = name.into();
        let name_for_errors = tool_name.clone();
        Self::raw(
            tool_name,
            description,
            schema_of::<In>(),
            move |arguments: Value, cx: ToolCx| {
                let run = Arc::clone(&run);
                let name = name_for_errors.clone();
                async move {
                    let input = parse_input(&name, arguments)?;
                    give_output(&name, &run(input, cx).await?)
                }
            },
        )
    }

    /// A tool with a schema given as JSON.
    pub fn raw(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
        run: impl Execute + 'static,
    ) -> ToolBuilder {
        let mut builder = ToolBuilder::new(name, description, input_schema);
        builder.execute = Some(Arc::new(run));
        builder
    }

    /// A tool that a browser or another program runs: the run waits for its answer.
    pub fn client<In: JsonSchema>(
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> ToolBuilder {
        Self::client_raw(name, description, schema_of::<In>())
    }

    /// [`Tool::client`] with a schema given as JSON.
    pub fn client_raw(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
    ) -> ToolBuilder {
        ToolBuilder::new(name, description, input_schema)
    }
}

/// Turns checked arguments into a tool's input type.
///
/// # Errors
/// Told to the model: a type can be narrower than its schema.
#[doc(hidden)]
pub fn parse_input<In: DeserializeOwned>(tool: &str, arguments: Value) -> ToolResult<In> {
    In::deserialize(arguments).map_err(|error| ToolError::invalid_input(tool, &[error.to_string()]))
}

/// Turns a tool's output into JSON.
///
/// # Errors
/// Told to the model when the output is not JSON, or nested too deep.
#[doc(hidden)]
pub fn give_output<Out: Serialize>(tool: &str, output: &Out) -> ToolResult<Value> {
    to_json(output).map_err(|error| {
        let text = match error {
            StateError::TooDeep { .. } => Exceeded::TooDeep { what: "a result" }.of_result(),
            _ => format!("the result of {tool} cannot be written as JSON"),
        };
        ToolError::tell_model(text).caused_by(error)
    })
}

impl ToolBuilder {
    pub(super) fn of_sub_agent(
        name: String,
        description: String,
        input: Value,
        sub_agent: SubAgent,
    ) -> Self {
        Self {
            sub_agent: Some(Box::new(sub_agent)),
            ..Self::new(name, description, input)
        }
    }

    pub(super) fn of_companion(
        name: String,
        description: String,
        input: Value,
        companion: CompanionTool,
    ) -> Self {
        Self {
            companion: Some(companion),
            ..Self::new(name, description, input)
        }
    }

    fn new(name: impl Into<String>, description: impl Into<String>, input: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input,
            output: None,
            execute: None,
            sub_agent: None,
            companion: None,
            options: ToolOptions::default(),
            always_asks: false,
            approval_rule: None,
            reconcile: None,
        }
    }

    /// Adds options that are plain data, as their methods do one by one.
    pub fn options(mut self, options: &ToolOptions) -> Self {
        self.always_asks |= options.approval == ApprovalMode::Always;
        self.options.add(options);
        self
    }

    /// A person must agree to every call.
    pub fn approval(mut self) -> Self {
        self.always_asks = true;
        self.options.approval = ApprovalMode::Always;
        self
    }

    /// A rule decides for each call whether a person must agree. A rule that fails means: ask.
    pub fn approval_if(mut self, rule: impl ApprovalRule + 'static) -> Self {
        self.options.approval = ApprovalMode::When;
        self.approval_rule = Some(Arc::new(rule));
        self
    }

    /// The tool's result ends the turn and is its output.
    pub fn finish_with(mut self) -> Self {
        self.options.finish_with = true;
        self
    }

    /// Running it twice under one idempotency key is the same as once, so it may be retried.
    pub fn idempotent(mut self) -> Self {
        self.options.idempotent = true;
        self
    }

    /// It changes nothing, so it may be run again.
    pub fn read_only(mut self) -> Self {
        self.options.read_only = true;
        self
    }

    /// How long a person or a client may take to answer.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = Some(deadline);
        self
    }

    /// How long the call itself may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Decides how a call is settled when nobody knows whether it took effect. The default is
    /// [`OnUnknown::TellModel`].
    pub fn on_unknown(mut self, choice: OnUnknown) -> Self {
        self.options.on_unknown = Some(choice);
        self
    }

    /// How to find out whether a call took effect.
    pub fn reconcile(mut self, reconcile: impl Reconcile + 'static) -> Self {
        self.reconcile = Some(Arc::new(reconcile));
        self
    }

    /// Asks the provider to hold the model to the schema while it writes.
    pub fn strict(mut self) -> Self {
        self.options.strict = true;
        self
    }

    /// Replaces the description, which the model reads.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// Says what the tool gives, as a JSON schema.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output = Some(schema);
        self
    }

    /// Checks everything and makes the tool.
    ///
    /// # Errors
    /// [`DefinitionError`] for a bad name, a schema that is not one of an object, or options that
    /// exclude each other.
    pub fn build(self) -> Result<Tool, DefinitionError> {
        match (&self.sub_agent, &self.companion) {
            (Some(_), _) => check_sub_agent_name(&self.name)?,
            // The names of companion tools are ours.
            (None, Some(_)) => {}
            (None, None) => check_tool_name(&self.name)?,
        }
        self.check_options()?;
        let what = |part: &str| format!("the {part} of tool {}", self.name);
        let input = Schema::object(&what("input"), self.input.clone())?;
        let output = self
            .output
            .clone()
            .map(|json| Schema::object(&what("output"), json))
            .transpose()?;
        Ok(Tool {
            spec: Arc::new(ToolSpec {
                input,
                output,
                executed_by: if self.sub_agent.is_some() {
                    ExecutedBy::SubAgent
                } else if self.is_client() {
                    ExecutedBy::Client
                } else {
                    ExecutedBy::Server
                },
                options: self.options,
                has_reconcile: self.reconcile.is_some(),
                name: self.name,
                description: self.description,
            }),
            execute: self.execute,
            sub_agent: self.sub_agent.map(Arc::from),
            companion: self.companion.map(Arc::new),
            approval_rule: self.approval_rule,
            reconcile: self.reconcile,
        })
    }

    fn check_options(&self) -> Result<(), DefinitionError> {
        let tool = || self.name.clone();
        if let Some(pair) = exclusive_options(|option| self.has(option)) {
            return Err(DefinitionError::ExclusiveOptions {
                tool: tool(),
                first: pair.first,
                second: pair.second,
                remedy: pair.remedy,
            });
        }
        if self.sub_agent.is_some() {
            self.check_sub_agent()?;
        }
        let asks = self.is_client()
            || self.options.approval != ApprovalMode::Never
            || self.options.on_unknown == Some(OnUnknown::Pause);
        if self.options.deadline.is_some() && !asks {
            return Err(DefinitionError::UselessOption {
                tool: tool(),
                option: "deadline",
                what: "a call nobody is asked about",
                remedy: DEADLINE_REMEDY,
            });
        }
        Ok(())
    }

    /// Whether an option that excludes others is given.
    fn is_client(&self) -> bool {
        self.execute.is_none() && self.sub_agent.is_none() && self.companion.is_none()
    }

    /// An agent is not run like a function: most options of a call mean nothing.
    fn check_sub_agent(&self) -> Result<(), DefinitionError> {
        let never_unknown = "its session says how far it is, whatever crashes";
        let options = [
            (
                "timeout",
                "limit the agent itself, with `max_steps` or a budget",
            ),
            ("finish_with", "let a tool of this agent end the turn"),
            ("idempotent", never_unknown),
            ("read_only", never_unknown),
            ("on_unknown", never_unknown),
            ("reconcile", never_unknown),
            ("output_schema", "give the agent an output of a type"),
        ];
        let given = options.into_iter().find(|(option, _)| self.has(option));
        match given {
            None => Ok(()),
            Some((option, remedy)) => Err(DefinitionError::UselessOption {
                tool: self.name.clone(),
                option,
                what: "a sub-agent",
                remedy,
            }),
        }
    }

    fn has(&self, option: &str) -> bool {
        match option {
            "client" => self.is_client(),
            "read_only" => self.options.read_only,
            "output_schema" => self.output.is_some(),
            "approval" => self.always_asks,
            "approval_if" => self.approval_rule.is_some(),
            "finish_with" => self.options.finish_with,
            "timeout" => self.options.timeout.is_some(),
            "reconcile" => self.reconcile.is_some(),
            "idempotent" => self.options.idempotent,
            "on_unknown" => self.options.on_unknown.is_some(),
            _ => false,
        }
    }
}
