//! Tools: what an agent can do.
//!
//! A tool is a name, a description, a schema of its input, and something that runs. Most are
//! written as documented async methods under `#[toolset]`; [`Tool::typed`] and [`Tool::raw`] make
//! the same thing without a macro. Everything that cannot work is refused when a tool is built.

mod build;
mod companion;
mod context;
mod error;
mod exclusive;
mod run;
mod spec;
mod sub_agent;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;

use serde_json::Value;

use crate::agent::AnyAgent;
use crate::model::ToolSchema;

pub use build::ToolBuilder;
#[doc(hidden)]
pub use build::{give_output, parse_input};
pub use companion::PersistentAgent;
pub(crate) use companion::{
    Addressed, COMPANION_TOOL_PREFIX, CompanionOp, CompanionTool, SpawnAgent, companion_tools,
};
pub use context::{MetadataError, ToolCx, ToolCxBuilder};
// What a call tells the loop that runs it.
#[doc(hidden)]
pub use context::{ToolEvent, ToolEvents};
pub use error::{ToolError, ToolResult};
#[doc(hidden)]
pub use exclusive::{ExclusiveOptions, exclusive_options};
pub use run::{ApprovalRule, Execute, Reconcile, Reconciled};
pub use spec::{ApprovalMode, ExecutedBy, OnUnknown, ToolOptions, ToolSpec};
pub(crate) use sub_agent::SubAgent;

/// A tool that is ready to be given to an agent. Clones share everything.
///
/// ```
/// use helix_agents::prelude::*;
///
/// let now = Tool::raw("now", "Tells the time.", json!({ "type": "object" }), async |_arguments, _cx| Ok(json!("noon"))).build()?;
/// let agent = Agent::builder("clock").model("anthropic/claude-sonnet-4-5").tools(now).build()?;
/// assert_eq!(agent.tools().len(), 1);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct Tool {
    spec: Arc<ToolSpec>,
    execute: Option<Arc<dyn Execute>>,
    sub_agent: Option<Arc<SubAgent>>,
    companion: Option<Arc<CompanionTool>>,
    approval_rule: Option<Arc<dyn ApprovalRule>>,
    reconcile: Option<Arc<dyn Reconcile>>,
}

impl Tool {
    /// The description of the tool as data, without its code.
    #[must_use]
    pub fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The name, description and argument schema that the model is shown.
    #[must_use]
    pub fn schema(&self) -> ToolSchema {
        let spec = &self.spec;
        ToolSchema {
            strict: spec.options.strict,
            ..ToolSchema::new(&spec.name, &spec.description, spec.input.clone())
        }
    }

    /// Checks a call's arguments. Empty: they fit. Else what the model is told.
    #[must_use]
    #[doc(hidden)]
    pub fn input_errors(&self, arguments: &Value) -> Vec<String> {
        self.spec.input.errors(arguments)
    }

    /// The code that runs a call; `None` for a tool that the client runs.
    #[must_use]
    pub fn executor(&self) -> Option<&Arc<dyn Execute>> {
        self.execute.as_ref()
    }

    /// The agent that answers the calls, of a tool that is one.
    pub(crate) fn child_agent(&self) -> Option<&Arc<SubAgent>> {
        self.sub_agent.as_ref()
    }

    /// What a companion tool does, and with which agents.
    pub(crate) fn companion(&self) -> Option<&Arc<CompanionTool>> {
        self.companion.as_ref()
    }

    /// The agents that the tool starts.
    pub(crate) fn agents(&self) -> impl Iterator<Item = &AnyAgent> {
        let sub_agent = self.sub_agent.iter().map(|one| &one.agent);
        let companion = self.companion.iter().flat_map(|one| one.agents.iter());
        sub_agent.chain(companion.map(|one| &one.agent))
    }

