//! The built-in demo agents: they need no key, no network and no configuration.
//!
//! `support` looks up an order and refunds it, with an approval. `form` asks the user to fill in a
//! form. `researcher` takes notes, has `checker` check the facts and `writer` write, and gives an output of a fixed
//! shape. Their models are scripted; `helix dev` gives them a real one where it finds a key. `scenarios` plays what a
//! message names, always with its own model.

mod form;
mod researcher;
mod scenarios;
mod support;

use std::sync::Arc;

use helix_agents_core::agent::AnyAgent;
use helix_agents_core::model::Model;
use helix_agents_models::{Provider, ProviderError, ProviderModel, Script, ScriptedModel};

/// Returns the demo agents.
///
/// # Errors
/// Never, unless this program is broken.
pub fn agents() -> anyhow::Result<Vec<AnyAgent>> {
    Ok(vec![
        support::agent()?,
        form::agent()?,
        researcher::agent(None)?,
        scenarios::agent()?,
    ])
}

/// Returns the demo agents with this model, which the agents that they call have, too. `scenarios` keeps its own.
///
/// # Errors
/// Never, unless this program is broken.
pub(crate) fn agents_of(model: &Arc<dyn Model>) -> anyhow::Result<Vec<AnyAgent>> {
    let given = || Arc::clone(model);
    Ok(vec![
        support::agent()?.with_model(given()),
        form::agent()?.with_model(given()),
        researcher::agent(Some(model))?,
        scenarios::agent()?,
    ])
}

/// The models that the demo agents use, in this order, where the key is in the environment.
const MODELS: [(Provider, &str); 3] = [
    (Provider::Anthropic, "claude-sonnet-4-5"),
    (Provider::OpenAiResponses, "gpt-5-mini"),
    (Provider::Gemini, "gemini-2.5-flash"),
];

/// Returns the first model of a provider whose key is in the environment.
///
/// # Errors
/// When the environment names an address of the provider that is not one.
pub(crate) fn provider_model() -> Result<Option<ProviderModel>, ProviderError> {
    let found = MODELS.iter().find(|(provider, _)| provider.has_key());
    let Some((provider, model)) = found else {
        return Ok(None);
    };
    ProviderModel::builder(*provider, *model).build().map(Some)
}

fn scripted(script: &str) -> anyhow::Result<Arc<ScriptedModel>> {
    Ok(Arc::new(ScriptedModel::new(Script::parse(script)?)))
}
