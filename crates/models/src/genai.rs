//! The long tail of providers, through the crate [`genai`](https://docs.rs/genai): Groq, Cohere, DeepSeek, xAI,
//! Mistral, Bedrock, Vertex AI, Ollama's own API and many more.
//!
//! A [`GenaiModel`] is a model like any other. The clients of this crate itself ([`ProviderModel`]) do more:
//! they give reasoning back at its place, render no message twice, and take every setting of their provider.
//! Use them for OpenAI, Anthropic and Gemini, and for every server that is compatible with one of them.
//!
//! What `genai` cannot do with an adapter is refused, and not left out of the request.
//!
//! [`ProviderModel`]: crate::ProviderModel

mod builder;
mod failure;
mod messages;
mod model;
mod quiet;
mod reply;
mod request;
mod support;

pub use builder::{GenaiError, GenaiModelBuilder};
pub use model::GenaiModel;

/// The name under which options are set and data is kept.
const PROVIDER: &str = "genai";
