//! Language models for Helix Agents.
//!
//! With the feature `providers`, `ProviderModel` is a streaming client of OpenAI, Anthropic and Gemini, and
//! of every server that is compatible with one of them, and `Providers` finds models by names like
//! `anthropic/claude-sonnet-4-5`. A client does what its provider's own SDK does with a reply, keeps
//! reasoning byte for byte, and never retries: the loop does.
//!
//! With the feature `genai`, the module `genai` has a client of the long tail of providers.
//!
//! [`Fallback`], [`Limited`], [`Priced`] and [`Recorder`] are models around models.
//!
//! An agent is only as testable as its model. [`ScriptedModel`] replies from a file of rules, and
//! each reply is a function of the transcript, the state and the attempt number: the same in any
//! process and on any engine, before and after a crash. Examples, benchmarks and conformance tests
//! use it, without a key and without a network.
//!
//! ```
//! use helix_agents_models::{Script, ScriptedModel};
//!
//! let script = Script::parse(r#"{ "default": [ { "text": "Echo: {{last_user}}" } ] }"#)?;
//! let model = ScriptedModel::new(script);
//! # Ok::<(), helix_agents_models::ScriptError>(())
//! ```

mod error;
mod events;
#[cfg(feature = "genai")]
pub mod genai;
mod price;
#[cfg(feature = "providers")]
mod provider;
mod script;
mod scripted;
mod template;
mod turn;
mod wrap;

pub use error::{Result, ScriptError};
pub use price::Price;
#[cfg(feature = "providers")]
pub use provider::{Provider, ProviderError, ProviderModel, ProviderModelBuilder, Providers};
pub use script::Script;
pub use scripted::ScriptedModel;
pub use wrap::{Fallback, Limited, Limiter, Priced, Recorder, RecorderError};
