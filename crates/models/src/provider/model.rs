//! A model of a provider.

use std::fmt;

use helix_agents_core::model::{EventStream, Model, ModelLimits, ModelRequest, TokenUsage};

use super::endpoint::Endpoint;
use super::known::Known;
use super::wire::Wire;
use super::{Provider, ProviderModelBuilder, attempt};

/// A model of a provider, reached over HTTP.
///
/// It streams, sends nothing twice (the loop retries), and closes its connection when the stream is dropped.
/// Neither its key nor a prompt is in an error, a log or a debug print.
///
/// ```
/// use helix_agents_core::Agent;
/// use helix_agents_models::{Provider, ProviderModel};
///
/// let model = ProviderModel::builder(Provider::OpenAi, "qwen3")
///     .base_url("http://127.0.0.1:11434/v1")
///     .build()?;
/// let agent = Agent::builder("assistant").model(model).build()?;
/// # Ok::<(), helix_agents_core::Error>(())
/// ```
pub struct ProviderModel {
    pub(super) name: String,
    pub(super) endpoint: Endpoint,
    pub(super) wire: Box<dyn Wire>,
    pub(super) known: Known,
}

impl ProviderModel {
    /// Begins a model with the name that it has at its provider.
    pub fn builder(provider: Provider, model: impl Into<String>) -> ProviderModelBuilder {
        ProviderModelBuilder::new(provider, model.into())
    }

    /// Returns its provider.
    #[must_use]
    pub fn provider(&self) -> Provider {
        self.endpoint.provider
    }
}

impl Model for ProviderModel {
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        attempt::stream(&self.endpoint, self.wire.as_ref(), request)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn supports_native_output(&self) -> bool {
        self.known.native_output
    }

    fn limits(&self) -> ModelLimits {
        self.known.limits
    }

    fn cost(&self, tokens: &TokenUsage) -> Option<u64> {
        self.known.price.map(|price| price.of(tokens))
    }
}

impl fmt::Debug for ProviderModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderModel")
            .field("name", &self.name)
            .field("base_url", &self.endpoint.base_url)
            .finish_non_exhaustive()
    }
}
