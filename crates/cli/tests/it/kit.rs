//! A folder with a configuration, in which the binary is run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use helix_agents_cli::config::Config;
use helix_agents_core::shared_state::SharedState;
use helix_agents_core::tool::{ToolCx, ToolResult};
use helix_agents_core::{CallId, RunId, SessionId, Tool};
use helix_agents_models::Provider;
use serde_json::Value;

use crate::reference;

/// A folder with a configuration and a script.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
}

/// The exit code and the output of the binary.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            err: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }

    /// Returns the output as one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the output as one JSON value per line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

impl Folder {
    pub(crate) fn empty() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates a folder with `helix.toml` and `script.json`.
    pub(crate) fn with(config: &str, script: &str) -> Self {
        let folder = Self::empty();
        folder.write("helix.toml", config);
        folder.write("script.json", script);
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helix"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env_remove("HELIX_LOG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null());
        for provider in Provider::ALL {
            command
                .env_remove(provider.key_variable())
                .env_remove(provider.base_url_variable());
        }
        command
    }

    /// Checks that a configuration that the program accepted fits the JSON Schema.
    pub(crate) fn check_schema(&self) {
        if let Ok(text) = std::fs::read_to_string(self.path().join("helix.toml")) {
            reference::accepts(&text);
        }
    }

    /// Runs the binary in this folder, without a terminal.
    pub(crate) fn helix(&self, arguments: &[&str]) -> CommandOutput {
        let did = CommandOutput::of(&self.command(arguments).output().unwrap());
        if did.code != 2 {
            self.check_schema();
        }
        did
    }
}

/// Returns the configuration of most tests: a store, a scripted model, and what is added.
pub(crate) fn config(more: &str) -> String {
    config_on("[store]\nurl = \"sqlite:helix.db\"\n", more)
}

/// Returns the same with another store.
pub(crate) fn config_on(store: &str, more: &str) -> String {
    format!("{store}[models.fast]\nprovider = \"scripted\"\nscript = \"script.json\"\n{more}")
}

/// Returns a tool from a configuration that has nothing else.
pub(crate) fn tool(section: &str) -> Tool {
    let folder = Folder::with("", r#"{ "default": [] }"#);
    let text = config(&format!(
        "[agents.a]\nmodel = \"fast\"\ntools = [\"it\"]\n[tools.it]\n{section}"
    ));
    let config = Config::parse(&folder.path().join("helix.toml"), text);
    config.unwrap().agents[0].tool("it").unwrap().clone()
}

/// Returns the context of a call, and the state that it changes.
pub(crate) fn surroundings(call: &str, state: Value) -> (ToolCx, SharedState) {
    let state = SharedState::new(state.into()).unwrap();
    let cx = ToolCx::builder(
        SessionId::new("s").unwrap(),
        RunId::new("r").unwrap(),
        CallId::new(call).unwrap(),
    )
    .state(state.clone())
    .build();
    (cx, state)
}

/// Calls a tool in a default context.
pub(crate) async fn call(tool: &Tool, arguments: Value) -> ToolResult<Value> {
    let (cx, _) = surroundings("c1", serde_json::json!({}));
    tool.call(arguments, cx).await
}

/// Returns the error text for the model.
pub(crate) async fn refused(tool: &Tool, arguments: Value) -> String {
    let result = call(tool, arguments).await;
    result.unwrap_err().model_text().to_owned()
}
