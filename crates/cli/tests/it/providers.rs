//! Models of providers, from the configuration and from the environment.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use helix_agents_cli::config::Config;
use helix_agents_mock_llm::MockLlm;
use serde_json::json;

use crate::kit::{CommandOutput, Folder};

fn openai(more: &str) -> String {
    format!(
        "[store]\nurl = \"sqlite:helix.db\"\n[models.fast]\nprovider = \"openai\"\nmodel = \"text\"\n{more}\n\
         [agents.a]\nmodel = \"fast\"\n"
    )
}

/// proves in part: LLM-02
#[test]
fn a_run_streams_from_a_provider() {
    let server = MockLlm::spawn().unwrap();
    let url = format!("base_url = \"{}\"", server.base_url());
    let settings = "temperature = 0.5\nmax_output_tokens = 100\nstop_sequences = [\"END\"]\nseed = 7\n\
        max_retries = 1\ntimeout_ms = 60000\nheaders = { x-team = \"blue\" }\noptions = { user = \"u\" }\n\
        price = { input = 1000000, output = 2000000 }";
    let folder = Folder::with(&openai(&format!("{url}\n{settings}")), "");
    let said = folder.helix(&["run", "a", "hi", "--session", "s"]).ends(0);
    assert!(said.out.contains("Done."), "{said:?}");

    let path = folder.path().join("helix.toml");
    let read = Config::load(&path).unwrap();
    let config = read.agents[0].model_config();
    assert_eq!((config.temperature, config.seed), (Some(0.5), Some(7)));
    assert_eq!(
        (config.max_output_tokens, config.max_retries),
        (Some(100), Some(1))
    );
    assert_eq!(config.timeout, Some(Duration::from_secs(60)));
    assert_eq!(config.stop_sequences, ["END"]);
    assert_eq!(config.provider_options["openai"], json!({ "user": "u" }));
}

/// A name of a provider and a model needs no section of its own.
#[test]
fn an_agent_names_a_model_of_a_provider() {
    let server = MockLlm::spawn().unwrap();
    let folder = Folder::with("[agents.a]\nmodel = \"openai/text\"\n", "");
    let mut command = folder.command(&["run", "a", "hi"]);
    command
        .env("OPENAI_API_KEY", "k")
        .env("OPENAI_BASE_URL", server.base_url());
    let said = CommandOutput::of(&command.output().unwrap()).ends(0);
    assert!(said.out.contains("Done."), "{said:?}");
}

#[test]
fn a_missing_key_is_named_before_a_run_and_by_doctor() {
    let folder = Folder::with(&openai("api_key_env = \"TEAM_KEY\""), "");
    let refused = folder.helix(&["run", "a", "hi"]).ends(2);
    assert!(
        refused
            .err
            .contains("helix.toml:3: the environment variable TEAM_KEY is not set"),
        "{refused:?}"
    );
    let report = folder.helix(&["doctor"]).ends(1);
    let missing = "!! environment: TEAM_KEY is not set; put the API key of openai into it";
    assert!(report.out.contains(missing), "{report:?}");

    let mut command = folder.command(&["doctor"]);
    command.env("TEAM_KEY", "k");
    let report = CommandOutput::of(&command.output().unwrap()).ends(0);
    assert!(
        report.out.contains("ok environment: TEAM_KEY holds"),
        "{report:?}"
    );
}

/// A server of one's own may need no key.
#[test]
fn a_server_with_an_address_needs_no_key() {
    let server = MockLlm::spawn().unwrap();
    let url = format!("base_url = \"{}\"", server.base_url());
    let folder = Folder::with(&openai(&url), "");
    folder.helix(&["run", "a", "hi"]).ends(0);
}

#[test]
fn dev_uses_a_provider_whose_key_is_in_the_environment_and_says_which() {
    let folder = Folder::empty();
    let mut command = folder.command(&["dev", "--listen", "127.0.0.1:0"]);
    command
        .env("OPENAI_API_KEY", "k")
        .stderr(Stdio::piped())
        .stdout(Stdio::null());
    let mut dev = command.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(dev.stderr.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    dev.kill().unwrap();
    dev.wait().unwrap();
    assert_eq!(
        said.trim(),
        "the demo agents use openai-responses/gpt-5-mini, because OPENAI_API_KEY is set"
    );
}
