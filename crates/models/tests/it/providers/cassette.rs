//! Cassettes: what is asked, what the provider answers, and what the answer means.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::http_server::{Part, Response};

/// A file of `tests/cassettes`; the README there says what its fields mean.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Cassette {
    /// The name of the file, without its ending.
    #[serde(skip)]
    pub(super) name: String,
    #[expect(dead_code, reason = "for whoever reads the file")]
    about: String,
    pub(super) model: String,
    pub(super) scene: SceneFile,
    pub(super) exchanges: Vec<Exchange>,
}

/// The conversation and the settings of the first request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct SceneFile {
    pub(super) system: String,
    pub(super) user: String,
    pub(super) files: Vec<Value>,
    pub(super) tools: Vec<ToolFile>,
    pub(super) tool_choice: Option<Value>,
    pub(super) native_output: Option<Value>,
    pub(super) config: Map<String, Value>,
    /// The results of calls, by the name of the tool.
    pub(super) results: Map<String, Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ToolFile {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) input: Value,
    #[serde(default)]
    pub(super) strict: bool,
}

/// One response, and what it means.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Exchange {
    #[serde(default = "ok")]
    pub(super) status: u16,
    #[serde(default)]
    pub(super) headers: Map<String, Value>,
    /// The events of a stream.
    #[serde(default)]
    pub(super) events: Vec<EventFile>,
    /// The body of a response that is not a stream.
    pub(super) body: Option<Value>,
    pub(super) expect: Value,
}

fn ok() -> u16 {
    200
}

/// One event: its name and its data, where a text is sent as it is; or raw bytes.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum EventFile {
    Raw { raw: String },
    Named { event: String, data: Value },
    Plain { data: Value },
}

impl EventFile {
    fn bytes(&self) -> Vec<u8> {
        let text = |data: &Value| match data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match self {
            Self::Raw { raw } => raw.clone(),
            Self::Named { event, data } => format!("event: {event}\ndata: {}\n\n", text(data)),
            Self::Plain { data } => format!("data: {}\n\n", text(data)),
        }
        .into_bytes()
    }
}

impl Exchange {
    pub(super) fn response(&self) -> Response {
        let response = match &self.body {
            Some(Value::String(text)) => Response::new(self.status, "text/html", text.as_bytes()),
            Some(body) => Response::new(self.status, "application/json", body.to_string()),
            None => {
                let parts = self.events.iter().map(|event| Part::Bytes(event.bytes()));
                Response {
                    status: self.status,
                    ..Response::stream(parts.collect())
                }
            }
        };
        self.headers
            .iter()
            .fold(response, |response, (name, value)| {
                response.header(name, value.as_str().unwrap())
            })
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cassettes")
}

/// Reads all cassettes of a provider.
pub(super) fn of(provider: &str) -> Vec<Cassette> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder().join(provider))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let mut cassette: Cassette = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        cassette.name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        cassette
    };
    paths.iter().map(read).collect()
}
