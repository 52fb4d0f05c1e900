//! Language models for Helix Agents.
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
mod script;
mod scripted;
mod template;
mod turn;

pub use error::{Result, ScriptError};
pub use script::Script;
pub use scripted::ScriptedModel;
