//! Models by names like `anthropic/claude-sonnet-4-5`.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream;
use helix_agents_core::model::{EventStream, Model, ModelError, ModelErrorKind, ModelRequest};
use helix_agents_core::perform::Models;
use helix_agents_core::{Coded, Error, ErrorCode};

use super::{Provider, ProviderModel};

/// Why a model of a provider cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The name does not begin with a known provider.
    #[error(
        "the model {name:?} names no known provider; write `provider/model` with one of: openai, \
         openai-responses, anthropic, gemini"
    )]
    Unknown {
        /// The name.
        name: String,
    },
    /// The provider needs a key, and there is none.
    #[error("{provider} needs a key; set the environment variable {variable}")]
    NoKey {
        /// The provider.
        provider: Provider,
        /// The environment variable that was read.
        variable: String,
    },
    /// The base URL is not one.
    #[error(
        "the base URL {url:?} of {provider} is not an address; write one like {:?}",
        provider.base_url()
    )]
    BaseUrl {
        /// The provider.
        provider: Provider,
        /// The base URL.
        url: String,
    },
    /// A header cannot be sent.
    #[error("{detail}; remove them")]
    Header {
        /// Which header, and why.
        detail: String,
    },
    /// The provider's API has no version to choose.
    #[error("{provider} has its version in the base URL; remove the API version")]
    NoVersions {
        /// The provider.
        provider: Provider,
    },
}

impl Coded for ProviderError {
    fn code(&self) -> ErrorCode {
        ErrorCode::DefinitionInvalid
    }
}

impl From<ProviderError> for Error {
    fn from(error: ProviderError) -> Self {
        Self::new(error)
    }
}

/// The models of all providers, by names like `anthropic/claude-sonnet-4-5`. Keys are read from the
/// environment when a model is first used.
///
/// ```
/// use helix_agents_core::perform::Models;
/// use helix_agents_models::Providers;
///
/// let providers = Providers::new();
/// if providers.model("anthropic/claude-sonnet-4-5").is_none() {
///     let why = providers.why_missing("anthropic/claude-sonnet-4-5");
///     assert_eq!(why.as_deref(), Some("anthropic needs a key; set the environment variable ANTHROPIC_API_KEY"));
/// }
/// assert!(providers.model("my-own-model").is_none());
/// ```
#[derive(Debug, Default)]
pub struct Providers {
    made: Mutex<BTreeMap<String, Arc<dyn Model>>>,
}

impl Providers {
    /// Creates the lookup. Nothing is read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a model of its name, with a key from the environment.
    ///
    /// # Errors
    /// [`ProviderError`] if the name has no known provider, or there is no key.
    pub fn make(name: &str) -> Result<ProviderModel, ProviderError> {
        let unknown = || ProviderError::Unknown {
            name: name.to_owned(),
        };
        let (provider, model) = name.split_once('/').ok_or_else(unknown)?;
        let provider = Provider::named(provider).ok_or_else(unknown)?;
        if model.is_empty() {
            return Err(unknown());
        }
        ProviderModel::builder(provider, model).build()
    }
}

impl Models for Providers {
    fn model(&self, name: &str) -> Option<Arc<dyn Model>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = made.get(name) {
            return Some(Arc::clone(model));
        }
        let model: Arc<dyn Model> = Arc::new(Self::make(name).ok()?);
        made.insert(name.to_owned(), Arc::clone(&model));
        Some(model)
    }

    fn why_missing(&self, name: &str) -> Option<String> {
        match Self::make(name) {
            Ok(_) | Err(ProviderError::Unknown { .. }) => None,
            Err(error) => Some(error.to_string()),
        }
    }
}

/// A model that cannot be used, and says why to whoever tries.
#[derive(Debug)]
pub(super) struct Unusable {
    pub(super) name: String,
    pub(super) error: ProviderError,
}

impl Model for Unusable {
    fn stream<'a>(&'a self, _request: ModelRequest<'a>) -> EventStream<'a> {
        let kind = match self.error {
            ProviderError::NoKey { .. } => ModelErrorKind::Auth,
            _ => ModelErrorKind::Invalid,
        };
        let error = ModelError::new(kind, self.error.to_string());
        Box::pin(stream::once(ready(Err(error))))
    }

    fn name(&self) -> &str {
        &self.name
    }
}
