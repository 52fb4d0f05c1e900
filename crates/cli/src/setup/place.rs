//! Which configuration and which store a command uses.

use std::path::{Path, PathBuf};

use clap::Args;
use helix_agents_core::memory::MemoryStore;

use super::{CONFIG, Plan, STORE, Setup, demo_config};
use crate::UsageError;
use crate::config::{Config, StoreUrl};
use crate::screen::{Look, Screen};

/// Which configuration and which store a command uses.
#[derive(Debug, Clone, Default, Args)]
pub struct Place {
    /// The configuration; without it `helix.toml` here, or else the built-in demo agents
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The store: `sqlite:PATH` or `memory:`; overrides the configuration
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
}

impl Place {
    /// Reads the configuration; nothing is opened.
    ///
    /// # Errors
    /// [`ConfigError`](crate::config::ConfigError) and [`UsageError`] say what to write instead.
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
        Ok(Plan {
            file,
            config,
            store,
        })
    }

    /// Reads the configuration and opens the store, which is made when it is not there.
    ///
    /// # Errors
    /// As [`Place::read`], and when the store cannot be used.
    pub async fn open(&self) -> anyhow::Result<Setup> {
        self.read()?.open().await
    }

    /// Reads the configuration and opens a store that is there, for commands that need something in
    /// it.
    ///
    /// # Errors
    /// As [`Place::open`], and when there is no such store.
    pub async fn open_existing(&self) -> anyhow::Result<Setup> {
        let plan = self.read()?;
        plan.must_exist()?;
        plan.open().await
    }

    /// Reads the configuration and opens the store, for commands that list what is in it: where none
    /// was made yet there is nothing in it. That one that was named is not there is said.
    ///
    /// # Errors
    /// As [`Place::open`].
    pub async fn open_or_empty(&self) -> anyhow::Result<Setup> {
        let plan = self.read()?;
        if plan.missing().is_none() {
            return plan.open().await;
        }
        if self.store.is_some() {
            let text = format!("there is no store {} yet", plan.store);
            Screen::here().note(Look::Yellow, text)?;
        }
        Ok(Setup::new(plan, MemoryStore::new().into()))
    }

    /// A command line about the same configuration and store, to be pasted.
    #[must_use]
    pub fn command(&self, words: &str) -> String {
        let mut line = format!("helix {words}");
        if let Some(file) = &self.config {
            line.push_str(" --config ");
            line.push_str(&quoted(&file.to_string_lossy()));
        }
        if let Some(url) = &self.store {
            line.push_str(" --store ");
            line.push_str(&quoted(url));
        }
        line
    }
}

/// A word as a shell reads it.
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
    fn a_hint_can_be_pasted() {
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
