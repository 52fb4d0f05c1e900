//! What a model is asked.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::SessionId;
use crate::schema::Schema;
use crate::step::PromptMessages;
use crate::time::Clock;

/// One attempt of one model call. Borrows everything: nothing of the history is copied.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ModelRequest<'a> {
    /// The system prompt and the history.
    pub prompt: PromptMessages<'a>,
    /// The tools the model may call.
    pub tools: &'a [ToolSchema],
    /// Whether it may, must or must not call one.
    pub tool_choice: ToolChoice,
    /// The schema of the output that the provider shall produce by its own means.
    pub native_output: Option<&'a Schema>,
    /// Settings of the model.
    pub config: &'a ModelConfig,
    /// The session's state.
    pub state: &'a Value,
    /// Which agent asks.
    pub agent_type: &'a str,
    /// In which session.
    pub session_id: &'a SessionId,
    /// Which attempt of this call it is, from 1; 1 again after a crash.
    pub attempt: u32,
    /// For a model that waits.
    pub clock: &'a dyn Clock,
}

impl<'a> ModelRequest<'a> {
    /// The first attempt of a plain call, without tools.
    #[must_use]
    pub fn new(
        prompt: PromptMessages<'a>,
        config: &'a ModelConfig,
        state: &'a Value,
        agent_type: &'a str,
        session_id: &'a SessionId,
        clock: &'a dyn Clock,
    ) -> Self {
        Self {
            prompt,
            tools: &[],
            tool_choice: ToolChoice::Auto,
            native_output: None,
            config,
            state,
            agent_type,
            session_id,
            attempt: 1,
            clock,
        }
    }

    /// Offers tools.
    #[must_use]
    pub fn with_tools(mut self, tools: &'a [ToolSchema]) -> Self {
        self.tools = tools;
        self
    }

    /// Says whether the model may, must or must not call a tool.
    #[must_use]
    pub fn with_tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = choice;
        self
    }

    /// Says which attempt this is.
    #[must_use]
    pub fn with_attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }
}

/// A tool as a model is shown it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolSchema {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it takes.
    pub input: Schema,
    /// Whether the provider shall hold the model to the schema while it writes.
    pub strict: bool,
}

impl ToolSchema {
    /// A tool that is not strict.
    #[must_use]
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It must call this one.
    Tool(String),
    /// It must not call any.
    None,
}

/// Settings of a model. What is not set is left to the provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ModelConfig {
    /// Randomness, from 0 to 2.
    pub temperature: Option<f64>,
    /// The longest reply, in tokens.
    pub max_output_tokens: Option<u32>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Sampling from the best k only.
    pub top_k: Option<u32>,
    /// Penalty on words that occurred.
    pub presence_penalty: Option<f64>,
    /// Penalty on words that occurred often.
    pub frequency_penalty: Option<f64>,
    /// Texts to stop at.
    pub stop_sequences: Vec<String>,
    /// For repeatable sampling.
    pub seed: Option<u64>,
    /// How often a retryable failure is tried again; 3 when not set.
    pub max_retries: Option<u32>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// Extra request headers.
    pub headers: std::collections::BTreeMap<String, String>,
    /// Settings that only one provider knows, by provider.
    pub provider_options: serde_json::Map<String, Value>,
    /// Hold the model to the output schema while it writes, where the provider can.
    pub strict_output: bool,
}

impl ModelConfig {
    /// How often a retryable failure is tried again.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.max_retries.unwrap_or(3)
    }
}
