//! Builds a model of a provider.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::model::{Model, ModelLimits};

use super::anthropic::Anthropic;
use super::endpoint::{Client, Endpoint, header};
use super::gemini::Gemini;
use super::known::Known;
use super::lookup::Unusable;
use super::openai_chat::OpenAiChat;
use super::openai_responses::OpenAiResponses;
use super::secret::Secret;
use super::wire::Wire;
use super::{Provider, ProviderError, ProviderModel};
use crate::price::Price;

/// How long a connection may take to be made.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a provider may send nothing. Models that think may be silent for minutes.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// A model of a provider that is being built.
///
/// ```
/// use std::time::Duration;
///
/// use helix_agents_core::model::ModelLimits;
/// use helix_agents_models::{Price, Provider, ProviderModel};
///
/// let model = ProviderModel::builder(Provider::Anthropic, "claude-next")
///     .api_key("a key from a vault")
///     .limits(ModelLimits::new(500_000, 64_000))
///     .price(Price::new(4_000_000, 20_000_000))
///     .idle_timeout(Duration::from_secs(60))
///     .build()?;
/// # Ok::<(), helix_agents_models::ProviderError>(())
/// ```
#[must_use]
#[derive(Clone)]
pub struct ProviderModelBuilder {
    provider: Provider,
    model: String,
    base_url: Option<String>,
    key: Option<Secret>,
    key_variable: Option<String>,
    headers: BTreeMap<String, String>,
    api_version: Option<String>,
    connect_timeout: Duration,
    idle_timeout: Duration,
    known: Known,
}

impl ProviderModelBuilder {
    pub(super) fn new(provider: Provider, model: String) -> Self {
        let known = Known::of(provider, &model);
        Self {
            provider,
            model,
            base_url: None,
            key: None,
            key_variable: None,
            headers: BTreeMap::new(),
            api_version: None,
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            known,
        }
    }

    /// Sets where the provider is. It means what the provider's own SDK means by it: with `/v1` for OpenAI,
    /// without a path for Anthropic and Gemini. By default it is read from the environment
    /// ([`Provider::base_url_variable`]), or that of the provider itself.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Sets the key. By default it is read from the environment ([`Provider::key_variable`]).
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(Secret::new(key));
        self
    }

    /// Sets the environment variable that the key is read from.
    pub fn api_key_from(mut self, variable: impl Into<String>) -> Self {
        self.key_variable = Some(variable.into());
        self
    }

    /// Adds a header to every request. It replaces one of the same name.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets the version of the provider's API: the header `anthropic-version` of Anthropic, the part of the
    /// path like `v1beta` of Gemini. OpenAI has its version in the base URL.
    pub fn api_version(mut self, version: impl Into<String>) -> Self {
        self.api_version = Some(version.into());
        self
    }

    /// Sets how long a connection may take to be made; 10 seconds by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long the provider may send nothing before an attempt fails; 5 minutes by default.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Returns the limits of the model as far as they are known or set.
    #[must_use]
    pub fn known_limits(&self) -> ModelLimits {
        self.known.limits
    }

    /// Sets the limits of the model, in place of those that are known.
    pub fn limits(mut self, limits: ModelLimits) -> Self {
        self.known.limits = limits;
        self
    }

    /// Sets whether the provider can produce an output of a given schema without a tool, in place of what is
    /// known.
    pub fn native_output(mut self, supported: bool) -> Self {
        self.known.native_output = supported;
        self
    }

    /// Sets the price of the model, in place of the one that is known.
    pub fn price(mut self, price: Price) -> Self {
        self.known.price = Some(price);
        self
    }

    /// Builds the model. Nothing is sent.
    ///
    /// # Errors
    /// [`ProviderError`] for a missing key, a base URL or a header that is not valid. A server of your own
    /// needs no key.
    pub fn build(self) -> Result<ProviderModel, ProviderError> {
        let provider = self.provider;
        let given = self.base_url.clone();
        let given = given.or_else(|| from_environment(provider.base_url_variable()));
        let url = given.as_deref().unwrap_or(provider.base_url());
        let base_url = url.trim().trim_end_matches('/').to_owned();
        let parsed = reqwest::Url::parse(&base_url);
        if !parsed.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
            return Err(ProviderError::BaseUrl {
                provider,
                url: base_url,
            });
        }
        for (name, value) in &self.headers {
            let checked = header(name, value);
            checked.map_err(|error| ProviderError::Header {
                detail: error.detail,
            })?;
        }
        if self.api_version.is_some() && !matches!(provider, Provider::Anthropic | Provider::Gemini)
        {
            return Err(ProviderError::NoVersions { provider });
        }
        let variable = self.key_variable.as_deref();
        let variable = variable.unwrap_or(provider.key_variable());
        let from_environment = || from_environment(variable).map(Secret::new);
        let key = self.key.clone().or_else(from_environment);
        let key = key.filter(|key| !key.reveal().is_empty());
        if key.is_none() && given.is_none() {
            let variable = variable.to_owned();
            return Err(ProviderError::NoKey { provider, variable });
        }
        if let Some(key) = &key {
            let checked = header("authorization", key.reveal());
            checked.map_err(|error| ProviderError::Header {
                detail: error.detail,
            })?;
        }
        Ok(ProviderModel {
            name: format!("{provider}/{}", self.model),
            wire: self.wire(),
            known: self.known,
            endpoint: Endpoint {
                provider,
                model: self.model,
                base_url,
                key,
                headers: self.headers,
                client: Client::new(self.connect_timeout, self.idle_timeout),
            },
        })
    }

    /// Builds the model, also if its key is missing: then every call fails and names the variable.
    ///
    /// # Errors
    /// As [`ProviderModelBuilder::build`], but for a missing key.
    pub fn build_without_key(self) -> Result<Arc<dyn Model>, ProviderError> {
        let name = format!("{}/{}", self.provider, self.model);
        match self.build() {
            Ok(model) => Ok(Arc::new(model)),
            Err(error @ ProviderError::NoKey { .. }) => Ok(Arc::new(Unusable { name, error })),
            Err(error) => Err(error),
        }
    }

    fn wire(&self) -> Box<dyn Wire> {
        match self.provider {
            Provider::OpenAi => Box::new(OpenAiChat::new(&self.model)),
            Provider::OpenAiResponses => Box::new(OpenAiResponses::new(&self.model)),
            Provider::Anthropic => Box::new(Anthropic::new(
                &self.model,
                self.api_version.as_deref(),
                self.known.limits.max_output_tokens,
            )),
            Provider::Gemini => Box::new(Gemini::new(&self.model, self.api_version.as_deref())),
        }
    }
}

fn from_environment(variable: &str) -> Option<String> {
    let value = std::env::var(variable).ok()?;
    Some(value).filter(|value| !value.trim().is_empty())
}

impl fmt::Debug for ProviderModelBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderModelBuilder")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("base_url", &self.base_url)
            .finish_non_exhaustive()
    }
}
