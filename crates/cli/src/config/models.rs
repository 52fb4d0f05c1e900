//! `[models.NAME]`: the models that agents use.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::model::{Model, ModelConfig, ModelLimits};
use helix_agents_models::{
    Price, Provider, ProviderModel, ProviderModelBuilder, Script, ScriptedModel,
};

use super::suggest::remedy;
use super::{At, ConfigError, Section, Variable, headers};
use crate::reference::OF_PROVIDERS;

const SCRIPTED: &str = "scripted";
/// A model, and the settings that its agents get.
#[derive(Debug, Clone)]
pub(super) struct ConfiguredModel {
    pub(super) model: Arc<dyn Model>,
    pub(super) config: ModelConfig,
}

/// The models of a file, by name.
#[derive(Default)]
pub(super) struct Models {
    all: BTreeMap<String, ConfiguredModel>,
    scripts: BTreeMap<String, Script>,
    /// The environment variables that they need.
    pub(super) variables: Vec<Variable>,
}

impl Models {
    /// Returns a model of the file, or one that is named like `anthropic/claude-sonnet-4-5`.
    pub(super) fn get(&mut self, name: &str, line: usize) -> Option<ConfiguredModel> {
        if let Some(found) = self.all.get(name) {
            return Some(found.clone());
        }
        let (provider, model) = name.split_once('/')?;
        let provider = Provider::named(provider).filter(|_| !model.is_empty())?;
        self.need_key(provider, provider.key_variable().to_owned(), line, false);
        let model = ProviderModel::builder(provider, model).build_without_key();
        Some(ConfiguredModel {
            model: model.ok()?,
            config: ModelConfig::default(),
        })
    }

