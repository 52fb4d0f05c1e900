//! The request of a model call.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::SessionId;
use crate::schema::Schema;
use crate::step::PromptMessages;
use crate::time::Clock;

/// One attempt of one model call. It borrows everything: nothing of the history is copied.
///
/// ```
/// use helix_agents::ModelRequest;
///
/// fn describe(request: &ModelRequest<'_>) -> String {
///     format!("{} with {} tools, attempt {}", request.agent_type, request.tools.len(), request.attempt)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct ModelRequest<'a> {
    /// The system prompt and the history.
    pub prompt: PromptMessages<'a>,
    /// The tools that the model may call.
    pub tools: &'a [ToolSchema],
    /// Whether the model may, must or must not call a tool.
    pub tool_choice: ToolChoice,
    /// The schema of an output that the provider is to produce natively.
    pub native_output: Option<&'a Schema>,
    /// The settings of the model.
    pub config: &'a ModelConfig,
    /// The state of the session.
    pub state: &'a Value,
    /// The agent that makes the call.
    pub agent_type: &'a str,
    /// The session of the call.
    pub session_id: &'a SessionId,
    /// The number of the attempt, from 1; 1 again after a crash.
    pub attempt: u32,
    /// The clock, for a model that waits.
    pub clock: &'a dyn Clock,
}

/// A tool as a model sees it.
///
/// ```
/// use helix_agents::ToolSchema;
/// use helix_agents::prelude::*;
///
/// fn in_provider_words(tool: &ToolSchema) -> helix_agents::serde_json::Value {
///     json!({ "name": tool.name, "description": tool.description, "input_schema": tool.input.json() })
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolSchema {
    /// The name of the tool.
    pub name: String,
    /// The purpose of the tool.
    pub description: String,
    /// The schema of the arguments.
    pub input: Schema,
    /// Whether the provider enforces the schema while the model writes.
    pub strict: bool,
}

impl ToolSchema {
    /// Creates a tool whose schema is not enforced.
    #[must_use]
    #[doc(hidden)]
    pub fn new(name: impl Into<String>, description: impl Into<String>, input: Schema) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input,
            strict: false,
        }
    }
}

/// Whether a model may, must or must not call a tool.
///
/// ```
/// use helix_agents::ToolChoice;
///
/// fn in_provider_words(choice: &ToolChoice) -> String {
///     match choice {
///         ToolChoice::Tool(name) => format!("tool:{name}"),
///         ToolChoice::None => "none".to_owned(),
///         _ => "auto".to_owned(),
///     }
/// }
/// assert_eq!(in_provider_words(&ToolChoice::Auto), "auto");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must call a tool, whichever.
    Required,
    /// The model must call this tool.
    Tool(String),
    /// The model must not call any tool.
    None,
}

/// The settings of a model. The provider decides what is not set.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::ModelConfig;
///
/// let mut config = ModelConfig::default();
/// config.temperature = Some(0.2);
/// let agent = Agent::builder("assistant").model("anthropic/claude-sonnet-4-5").model_config(config).build()?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The sampling temperature, from 0 to 2.
    pub temperature: Option<f64>,
    /// The maximum length of a reply, in tokens.
    pub max_output_tokens: Option<u32>,
    /// The probability mass of nucleus sampling.
    pub top_p: Option<f64>,
    /// The number of candidates to sample from.
    pub top_k: Option<u32>,
    /// The penalty on tokens that occurred before.
    pub presence_penalty: Option<f64>,
    /// The penalty on tokens that occurred often.
    pub frequency_penalty: Option<f64>,
    /// Texts at which the model stops.
    pub stop_sequences: Vec<String>,
    /// The seed for repeatable sampling.
    pub seed: Option<u64>,
    /// How many times a retryable failure is retried; 3 if not set.
    pub max_retries: Option<u32>,
    /// The time limit of one attempt.
    pub timeout: Option<Duration>,
    /// Extra headers of the request.
    pub headers: std::collections::BTreeMap<String, String>,
    /// Settings that only one provider knows, by provider.
    pub provider_options: serde_json::Map<String, Value>,
    /// Whether the provider enforces the output schema while the model writes, if it can.
    pub strict_output: bool,
}

impl ModelConfig {
    /// Returns how many times a retryable failure is retried.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.max_retries.unwrap_or(3)
    }
}
