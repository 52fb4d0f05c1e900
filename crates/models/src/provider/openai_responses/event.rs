//! One event of a streamed reply of Responses.

use helix_agents_core::model::TokenUsage;
use serde::Deserialize;
use serde_json::Value;

/// An event whose kind is not known yet.
#[derive(Deserialize)]
pub(super) struct Head {
    #[serde(default, rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

/// The next piece of a text, of reasoning or of arguments.
#[derive(Deserialize)]
pub(super) struct Piece {
    #[serde(default)]
    pub(super) output_index: u64,
    pub(super) delta: String,
}

/// The beginning of a part of a summary.
#[derive(Deserialize)]
pub(super) struct SummaryPart {
    #[serde(default)]
    pub(super) summary_index: u64,
}

/// The beginning or the end of an item.
#[derive(Deserialize)]
pub(super) struct ItemEvent<T> {
    #[serde(default)]
    pub(super) output_index: u64,
    pub(super) item: T,
}

/// An item that begins.
#[derive(Deserialize)]
pub(super) struct BegunItem {
    #[serde(default, rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) call_id: Option<String>,
    #[serde(default)]
    pub(super) name: Option<String>,
}

/// The end of a response.
#[derive(Deserialize)]
pub(super) struct ResponseEvent {
    pub(super) response: Response,
}

#[derive(Deserialize)]
pub(super) struct Response {
    #[serde(default)]
    pub(super) usage: Option<Usage>,
    #[serde(default)]
    pub(super) incomplete_details: Option<IncompleteDetails>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct IncompleteDetails {
    #[serde(default)]
    pub(super) reason: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> Self {
        let mut tokens = Self::new(usage.input_tokens, usage.output_tokens);
        if let Some(details) = usage.input_tokens_details {
            tokens.cached = details.cached_tokens;
            tokens.cache_write = details.cache_write_tokens;
        }
        let details = usage.output_tokens_details;
        tokens.reasoning = details.and_then(|all| all.reasoning_tokens);
        tokens
    }
}
