//! Tests of valid configuration files.

use std::time::Duration;

use helix_agents_cli::config::{Config, StoreUrl, TokenSecret};
use helix_agents_core::entries::DoubleTexting;
use helix_agents_core::tool::{ApprovalMode, ExecutedBy, OnUnknown};
use serde_json::json;

use crate::kit::Folder;

/// A configuration with every key whose feature is supported.
pub(crate) const EVERYTHING: &str = r#"
[server]
listen = "127.0.0.1:0"
allow_unauthenticated = false
max_body_bytes = 1024
max_connections = 100
max_connections_per_address = 0
max_runs_per_user = 3
max_starts_per_minute = 30
cors_origins = ["http://localhost:3000"]
[[server.tokens]]
env = "HELIX_TOKEN_ALICE"
user = "alice"
admin = false
[[server.tokens]]
sha256 = "AB00000000000000000000000000000000000000000000000000000000000000"
user = "root"
admin = true

[store]
url = "sqlite:helix.db"
[stream]
url = "sqlite:helix.db"
[runtime]
engine = "local"
double_texting = "reject"
recover_on_start = false
lease_ms = 5000
keep_deltas_ms = 60000
auto_continue = false
[runtime.temporal]
address = "127.0.0.1:7233"
namespace = "default"
task_queue = "helix"
[runtime.dbos]
url = "postgres://user@127.0.0.1:5432/db"

[models.fast]
provider = "scripted"
model = "gpt-x"
base_url = "http://127.0.0.1:9000/v1"
api_key_env = "OPENAI_API_KEY"
script = "script.json"

[agents.zoe]
model = "fast"
[agents.support]
description = "Answers customers"
system_prompt = "You help {{state:/customer}}."
model = "fast"
tools = ["refund", "pick_color", "clock", "web"]
sub_agents = []
persistent_agents = [{ agent = "zoe", mode = "non-blocking", description = "Finds things." }]
max_steps = 20
initial_state = { counter = 0, items = [], big = 0x10, ratio = 0.5 }
output_schema = { type = "object", required = ["summary"], properties = { summary = { type = "string" } } }

[tools.refund]
description = "Refund an order"
kind = "http"
url = "http://127.0.0.1:9100/refund"
input_schema = { type = "object", required = ["cents"], properties = { cents = { type = "integer" } } }
approval_when = { pointer = "/cents", above = 10000 }
require_approval = false
deadline_ms = 600000
timeout_ms = 10000
idempotent = false
read_only = false
on_unknown = "pause"
finish_with = false
[tools.pick_color]
kind = "client"
deadline_ms = 1000
on_unknown = "tell_model"
[tools.clock]
kind = "builtin"
read_only = true
[tools.web]
kind = "builtin"
builtin = "fetch"
allow = ["*", "10.0.0.0/8"]
timeout_ms = 500
"#;