    /// Whether a call may be run again when nobody knows whether it took effect. To start a sub-agent is part of a
    /// commit, so it takes effect once, and so does what a companion tool does.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.sub_agent.is_some() || self.companion.is_some() || self.spec.options.is_repeatable()
    }

    /// The code that finds out whether a call of unknown outcome took effect, if there is any.
    #[must_use]
    pub fn reconciler(&self) -> Option<&Arc<dyn Reconcile>> {
        self.reconcile.as_ref()
    }

    /// Whether a call with these arguments needs a person's approval.
    ///
    /// A rule that fails, or panics, means: ask.
    pub async fn needs_approval(&self, arguments: &Value, cx: &ToolCx) -> bool {
        match (self.spec.options.approval, &self.approval_rule) {
            (ApprovalMode::Never, _) => false,
            (ApprovalMode::Always, _) | (ApprovalMode::When, None) => true,
            (ApprovalMode::When, Some(rule)) => match ask(rule.needs_approval(arguments, cx)).await
            {
                Ok(needed) => needed,
                Err(error) => {
                    tracing::warn!(
                        event = "approval.rule_failed",
                        tool = self.name(),
                        %error,
                        "the rule that decides about approval failed, so approval is asked for"
                    );
                    true
                }
            },
        }
    }

    /// Validates the arguments and runs the tool.
    ///
    /// # Errors
    /// [`ToolError`]: arguments that do not fit are told to the model, and a tool that the client
    /// runs cannot be run here.
    pub async fn call(&self, arguments: Value, cx: ToolCx) -> ToolResult<Value> {
        let errors = self.input_errors(&arguments);
        if !errors.is_empty() {
            return Err(ToolError::invalid_input(self.name(), &errors));
        }
        match &self.execute {
            Some(execute) => execute.execute(arguments, cx).await,
            None if self.sub_agent.is_some() || self.companion.is_some() => {
                Err(ToolError::tell_model(format!(
                    "{} works with an agent; only a run can do that",
                    self.name()
                )))
            }
            None => Err(ToolError::tell_model(format!(
                "{} is run by the client; submit its result instead of running it here",
                self.name()
            ))),
        }
    }
}

/// Awaits the verdict of an approval rule, with a panic turned into an error.
async fn ask(answer: impl Future<Output = ToolResult<bool>>) -> ToolResult<bool> {
    let mut answer = std::pin::pin!(answer);
    std::future::poll_fn(|cx| {
        let poll = std::panic::catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx)));
        poll.unwrap_or_else(|_| Poll::Ready(Err(ToolError::tell_model("the rule panicked"))))
    })
    .await
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

/// Something that brings tools along: a `#[toolset]`, a tool, or a list of them.
///
/// ```
/// use helix_agents::prelude::*;
///
/// struct Clock;
///
/// #[toolset]
/// impl Clock {
///     /// Tells the time.
///     #[tool]
///     async fn now(&self) -> ToolResult<String> {
///         Ok("noon".to_owned())
///     }
/// }
///
/// let agent = Agent::builder("clock").model("anthropic/claude-sonnet-4-5").tools(Clock).build()?;
/// # Ok::<(), Error>(())
/// ```
pub trait IntoTools {
    /// The tools.
    ///
    /// # Errors
    /// [`crate::DefinitionError`] when one of them cannot work.
    fn into_tools(self) -> Result<Vec<Tool>, crate::DefinitionError>;
}

impl IntoTools for Tool {
    fn into_tools(self) -> Result<Vec<Tool>, crate::DefinitionError> {
        Ok(vec![self])
    }
}

impl IntoTools for ToolBuilder {
    fn into_tools(self) -> Result<Vec<Tool>, crate::DefinitionError> {
        self.build().map(|tool| vec![tool])
    }
}

impl<T: IntoTools> IntoTools for Vec<T> {
    fn into_tools(self) -> Result<Vec<Tool>, crate::DefinitionError> {
        let mut all = Vec::new();
        for one in self {
            all.append(&mut one.into_tools()?);
        }
        Ok(all)
    }
}

impl<T: IntoTools, const N: usize> IntoTools for [T; N] {
    fn into_tools(self) -> Result<Vec<Tool>, crate::DefinitionError> {
        Vec::from(self).into_tools()
    }
}
