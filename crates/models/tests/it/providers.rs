//! Tests of the clients of providers, against a server on loopback that plays cassettes.

mod binding_anthropic;
mod cassette;
mod cassettes;
mod crashes;
mod errors;
mod gemini_rest;
#[cfg(feature = "genai")]
mod genai;
mod http_server;
mod openai_conversations;
mod requests_anthropic;
mod requests_gemini;
mod requests_openai;
mod requests_openai_responses;
mod scene;
mod sdks;
mod thinking_anthropic;