fn read(text: &str) -> Config {
    let folder = Folder::with("", r#"{ "default": [] }"#);
    let path = folder.path().join("helix.toml");
    Config::parse(&path, text.to_owned()).unwrap()
}

#[test]
fn every_key_is_read() {
    let config = read(EVERYTHING);
    assert_eq!(config.server.listen.port(), 0);
    assert!(!config.server.allow_unauthenticated);
    assert_eq!(config.server.max_body_bytes, 1024);
    assert_eq!(config.server.max_connections, 100);
    assert_eq!(config.server.max_connections_per_address, 0);
    assert_eq!(config.server.max_runs_per_user, 3);
    assert_eq!(config.server.max_starts_per_minute, 30);
    assert_eq!(config.server.cors_origins, ["http://localhost:3000"]);
    let [alice, root] = config.server.tokens.as_slice() else {
        panic!("{:?}", config.server.tokens);
    };
    assert_eq!(
        alice.secret,
        TokenSecret::Env("HELIX_TOKEN_ALICE".to_owned())
    );
    assert_eq!((alice.user.as_str(), alice.admin), ("alice", false));
    assert!(matches!(&root.secret, TokenSecret::Sha256(hash) if hash.starts_with("ab00")));
    assert!(root.admin);
    assert_eq!((alice.line, root.line), (11, 15));

    let path = match config.store.as_ref().unwrap() {
        StoreUrl::Sqlite(path) => path,
        other => panic!("{other:?}"),
    };
    assert!(
        path.is_absolute() && path.ends_with("helix.db"),
        "beside the file: {path:?}"
    );
    assert_eq!(config.runtime.double_texting, DoubleTexting::Reject);
    assert!(!config.runtime.recover_on_start && !config.runtime.auto_continue);
    assert_eq!(config.runtime.lease, Duration::from_millis(5000));
    assert_eq!(config.runtime.keep_deltas, Duration::from_secs(60));

    let names: Vec<_> = config.agents.iter().map(|agent| agent.name()).collect();
    assert_eq!(names, ["zoe", "support"], "in the order of the file");
    let support = &config.agents[1];
    assert_eq!(support.description(), "Answers customers");
    let prompt = support
        .system_prompt()
        .resolve(&json!({ "customer": "Ada" }));
    assert_eq!(prompt, "You help Ada.");
    assert_eq!(support.stop_config().max_steps, Some(20));
    assert_eq!(
        **support.initial_state(),
        json!({ "counter": 0, "items": [], "big": 16, "ratio": 0.5 })
    );
    assert!(support.output_schema().is_some());

    let refund = support.tool("refund").unwrap().spec();
    assert_eq!(refund.options.approval, ApprovalMode::When);
    assert_eq!(
        refund.options.deadline,
        Some(Duration::from_millis(600_000))
    );
    assert_eq!(refund.options.on_unknown, Some(OnUnknown::Pause));
    assert!(!refund.options.idempotent && !refund.options.read_only && !refund.options.finish_with);
    let pick = support.tool("pick_color").unwrap().spec();
    assert_eq!(pick.executed_by, ExecutedBy::Client);
    assert!(support.tool("clock").unwrap().spec().options.read_only);
    let spawn = support.tool("companion__spawnAgent").unwrap().spec();
    assert!(
        spawn
            .description
            .contains("- zoe (non-blocking): Finds things."),
        "{}",
        spawn.description
    );
    assert!(support.tool("companion__waitForResult").is_none());
}

#[test]
fn missing_keys_have_their_defaults() {
    let config = read("");
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8787");
    assert!(!config.server.allow_unauthenticated && config.server.tokens.is_empty());
    assert_eq!(config.server.max_body_bytes, 4_194_304);
    assert_eq!(config.server.max_connections, 8192);
    assert_eq!(config.server.max_connections_per_address, 512);
    assert_eq!(config.server.max_runs_per_user, 256);
    assert_eq!(config.server.max_starts_per_minute, 1200);
    assert_eq!(config.store, None);
    assert_eq!(config.runtime.double_texting, DoubleTexting::Interrupt);
    assert!(config.runtime.recover_on_start && config.runtime.auto_continue);
    assert_eq!(config.runtime.lease, Duration::from_millis(10_000));
    assert_eq!(config.runtime.stop_grace, Duration::from_secs(5));
    assert_eq!(config.runtime.keep_deltas, Duration::from_secs(600));
    assert!(config.agents.is_empty());
}

#[test]
fn options_without_meaning_for_a_tool_are_ignored() {
    let tool = |options: &str| {
        let text = format!(
            "[models.fast]\nprovider = \"scripted\"\nscript = \"script.json\"\n\
             [agents.a]\nmodel = \"fast\"\ntools = [\"it\"]\n[tools.it]\n{options}"
        );
        read(&text).agents[0].tool("it").unwrap().spec().clone()
    };
    let http = "kind = \"http\"\nurl = \"http://127.0.0.1:9/\"\ndeadline_ms = 5\n";
    assert_eq!(tool(http).options.on_unknown, None);
    let asked = tool(&format!("{http}on_unknown = \"pause\"\n"));
    assert_eq!(asked.options.on_unknown, Some(OnUnknown::Pause));
    tool("kind = \"builtin\"\nbuiltin = \"clock\"\ndeadline_ms = 5\n");
    let client = tool("kind = \"client\"\ntimeout_ms = 5\nidempotent = true\ndeadline_ms = 7\n");
    assert_eq!(client.options.deadline, Some(Duration::from_millis(7)));
}

#[test]
fn localhost_is_a_valid_address_to_listen_on() {
    let config = read("[server]\nlisten = \"localhost:8080\"\n");
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
}

#[test]
fn a_script_may_begin_with_a_byte_order_mark() {
    let text = "[models.fast]\nprovider = \"scripted\"\nscript = \"script.json\"\n";
    let folder = Folder::with(text, "\u{feff}{ \"default\": [] }");
    Config::load(&folder.path().join("helix.toml")).unwrap();
}
