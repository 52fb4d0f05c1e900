//! Clients of the providers of language models.

mod anthropic;
mod arguments;
mod attempt;
mod body;
pub(crate) mod builder;
pub(crate) mod call_ids;
pub(crate) mod endpoint;
pub(crate) mod failure;
pub(crate) mod files;
mod gemini;
mod known;
mod lookup;
mod model;
mod openai_chat;
mod openai_content;
mod openai_responses;
pub(crate) mod secret;
mod settings;
mod sse;
pub(crate) mod wire;

#[cfg(test)]
mod tests;

use std::fmt;

pub use builder::ProviderModelBuilder;
pub use lookup::{ProviderError, Providers};
pub use model::ProviderModel;

/// A provider of language models, by the format that it speaks.
///
/// ```
/// use helix_agents_models::Provider;
///
/// assert_eq!(Provider::named("anthropic"), Some(Provider::Anthropic));
/// assert_eq!(Provider::Anthropic.key_variable(), "ANTHROPIC_API_KEY");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI's Chat Completions, and everything compatible: vLLM, Ollama, llama.cpp, OpenRouter, Azure.
    OpenAi,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// Anthropic's Messages.
    ///
    /// Its prompt cache is used if the options ask for it: `{"cache_control": {"type": "ephemeral"}}` in
    /// `provider_options["anthropic"]`. The provider then caches each prompt up to its end, which costs a
    /// quarter more for what is written and a tenth or less for what is read again.
    Anthropic,
    /// Google's Gemini.
    Gemini,
}

impl Provider {
    /// Every provider.
    pub const ALL: [Self; 4] = [
        Self::OpenAi,
        Self::OpenAiResponses,
        Self::Anthropic,
        Self::Gemini,
    ];

    /// Returns the provider of a name, as it stands before the slash in `provider/model`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the environment variable that its key is read from.
    #[must_use]
    pub fn key_variable(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "OPENAI_API_KEY",
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::Gemini => "GEMINI_API_KEY",
        }
    }

    /// Returns the environment variable that its base URL is read from, as its own SDK does.
    #[must_use]
    pub fn base_url_variable(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "OPENAI_BASE_URL",
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::Gemini => "GOOGLE_GEMINI_BASE_URL",
        }
    }

    /// Whether its key is in the environment.
    #[must_use]
    pub fn has_key(self) -> bool {
        std::env::var(self.key_variable()).is_ok_and(|key| !key.trim().is_empty())
    }

    /// Returns the base URL of the provider itself, as its own SDK means it.
    #[must_use]
    pub fn base_url(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
            Self::Gemini => "https://generativelanguage.googleapis.com",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
