//! `[models.NAME]`: the models that agents use.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use helix_agents_core::model::Model;
use helix_agents_models::{Script, ScriptedModel};

use super::suggest::remedy;
use super::{At, ConfigError, Section};

const PROVIDERS: [&str; 5] = [
    "openai",
    "openai-responses",
    "anthropic",
    "gemini",
    "scripted",
];

/// The models of a file, by name.
#[derive(Default)]
pub(super) struct Models {
    all: BTreeMap<String, Arc<dyn Model>>,
    scripts: BTreeMap<String, Script>,
}

impl Models {
    pub(super) fn get(&self, name: &str) -> Option<Arc<dyn Model>> {
        self.all.get(name).cloned()
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
        let At { value, at } = section.required("provider", "\"scripted\"")?;
        let script = section.text("script")?;
        section.text("model")?;
        section.text("base_url")?;
        section.text("api_key_env")?;
        match value.as_str() {
            "scripted" => {}
            known if PROVIDERS.contains(&known) => {
                let message =
                    format!("the provider `{known}` is not supported yet; use `scripted`");
                return Err(section.error(&at, message));
            }
            _ => {
                let remedy = remedy(&value, PROVIDERS);
                return Err(section.error(&at, format!("unknown provider `{value}`; {remedy}")));
            }
        }
        let Some(script) = script else {
            return Err(section.wrong(
                "is scripted and has no `script`; write `script = \"script.json\"`, relative to \
                 this file",
            ));
        };
        section.finish()?;
        let script = read_script(section, &script, folder)?;
        let model = ScriptedModel::new(script.clone()).named(&name);
        self.scripts.insert(name.clone(), script);
        self.all.insert(name, Arc::new(model));
        Ok(())
    }
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
