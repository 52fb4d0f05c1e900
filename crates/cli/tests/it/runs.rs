//! Tests of turns: how they end, and what is printed.

use std::io::Read;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::kit::{Folder, config};
use crate::service::{Reply, Service};

const SCRIPT: &str = r#"{ "rules": [
  { "match": "fail", "steps": [ { "error": { "kind": "auth" } } ] },
  { "match": "loop", "steps": [
      { "tool_calls": [ { "name": "clock" } ] }, { "tool_calls": [ { "name": "clock" } ] },
      { "tool_calls": [ { "name": "clock" } ] } ] },
  { "match": "sum", "steps": [
      { "thinking": "easy", "text": "Let me see. ", "tool_calls": [ { "id": "c", "name": "calculator", "arguments": { "expression": "6*7" } } ] },
      { "text": "It is {{tool_result:c}}." } ] },
  { "match": "report", "steps": [ { "finish": { "summary": "all is well" } } ] } ],
  "default": [ { "text": "Turn {{turn}}, {{state:/name}}: {{last_user}}" } ] }"#;

fn folder() -> Folder {
    let text = config(
        r#"
[agents.a]
system_prompt = "You help {{state:/name}}."
model = "fast"
tools = ["calculator", "clock"]
max_steps = 2
initial_state = { name = "Ada" }
[agents.reporter]
model = "fast"
output_schema = { type = "object", required = ["summary"], properties = { summary = { type = "string" } } }
[tools.calculator]
kind = "builtin"
[tools.clock]
kind = "builtin"
"#,
    );
    Folder::with(&text, SCRIPT)
}

#[test]
fn a_turn_that_completes_ends_with_0() {
    let folder = folder();
    let did = folder
        .helix(&["run", "a", "hello", "--session", "s"])
        .ends(0);
    assert_eq!(did.out, "Turn 1, Ada: hello\n");
    assert_eq!(did.err, "session s\n");
    assert!(
        folder.path().join("helix.db").exists(),
        "beside the configuration"
    );
}

#[test]
fn text_and_actions_go_to_different_outputs() {
    let did = folder()
        .helix(&["run", "a", "the sum", "--session", "s"])
        .ends(0);
    assert_eq!(did.out, "Let me see. \nIt is 42.\n");
    assert_eq!(
        did.err,
        "→ calculator {\"expression\":\"6*7\"}\n← calculator 42\nsession s\n"
    );
}

#[test]
fn a_completed_session_is_continued() {
    let folder = folder();
    folder.helix(&["run", "a", "one", "--session", "s"]).ends(0);
    let did = folder.helix(&["run", "a", "two", "--session", "s"]).ends(0);
    assert_eq!(did.out, "Turn 2, Ada: two\n");
    let did = folder
        .helix(&["run", "reporter", "x", "--session", "s"])
        .ends(2);
    assert!(did.err.contains("belongs to agent a"), "{}", did.err);
}

#[test]
fn an_output_is_printed_as_json() {
    let did = folder().helix(&["run", "reporter", "report"]).ends(0);
    assert_eq!(
        serde_json::from_str::<Value>(&did.out).unwrap(),
        json!({ "summary": "all is well" })
    );
}

#[test]
fn a_turn_that_fails_ends_with_1() {
    let folder = folder();
    let did = folder
        .helix(&["run", "a", "fail", "--session", "s"])
        .ends(1);
    assert!(did.err.contains("failed (provider_auth)"), "{}", did.err);
    let did = folder
        .helix(&["run", "a", "loop", "--session", "t"])
        .ends(1);
    assert!(did.err.contains("failed (max_steps)"), "{}", did.err);
    // A new message continues after a failure; a resume does not.
    let did = folder.helix(&["resume", "s"]).ends(1);
    assert!(did.err.contains("its last turn failed"), "{}", did.err);
    folder
        .helix(&["run", "a", "again", "--session", "s"])
        .ends(0);
}

