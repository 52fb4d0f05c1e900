//! The built-in demo agents: they need no key, no network and no configuration.
//!
//! `support` looks up an order and refunds it, with an approval. `form` asks the user to fill in a
//! form. `researcher` takes notes and gives an output of a fixed shape. Their models are scripted.

mod form;
mod researcher;
mod support;

use std::sync::Arc;

use helix_agents_core::agent::AnyAgent;
use helix_agents_models::{Script, ScriptedModel};

/// Returns the demo agents.
///
/// # Errors
/// Never, unless this program is broken.
pub fn agents() -> anyhow::Result<Vec<AnyAgent>> {
    Ok(vec![
        support::agent()?,
        form::agent()?,
        researcher::agent()?,
    ])
}

fn scripted(script: &str) -> anyhow::Result<Arc<ScriptedModel>> {
    Ok(Arc::new(ScriptedModel::new(Script::parse(script)?)))
}
