//! One event of a streamed reply of Chat Completions.

use std::fmt;

use helix_agents_core::model::TokenUsage;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Deserialize)]
pub(super) struct Chunk {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) choices: Choices,
    #[serde(default)]
    pub(super) usage: Option<Usage>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

/// The choices of the reply that is heard. A request asks for one reply; a server that sends several is heard
/// once. An event has one choice, which is kept without a list.
#[derive(Default)]
pub(super) struct Choices {
    first: Option<Choice>,
    more: Vec<Choice>,
}

impl IntoIterator for Choices {
    type Item = Choice;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Choice>, std::vec::IntoIter<Choice>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more)
    }
}

impl<'de> Deserialize<'de> for Choices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ChoicesVisitor)
    }
}

struct ChoicesVisitor;

impl<'de> Visitor<'de> for ChoicesVisitor {
    type Value = Choices;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of choices")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Choices, A::Error> {
        let mut choices = Choices::default();
        while let Some(choice) = list.next_element::<Choice>()? {
            if choice.index != 0 {
                continue;
            }
            match choices.first {
                None => choices.first = Some(choice),
                Some(_) => choices.more.push(choice),
            }
        }
        Ok(choices)
    }
}

#[derive(Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    index: u32,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) delta: Delta,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
pub(super) struct Delta {
    #[serde(default)]
    pub(super) content: Option<Content>,
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

/// The content of a delta: a text, or parts in the form of Mistral's models that think.
pub(super) enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// A part of the content: a text, thinking, or something else, which has neither field.
#[derive(Deserialize)]
pub(super) struct ContentPart {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thinking: Option<Thinking>,
}

/// Thinking is a list of parts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Thinking {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// A piece of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Thinking(String),
}

impl Content {
    /// Returns the pieces in their order, without empty ones.
    pub(super) fn pieces(self) -> impl Iterator<Item = Piece> {
        let (text, parts) = match self {
            Self::Text(text) => (Some(Piece::Text(text)), Vec::new()),
            Self::Parts(parts) => (None, parts),
        };
        let parts = parts.into_iter().filter_map(ContentPart::piece);
        text.into_iter().chain(parts).filter(|piece| match piece {
            Piece::Text(text) | Piece::Thinking(text) => !text.is_empty(),
        })
    }
}

impl ContentPart {
    fn piece(self) -> Option<Piece> {
        Some(match self.thinking {
            Some(Thinking::Text(text)) => Piece::Thinking(text),
            Some(Thinking::Parts(parts)) => {
                Piece::Thinking(parts.into_iter().filter_map(|part| part.text).collect())
            }
            None => Piece::Text(self.text?),
        })
    }
}

/// Written by hand, because serde copies a value whose form it has to guess, and nearly every delta is a text.
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of parts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Content, E> {
                Ok(Content::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Content, A::Error> {
                let parts = Vec::deserialize(SeqAccessDeserializer::new(parts))?;
                Ok(Content::Parts(parts))
            }
        }

        deserializer.deserialize_any(Either)
    }
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