#[test]
fn json_is_one_chunk_per_line() {
    let did = folder()
        .helix(&["run", "a", "the sum", "--session", "s", "--json"])
        .ends(0);
    let chunks = did.lines();
    let types: Vec<_> = chunks
        .iter()
        .map(|chunk| chunk["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        (types[0], *types.last().unwrap()),
        ("run_started", "checkpoint_created")
    );
    for wanted in [
        "thinking",
        "text_delta",
        "tool_start",
        "tool_end",
        "step_committed",
    ] {
        assert!(types.contains(&wanted), "{wanted}: {types:?}");
    }
    let keys = [
        "agentId",
        "agentType",
        "sessionId",
        "runId",
        "step",
        "timestamp",
    ];
    for chunk in &chunks {
        assert!(keys.iter().all(|key| chunk.get(key).is_some()), "{chunk}");
        assert_eq!(chunk["sessionId"], "s");
    }
    let text: String = chunks
        .iter()
        .filter_map(|chunk| chunk["delta"].as_str())
        .collect();
    assert!(text.ends_with("It is 42."), "{text}");
}

#[test]
fn usage_errors_end_with_2() {
    let folder = folder();
    let table: [&[&str]; 9] = [
        &[],
        &["fly"],
        &["run"],
        &["run", "a"],
        &["run", "nobody", "hi"],
        &["run", "a", "hi", "--session", "no spaces"],
        &["run", "a", "hi", "--store", "redis://x"],
        &["run", "a", "hi", "--store", "sqlite:nowhere/x.db"],
        &["submit", "s", "c"],
    ];
    for arguments in table {
        let did = folder.helix(arguments).ends(2);
        assert!(
            !did.err.is_empty() && did.out.is_empty(),
            "{arguments:?}: {did:?}"
        );
    }
    let did = folder.helix(&["run", "nobody", "hi"]);
    assert_eq!(
        did.err,
        "helix: helix.toml: agent `nobody` not found; use one of: a, reporter\n"
    );
    folder.helix(&["--help"]).ends(0);
    folder.helix(&["--version"]).ends(0);
}

#[test]
fn paths_are_relative_to_the_configuration() {
    let folder = folder();
    let elsewhere = Folder::empty();
    let file = folder.path().join("helix.toml");
    let file = file.to_str().unwrap();
    elsewhere
        .helix(&["run", "a", "hi", "--config", file])
        .ends(0);
    assert!(folder.path().join("helix.db").exists());
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    // Paths on the command line are relative to the working directory.
    elsewhere
        .helix(&["run", "a", "hi", "--config", file, "--store", "sqlite:x.db"])
        .ends(0);
    assert!(elsewhere.path().join("x.db").exists());
}

#[test]
fn a_store_in_memory_leaves_nothing() {
    let folder = folder();
    folder
        .helix(&["run", "a", "hi", "--store", "memory:"])
        .ends(0);
    assert!(!folder.path().join("helix.db").exists());
}

#[test]
fn an_unknown_session_is_refused() {
    let folder = folder();
    folder.helix(&["run", "a", "hi", "--session", "s"]).ends(0);
    for command in ["resume", "interrupt", "abort"] {
        let did = folder.helix(&[command, "nobody"]).ends(1);
        assert!(did.err.contains("session nobody not found"), "{}", did.err);
    }
}

#[test]
fn stopping_a_session_without_a_running_run_is_reported() {
    let folder = folder();
    folder.helix(&["run", "a", "hi", "--session", "s"]).ends(0);
    let did = folder.helix(&["interrupt", "s", "--json"]).ends(1);
    assert_eq!(did.json(), json!({ "accepted": false }));
    let did = folder.helix(&["resume", "s"]).ends(1);
    assert!(did.err.contains("completed"), "{}", did.err);
}

#[test]
fn a_discarded_attempt_has_its_own_line() {
    let script = r#"{ "default": [ { "text": "Half and whole.", "chunk_chars": 4, "delay_ms": 100,
        "error": { "kind": "overloaded", "attempts": 1, "retry_after_ms": 100, "after_chars": 8 } } ] }"#;
    let folder = Folder::with(&config("[agents.a]\nmodel = \"fast\"\n"), script);
    let did = folder.helix(&["run", "a", "hi", "--session", "s"]).ends(0);
    // How much of it was shown depends on how fast it was discarded.
    let (thrown, kept) = did.out.split_at(did.out.len() - "Half and whole.\n".len());
    assert_eq!(kept, "Half and whole.\n");
    assert!(["", "Half\n", "Half and\n"].contains(&thrown), "{did:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_output_is_closed_continues_to_its_end() {
    let table = [
        (r#"{ "text": "It opened." }"#, "", 0),
        (r#"{ "text": "It opened." }"#, "--json", 0),
        (r#"{ "error": { "kind": "auth" } }"#, "", 1),
        (
            r#"{ "tool_calls": [ { "id": "c", "name": "pick" } ] }"#,
            "",
            4,
        ),
    ];
    for (second, flag, code) in table {
        let open = Arc::new(Notify::new());
        let service = Service::that(vec![Reply::Waits(Arc::clone(&open))]).await;
        let agent = format!(
            "[agents.a]\nmodel = \"fast\"\ntools = [\"door\", \"pick\"]\n\
             [tools.door]\nkind = \"http\"\nurl = \"http://{}/\"\n[tools.pick]\nkind = \"client\"\n",
            service.address
        );
        let first = r#"{ "text": "I knock.", "tool_calls": [ { "name": "door" } ] }"#;
        let script = format!(r#"{{ "default": [ {first}, {second} ] }}"#);
        let folder = Folder::with(&config(&agent), &script);
        let flags = Some(flag).filter(|flag| !flag.is_empty());
        let arguments: Vec<_> = ["run", "a", "hi"].into_iter().chain(flags).collect();
        let mut command = folder.command(&arguments);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 3]).unwrap();
        service.arrived().await;
        drop(out);
        open.notify_one();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(code),
            "{second} {flag}: {output:?}"
        );
        let list = folder.helix(&["sessions", "list", "--json"]).ends(0).json();
        let status = ["completed", "failed", "", "", "active"][usize::try_from(code).unwrap()];
        assert_eq!(list["items"][0]["status"], status, "{second} {flag}");
    }
}

#[test]
fn one_output_is_complete_when_the_other_is_closed() {
    let script = r#"{ "default": [
        { "text": "one ", "tool_calls": [ { "name": "clock" } ] },
        { "text": "two ", "tool_calls": [ { "name": "clock" } ] },
        { "text": "three" } ] }"#;
    let agent =
        "[agents.a]\nmodel = \"fast\"\ntools = [\"clock\"]\n[tools.clock]\nkind = \"builtin\"\n";
    let folder = Folder::with(&config(agent), script);
    let mut command = folder.command(&["run", "a", "go"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Standard error is closed.
    drop(child.stderr.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, "one \ntwo \nthree\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_be_shown_can_be_resumed() {
    let open = Arc::new(Notify::new());
    let service = Service::that(vec![Reply::Waits(Arc::clone(&open))]).await;
    let agent = format!(
        "[agents.a]\nmodel = \"fast\"\ntools = [\"door\"]\n[tools.door]\nkind = \"http\"\n\
         url = \"http://{}/\"\n",
        service.address
    );
    let script = r#"{ "default": [
        { "text": "I knock.", "tool_calls": [ { "name": "door" } ] },
        { "text": "It opened." } ] }"#;
    let folder = Folder::with(&config(&agent), script);
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = folder.command(&["run", "a", "go", "--session", "s"]);
    let child = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    service.arrived().await;
    open.notify_one();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("`helix resume s` continues it"), "{why}");
    // Its step was finished; the run may have continued beyond it.
    folder.helix(&["resume", "s"]);
    let shown = folder.helix(&["sessions", "show", "s", "--json"]).ends(0);
    let messages = shown.json()["messages"].as_array().unwrap().clone();
    let told = |at: usize| messages[at]["content"].as_str().unwrap().to_owned();
    assert_eq!((told(2), told(3)), (String::new(), "It opened.".to_owned()));
}
