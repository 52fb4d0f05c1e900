//! The events of a streamed reply.

use std::borrow::Cow;

use helix_agents_core::model::TokenUsage;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Any event; `kind` says which of the other fields it has.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) index: u64,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(default)]
    pub(super) content_block: Option<Map<String, Value>>,
    #[serde(default)]
    pub(super) message: Option<Start>,
    #[serde(default)]
    pub(super) usage: Option<Usage>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) thinking: Option<String>,
    #[serde(default)]
    pub(super) partial_json: Option<String>,
    #[serde(default)]
    pub(super) signature: Option<String>,
    #[serde(default)]
    pub(super) citation: Option<Value>,
    #[serde(default)]
    pub(super) stop_reason: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Start {
    #[serde(default)]
    pub(super) usage: Option<Usage>,
}

/// The tokens of a reply so far. A count that an event leaves out has not changed.
#[derive(Deserialize, Debug, Default, Clone, Copy)]
pub(super) struct Usage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize, Debug, Clone, Copy)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Option<u64>,
}

impl Usage {
    /// Takes newer counts, each of which includes the one before it.
    pub(super) fn update(&mut self, newer: &Self) {
        *self = Self {
            input_tokens: newer.input_tokens.or(self.input_tokens),
            output_tokens: newer.output_tokens.or(self.output_tokens),
            cache_read_input_tokens: newer
                .cache_read_input_tokens
                .or(self.cache_read_input_tokens),
            cache_creation_input_tokens: newer
                .cache_creation_input_tokens
                .or(self.cache_creation_input_tokens),
            output_tokens_details: newer.output_tokens_details.or(self.output_tokens_details),
        };
    }

    /// Returns the tokens as all providers count them. Here the input does not include what was read from
    /// the cache or written to it.
    pub(super) fn tokens(&self) -> TokenUsage {
        let cached = self.cache_read_input_tokens;
        let cache_write = self.cache_creation_input_tokens;
        let input = [self.input_tokens, cached, cache_write];
        let input = input.into_iter().flatten().fold(0, u64::saturating_add);
        let mut tokens = TokenUsage::new(input, self.output_tokens.unwrap_or_default());
        tokens.cached = cached;
        tokens.cache_write = cache_write;
        tokens.reasoning = self
            .output_tokens_details
            .and_then(|details| details.thinking_tokens);
        tokens
    }
}
