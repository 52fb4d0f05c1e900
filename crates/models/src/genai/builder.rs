//! Builds a model that `genai` reaches.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ::genai::Client as GenaiClient;
use ::genai::adapter::AdapterKind;
use ::genai::resolver::{AuthData, Endpoint};
use helix_agents_core::model::ModelLimits;
use helix_agents_core::{Coded, Error, ErrorCode};

use super::model::GenaiModel;
use super::{PROVIDER, support::Support};
use crate::price::Price;
use crate::provider::builder::{CONNECT_TIMEOUT, IDLE_TIMEOUT};
use crate::provider::endpoint::{Client, header};
use crate::provider::secret::Secret;

/// Why a model of `genai` cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GenaiError {
    /// The name does not begin with an adapter.
    #[error(
        "the model {name:?} names no adapter of genai; write `adapter::model`, like `groq::openai/gpt-oss-120b`"
    )]
    NoAdapter {
        /// The name.
        name: String,
    },
    /// The adapter needs a key, and there is none.
    #[error("genai's adapter {adapter} needs a key; set the environment variable {variable}")]
    NoKey {
        /// The adapter.
        adapter: String,
        /// The environment variable that was read.
        variable: String,
    },
    /// The base URL is not one.
    #[error("the base URL {url:?} is not an address; write one like \"http://127.0.0.1:11434/\"")]
    BaseUrl {
        /// The base URL.
        url: String,
    },
    /// A header cannot be sent.
    #[error("{detail}; remove them")]
    Header {
        /// Which header, and why.
        detail: String,
    },
    /// The adapter cannot produce an output of a given schema.
    #[error("genai's adapter {adapter} has no schema of the output; remove `native_output`")]
    NoNativeOutput {
        /// The adapter.
        adapter: String,
    },
    /// The HTTP client cannot be set up.
    #[error("{detail}")]
    Client {
        /// Why.
        detail: String,
    },
}

impl Coded for GenaiError {
    fn code(&self) -> ErrorCode {
        ErrorCode::DefinitionInvalid
    }
}

impl From<GenaiError> for Error {
    fn from(error: GenaiError) -> Self {
        Self::new(error)
    }
}

/// A model of `genai` that is being built.
///
/// ```
/// use helix_agents_core::model::ModelLimits;
/// use helix_agents_models::Price;
/// use helix_agents_models::genai::GenaiModel;
///
/// let model = GenaiModel::builder("deepseek::deepseek-chat")
///     .api_key("a key from a vault")
///     .limits(ModelLimits::new(128_000, 8_192))
///     .price(Price::new(270_000, 1_100_000))
///     .build()?;
/// # Ok::<(), helix_agents_models::genai::GenaiError>(())
/// ```
#[must_use]
#[derive(Clone)]
pub struct GenaiModelBuilder {
    model: String,
    base_url: Option<String>,
    key: Option<Secret>,
    key_variable: Option<String>,
    headers: BTreeMap<String, String>,
    connect_timeout: Duration,
    idle_timeout: Duration,
    limits: ModelLimits,
    price: Option<Price>,
    native_output: bool,
}

impl GenaiModelBuilder {
    pub(super) fn new(model: String) -> Self {
        Self {
            model,
            base_url: None,
            key: None,
            key_variable: None,
            headers: BTreeMap::new(),
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            limits: ModelLimits::default(),
            price: None,
            native_output: false,
        }
    }

    /// Sets where the provider is, as the adapter means it: for most with `/v1`, for Ollama without a path.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Sets the key. By default it is read from the environment variable that `genai` reads for the adapter,
    /// like `GROQ_API_KEY`.
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

    /// Sets the limits of the model; none is known by default.
    pub fn limits(mut self, limits: ModelLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the price of the model; none is known by default.
    pub fn price(mut self, price: Price) -> Self {
        self.price = Some(price);
        self
    }

    /// Sets whether the model can produce an output of a given schema without a tool; it cannot by default.
    pub fn native_output(mut self, supported: bool) -> Self {
        self.native_output = supported;
        self
    }

    /// Builds the model. Nothing is sent.
    ///
    /// # Errors
    /// [`GenaiError`] for a name without an adapter, a missing key, a base URL or a header that is not valid.
    pub fn build(self) -> Result<GenaiModel, GenaiError> {
        let adapter = self.adapter()?;
        let support = Support::of(adapter);
        let name = || adapter.as_lower_str().to_owned();
        if self.native_output && !support.native_output {
            return Err(GenaiError::NoNativeOutput { adapter: name() });
        }
        for (name, value) in &self.headers {
            let checked = header(name, value);
            checked.map_err(|error| GenaiError::Header {
                detail: error.detail,
            })?;
        }
        let key = self.key(adapter)?;
        let auth = match &key {
            Some(key) => AuthData::from_single(key.reveal()),
            None => AuthData::None,
        };
        let endpoint = self.endpoint()?;
        let http = Client::new(self.connect_timeout, self.idle_timeout);
        let client = http.get().map_err(|error| GenaiError::Client {
            detail: error.detail,
        })?;
        let client = GenaiClient::builder()
            .with_reqwest(client.clone())
            .append_provider_config(adapter, (endpoint, Some(auth)))
            .build();
        let client = client.map_err(|error| GenaiError::Client {
            detail: error.to_string(),
        })?;
        Ok(GenaiModel {
            name: format!("{PROVIDER}/{}", self.model),
            adapter,
            model: self.model,
            client,
            http,
            key,
            headers: self.headers,
            limits: self.limits,
            price: self.price,
            native_output: self.native_output,
        })
    }

    fn adapter(&self) -> Result<AdapterKind, GenaiError> {
        let unknown = || GenaiError::NoAdapter {
            name: self.model.clone(),
        };
        let (namespace, model) = self.model.split_once("::").ok_or_else(unknown)?;
        if model.is_empty() {
            return Err(unknown());
        }
        match AdapterKind::from_model(&self.model) {
            // Ollama stands for every name that `genai` does not know.
            Ok(AdapterKind::Ollama) if namespace != "ollama" => Err(unknown()),
            Ok(adapter) => Ok(adapter),
            Err(_) => Err(unknown()),
        }
    }

    /// Returns the key, where the adapter has one.
    fn key(&self, adapter: AdapterKind) -> Result<Option<Secret>, GenaiError> {
        let usual = adapter.default_key_env_name();
        let variable = self.key_variable.as_deref().or(usual);
        let from_environment = || Some(Secret::new(std::env::var(variable?).ok()?));
        let key = self.key.clone().or_else(from_environment);
        let key = key.filter(|key| !key.reveal().is_empty());
        match (&key, variable) {
            (None, Some(variable)) => Err(GenaiError::NoKey {
                adapter: adapter.as_lower_str().to_owned(),
                variable: variable.to_owned(),
            }),
            _ => Ok(key),
        }
    }

    /// Returns the address, with the slash at its end that `genai` expects.
    fn endpoint(&self) -> Result<Option<Endpoint>, GenaiError> {
        let Some(url) = &self.base_url else {
            return Ok(None);
        };
        let url = format!("{}/", url.trim().trim_end_matches('/'));
        let parsed = reqwest::Url::parse(&url);
        if !parsed.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
            return Err(GenaiError::BaseUrl { url });
        }
        Ok(Some(Endpoint::from_owned(url)))
    }
}

impl fmt::Debug for GenaiModelBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenaiModelBuilder")
            .field("model", &self.model)
            .field("base_url", &self.base_url)
            .finish_non_exhaustive()
    }
}
