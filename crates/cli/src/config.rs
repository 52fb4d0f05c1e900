//! `helix.toml`: the configuration, read and validated as a whole.
//!
//! The result is ready to use: models, tools and agents are built while the file is read, so that
//! their errors are reported with their lines.

mod agents;
mod budget;
mod context;
mod error;
mod headers;
mod json;
mod models;
mod runtime;
mod section;
mod server;
mod store;
mod store_servers;
mod suggest;
mod tool_options;
mod tools;

use std::path::Path;

use helix_agents_core::agent::AnyAgent;
use toml::de::DeTable;

use crate::reference::TOP;
use crate::tools::HttpClient;

pub use error::ConfigError;
pub use runtime::RuntimeConfig;
pub(crate) use section::{At, Section, Source};
pub(crate) use server::listen_address;
pub use server::{ServerConfig, TokenConfig, TokenSecret};
pub(crate) use store::is_outside;
pub use store::{StoreUrl, StoreUrlError};
pub use store_servers::{Demand, PostgresPlace, RedisPlace};

/// A configuration that was read and validated.
#[derive(Debug)]
#[non_exhaustive]
pub struct Config {
    /// The configuration of the server.
    pub server: ServerConfig,
    /// The URL of the store; `None` if the file has none.
    pub store: Option<StoreUrl>,
    /// The URL of the streams; `None` if they are kept in the store.
    pub stream: Option<StoreUrl>,
    /// The configuration of the runtime.
    pub runtime: RuntimeConfig,
    /// The agents, in the order of the file.
    pub agents: Vec<AnyAgent>,
    /// Addresses of the tools that are services, with the tool's name, for `helix doctor`.
    pub services: Vec<(String, String)>,
    /// The environment variables that tools and models need.
    pub variables: Vec<Variable>,
    /// The names of agents with an output schema whose script never gives an output, for `helix
    /// doctor`.
    pub unfinished: Vec<String>,
}

/// An environment variable that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// The name of the variable.
    pub name: String,
    /// The purpose of its value, for messages.
    pub holds: String,
    /// The line of the configuration that names it, counted from 1.
    pub line: usize,
    /// Whether runs can be performed without it: a model of one's own server may need no key.
    pub optional: bool,
}

impl Variable {
    /// Whether the variable is set and not empty.
    #[must_use]
    pub fn is_set(&self) -> bool {
        std::env::var(&self.name).is_ok_and(|value| !value.trim().is_empty())
    }
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// A [`ConfigError`] for the first error.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let bytes = std::fs::read(path).map_err(|error| {
            let why = match error.kind() {
                std::io::ErrorKind::NotFound => {
                    "file not found; write it, or name another with --config".to_owned()
                }
                _ => format!("the file cannot be read: {error}"),
            };
            ConfigError::of_file(path, why)
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = error.as_bytes().get(..error.utf8_error().valid_up_to());
            let lines = good
                .unwrap_or_default()
                .split(|byte| *byte == b'\n')
                .count();
            let message = "this is not UTF-8; save the file as UTF-8 text";
            let mut error = ConfigError::of_file(path, message);
            error.line = Some(lines);
            error
        })?;
        Self::parse(path, text)
    }

    /// Parses the text of a file. Paths in it are relative to the file.
    ///
    /// # Errors
    /// A [`ConfigError`] for the first error.
    pub fn parse(path: &Path, text: String) -> Result<Self, ConfigError> {
        let source = Source {
            path: path.to_owned(),
            text,
        };
        let table = DeTable::parse(&source.text).map_err(|error| {
            let at = error.span().unwrap_or_default();
            let remedy = match error.message() {
                "duplicate key" => "remove one of the two",
                _ => "correct it as TOML is written",
            };
            let message = format!("this is not TOML: {}; {remedy}", error.message());
            source.error(&at, message)
        })?;
        let top = Section::new(&source, "", table.span(), table.get_ref(), &TOP);
        Self::read(&top, path)
    }

    fn read(top: &Section<'_>, path: &Path) -> Result<Self, ConfigError> {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let server = server::read(top.section("server")?)?;
        let store = store::read(top.section("store")?, folder)?;
        let stream = store::read_stream(top.section("stream")?, store.as_ref(), folder)?;
        let runtime = runtime::read(top.section("runtime")?)?;
        let mut models = models::Models::default();
        for (name, section) in top.named("models")? {
            models.read(name, &section, folder)?;
        }
        let client = HttpClient::new();
        let mut all = tools::Tools::default();
        for (name, section) in top.named("tools")? {
            all.read(name, &section, &client)?;
        }
        let (mut agents, mut unfinished) = (Vec::new(), Vec::new());
        let named = top.named("agents")?;
        top.finish()?;
        let order = agents::in_order(&named)?;
        for (name, section) in order.iter().filter_map(|place| named.get(*place)) {
            let agent = agents::read(name, section, &mut models, &all, &agents)?;
            let model = section.text("model")?;
            let script = model.and_then(|model| models.script(&model.value));
            if script.is_some_and(|script| agents::never_finishes(&agent, script)) {
                unfinished.push(name.clone());
            }
            agents.push(agent);
        }
        // They are listed as the file has them.
        let place = |name: &str| named.iter().position(|(one, _)| one == name);
        agents.sort_by_key(|agent: &AnyAgent| place(agent.name()));
        unfinished.sort_by_key(|name: &String| place(name));
        Ok(Self {
            server,
            store,
            stream,
            runtime,
            agents,
            services: all.services,
            variables: all.variables.into_iter().chain(models.variables).collect(),
            unfinished,
        })
    }
}
