//! One event of a streamed reply of Chat Completions.

use helix_agents_core::model::TokenUsage;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Deserialize)]
pub(super) struct Chunk {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) choices: Vec<Choice>,
    #[serde(default)]
    pub(super) usage: Option<Usage>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    pub(super) index: u32,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) delta: Delta,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
pub(super) struct Delta {
    #[serde(default)]
    pub(super) content: Option<String>,
    #[serde(default)]
    pub(super) refusal: Option<String>,
    /// DeepSeek, vLLM and llama.cpp.
    #[serde(default)]
    pub(super) reasoning_content: Option<String>,
    /// OpenRouter and Ollama.
    #[serde(default)]
    pub(super) reasoning: Option<String>,
    #[serde(default)]
    pub(super) reasoning_details: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) tool_calls: Vec<CallDelta>,
}

#[derive(Deserialize)]
pub(super) struct CallDelta {
    #[serde(default)]
    pub(super) index: Option<u32>,
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) function: FunctionDelta,
}

#[derive(Deserialize, Default)]
pub(super) struct FunctionDelta {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: Option<Arguments>,
}

/// Arguments are a text; some servers send the value itself.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Arguments {
    Text(String),
    Value(Value),
}

#[derive(Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    pub(super) prompt_tokens: u64,
    #[serde(default)]
    pub(super) completion_tokens: u64,
    #[serde(default)]
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    pub(super) completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize)]
pub(super) struct PromptDetails {
    #[serde(default)]
    pub(super) cached_tokens: Option<u64>,
    #[serde(default)]
    pub(super) cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct CompletionDetails {
    #[serde(default)]
    pub(super) reasoning_tokens: Option<u64>,
}

/// Reads `null` as a value that is missing.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> Self {
        let mut tokens = Self::new(usage.prompt_tokens, usage.completion_tokens);
        if let Some(details) = usage.prompt_tokens_details {
            tokens.cached = details.cached_tokens;
            tokens.cache_write = details.cache_write_tokens;
        }
        let details = usage.completion_tokens_details;
        tokens.reasoning = details.and_then(|all| all.reasoning_tokens);
        tokens
    }
}