    /// Returns the script of a scripted model.
    pub(super) fn script(&self, name: &str) -> Option<&Script> {
        self.scripts.get(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    pub(super) fn read(
        &mut self,
        name: String,
        section: &Section<'_>,
        folder: &Path,
    ) -> Result<(), ConfigError> {
        let At { value, at } = section.required("provider", "\"openai\"")?;
        let script = section.text("script")?;
        if value == SCRIPTED {
            return self.read_scripted(name, section, script.as_ref(), folder);
        }
        let Some(provider) = Provider::named(&value) else {
            let known = Provider::ALL.map(Provider::name).into_iter();
            let remedy = remedy(&value, known.chain([SCRIPTED]));
            return Err(section.error(&at, format!("unknown provider `{value}`; {remedy}")));
        };
        if let Some(At { at, .. }) = script {
            let message =
                format!("`script` is for `scripted` models, not for `{provider}`; remove it");
            return Err(section.error(&at, message));
        }
        let Some(model) = section.text("model")? else {
            return Err(section
                .wrong("has no `model`; write `model = \"NAME\"` with its name at the provider"));
        };
        let mut builder = ProviderModel::builder(provider, model.value);
        let base_url = section.text("base_url")?;
        if let Some(At { value, .. }) = &base_url {
            builder = builder.base_url(value);
        }
        let variable = section.text("api_key_env")?.map(|variable| variable.value);
        let variable = variable.unwrap_or_else(|| provider.key_variable().to_owned());
        builder = builder.api_key_from(&variable);
        self.need_key(provider, variable, section.line(), base_url.is_some());
        let builder = self.read_endpoint(section, builder)?;
        let builder = read_facts(section, builder)?;
        let config = read_config(section)?;
        section.finish()?;
        let model = builder.build_without_key();
        let model = model.map_err(|error| section.wrong(error))?;
        self.all.insert(name, ConfiguredModel { model, config });
        Ok(())
    }

    fn read_scripted(
        &mut self,
        name: String,
        section: &Section<'_>,
        script: Option<&At<String>>,
        folder: &Path,
    ) -> Result<(), ConfigError> {
        section.text("model")?;
        section.text("base_url")?;
        section.text("api_key_env")?;
        section.refuse(&OF_PROVIDERS, "a scripted model")?;
        let Some(script) = script else {
            return Err(section.wrong(
                "is scripted and has no `script`; write `script = \"script.json\"`, relative to \
                 this file",
            ));
        };
        section.finish()?;
        let script = read_script(section, script, folder)?;
        let model = ScriptedModel::new(script.clone()).named(&name);
        self.scripts.insert(name.clone(), script);
        let model = ConfiguredModel {
            model: Arc::new(model),
            config: ModelConfig::default(),
        };
        self.all.insert(name, model);
        Ok(())
    }

    /// Notes the variable of a key. A server of one's own may need none.
    fn need_key(&mut self, provider: Provider, name: String, line: usize, optional: bool) {
        if self
            .variables
            .iter()
            .any(|one| one.name == name && one.optional == optional)
        {
            return;
        }
        self.variables.push(Variable {
            name,
            holds: format!("the API key of {provider}"),
            line,
            optional,
        });
    }

    fn read_endpoint(
        &mut self,
        section: &Section<'_>,
        mut builder: ProviderModelBuilder,
    ) -> Result<ProviderModelBuilder, ConfigError> {
        if let Some(version) = section.text("api_version")? {
            builder = builder.api_version(version.value);
        }
        let (headers, variables) = headers::read(section)?;
        self.variables.extend(variables);
        for (name, value) in &headers {
            // It was checked when it was read.
            builder = builder.header(name.as_str(), value.to_str().unwrap_or_default());
        }
        if let Some(millis) = section.count("connect_timeout_ms", 1)? {
            builder = builder.connect_timeout(Duration::from_millis(millis.value));
        }
        if let Some(millis) = section.count("idle_timeout_ms", 1)? {
            builder = builder.idle_timeout(Duration::from_millis(millis.value));
        }
        Ok(builder)
    }
}

/// Reads what is known about a model, in place of the built-in table.
fn read_facts(
    section: &Section<'_>,
    mut builder: ProviderModelBuilder,
) -> Result<ProviderModelBuilder, ConfigError> {
    if let Some(tokens) = section.count("context_tokens", 1)? {
        let mut limits: ModelLimits = builder.known_limits();
        limits.context_tokens = Some(tokens.value);
        builder = builder.limits(limits);
    }
    if let Some(native) = section.flag("native_output")? {
        builder = builder.native_output(native.value);
    }
    if let Some(prices) = section.section("price")? {
        let input = prices.count("input", 0)?;
        let output = prices.count("output", 0)?;
        let (cached, written) = (prices.count("cached", 0)?, prices.count("cache_write", 0)?);
        prices.finish()?;
        let (Some(input), Some(output)) = (input, output) else {
            return Err(
                prices.wrong("needs `input` and `output`, in micro-dollars per million tokens")
            );
        };
        let mut price = Price::new(input.value, output.value);
        if let Some(cached) = cached {
            price = price.cached(cached.value);
        }
        if let Some(written) = written {
            price = price.cache_write(written.value);
        }
        builder = builder.price(price);
    }
    Ok(builder)
}

/// Reads the settings of every call.
fn read_config(section: &Section<'_>) -> Result<ModelConfig, ConfigError> {
    let small = |key| -> Result<Option<u32>, ConfigError> {
        let count = section.count(key, 0)?;
        Ok(count.map(|count| u32::try_from(count.value).unwrap_or(u32::MAX)))
    };
    let number = |key| Ok::<_, ConfigError>(section.number(key)?.map(|number| number.value));
    let mut config = ModelConfig::default();
    config.temperature = number("temperature")?;
    config.max_output_tokens = small("max_output_tokens")?;
    config.top_p = number("top_p")?;
    config.top_k = small("top_k")?;
    config.presence_penalty = number("presence_penalty")?;
    config.frequency_penalty = number("frequency_penalty")?;
    let stops = section.texts("stop_sequences")?.into_iter();
    config.stop_sequences = stops.map(|stop| stop.value).collect();
    config.seed = section.count("seed", 0)?.map(|seed| seed.value);
    config.max_retries = small("max_retries")?;
    let timeout = section.count("timeout_ms", 1)?;
    config.timeout = timeout.map(|millis| Duration::from_millis(millis.value));
    if let Some(flag) = section.flag("strict_output")? {
        config.strict_output = flag.value;
    }
    if let Some(options) = section.object("options")? {
        let provider = section.required("provider", "\"openai\"")?.value;
        config.provider_options.insert(provider, options.value);
    }
    Ok(config)
}

fn read_script(
    section: &Section<'_>,
    At { value, at }: &At<String>,
    folder: &Path,
) -> Result<Script, ConfigError> {
    let path = folder.join(value);
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => "does not exist".to_owned(),
            _ => format!("cannot be read: {error}"),
        };
        let remedy = "write the path of a script, relative to this file";
        section.error(at, format!("the script `{value}` {why}; {remedy}"))
    })?;
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Script::parse(text).map_err(|error| ConfigError {
        file: path,
        line: error.line(),
        message: error.to_string(),
    })
}
