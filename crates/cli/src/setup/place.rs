//! The configuration and the store of a command.

use std::path::{Path, PathBuf};

use clap::Args;
use helix_agents_core::memory::MemoryStore;

use super::{CONFIG, Opening, Plan, STORE, Setup, demo_config};
use crate::UsageError;
use crate::config::{Config, StoreUrl, is_outside};
use crate::screen::{Look, Screen};

/// The configuration and the store of a command.
#[derive(Debug, Clone, Default, Args)]
pub struct Place {
    /// The configuration file; default: `helix.toml` if it exists, else the built-in demo agents
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The store URL: `sqlite:PATH`, `postgres://...`, `redis://...` or `memory:`; overrides the configuration
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// The URL of the streams, where they are not kept in the store; overrides the configuration
    #[arg(long, value_name = "URL")]
    pub stream: Option<String>,
}

impl Place {
    /// Reads the configuration without opening the store.
    ///
    /// # Errors
    /// A [`ConfigError`](crate::config::ConfigError) or [`UsageError`] that says what to write
    /// instead.
    pub fn read(&self) -> anyhow::Result<Plan> {
        let file = self.config.clone().or_else(|| {
            let here = PathBuf::from(CONFIG);
            here.is_file().then_some(here)
        });
        let config = match &file {
            Some(file) => Config::load(file)?,
            None => demo_config()?,
        };
        let store = match (&self.store, &config.store) {
            (Some(url), _) => StoreUrl::parse(url, Path::new("."))
                .map_err(|error| UsageError(format!("--store: {error}")))?,
            (None, Some(store)) => store.clone(),
            (None, None) => StoreUrl::Sqlite(STORE.into()),
        };
        let stream = match (&self.stream, &config.stream) {
            (Some(url), _) => Some(
                StoreUrl::parse(url, Path::new("."))
                    .map_err(|error| UsageError(format!("--stream: {error}")))?,
            ),
            // The store on the command line replaces the place as a whole.
            (None, _) if self.store.is_some() => None,
            (None, stream) => stream.clone(),
        };
        let stream = match stream {
            Some(stream) if is_outside(&stream, &store).map_err(UsageError)? => Some(stream),
            _ => None,
        };
        Ok(Plan {
            file,
            config,
            store,
            stream,
        })
    }

    /// Reads the configuration and opens the store, which is created if it does not exist.
    ///
    /// # Errors
    /// As [`Place::read`], and if the store cannot be used.
    pub async fn open(&self) -> anyhow::Result<Setup> {
        self.read()?.open().await
    }

    /// Reads the configuration and opens an existing store, for commands that need data in it.
    ///
    /// # Errors
    /// As [`Place::open`], and if the store does not exist.
    pub async fn open_existing(&self) -> anyhow::Result<Setup> {
        let plan = self.read()?;
        plan.must_exist()?;
        plan.open_as(Opening::Existing).await
    }

    /// Reads the configuration and opens the store, for commands that list its content. A store
    /// that does not exist is treated as empty, with a message if it was named.
    ///
    /// # Errors
    /// As [`Place::open`].
    pub async fn open_or_empty(&self) -> anyhow::Result<Setup> {
        let plan = self.read()?;
        if plan.missing().is_none() {
            return plan.open().await;
        }
        if self.store.is_some() {
            let text = format!("the store {} does not exist yet", plan.store);
            Screen::of_process().note(Look::Yellow, text)?;
        }
        Ok(Setup::new(plan, MemoryStore::new().into()))
    }

    /// Returns a command line for the same configuration and store, to be pasted.
    #[must_use]
    pub fn command(&self, words: &str) -> String {
        let mut line = format!("helix {words}");
        if let Some(file) = &self.config {
            line.push_str(" --config ");
            line.push_str(&quoted(&file.to_string_lossy()));
        }
        for (option, url) in [("--store", &self.store), ("--stream", &self.stream)] {
            if let Some(url) = url {
                line.push_str(&format!(" {option} {}", quoted(url)));
            }
        }
        line
    }
}

/// Quotes a word for a shell.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_can_be_pasted_into_a_shell() {
        let mut place = Place::default();
        assert_eq!(place.command("resume s"), "helix resume s");
        place.config = Some("it's here/helix.toml".into());
        place.store = Some("sqlite:x.db".to_owned());
        assert_eq!(
            place.command("resume s"),
            r"helix resume s --config 'it'\''s here/helix.toml' --store sqlite:x.db"
        );
    }
}
