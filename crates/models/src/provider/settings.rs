//! The settings of a call, as fields of a body.

use helix_agents_core::model::{ModelConfig, ModelError, ModelErrorKind};
use serde_json::{Map, Value};

use super::Provider;
use super::body::Options;

/// Returns the options that a user sets for this provider.
pub(crate) fn options(config: &ModelConfig, provider: Provider) -> Result<Options, ModelError> {
    match config.provider_options.get(provider.name()) {
        None => Ok(Options::new()),
        Some(Value::Object(options)) => Ok(options.clone()),
        Some(_) => {
            let detail = format!("the provider options of {provider} are not an object; write one");
            Err(ModelError::new(ModelErrorKind::Invalid, detail))
        }
    }
}

/// Fields that are written only where they are set.
#[derive(Debug, Default)]
pub(crate) struct Settings(pub(crate) Map<String, Value>);

impl Settings {
    /// Sets a field.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Sets a field, if there is a value.
    pub(crate) fn set_if<T: Into<Value>>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }
}

/// The error of a setting that a provider does not have. It is refused, not ignored.
pub(crate) fn no_such_setting(provider: Provider, name: &str) -> ModelError {
    let detail =
        format!("{provider} has no setting `{name}`; remove it from the model's configuration");
    ModelError::new(ModelErrorKind::Invalid, detail)
}
