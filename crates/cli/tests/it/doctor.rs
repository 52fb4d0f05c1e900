//! Tests of `helix doctor`, `migrate` and `completions`.

use crate::kit::{Folder, config};
use crate::service::{Reply, Service};

const SCRIPT: &str = r#"{ "default": [ { "tool_calls": [ { "id": "c", "name": "pick" } ] } ] }"#;
const AGENT: &str = "[agents.a]\nmodel = \"fast\"\ntools = [\"pick\"]\n";
const PICK: &str = "[tools.pick]\ndescription = \"Pick\"\nkind = \"client\"\n";

#[test]
fn a_healthy_folder_has_no_findings() {
    let folder = Folder::with(&config(&format!("{AGENT}{PICK}")), SCRIPT);
    folder.helix(&["run", "a", "hi", "--session", "s"]).ends(4);
    let report = folder.helix(&["doctor", "--json"]).ends(0).json();
    assert_eq!(report["findings"], 0, "{report}");
    assert!(
        folder
            .helix(&["doctor"])
            .ends(0)
            .out
            .ends_with("0 findings\n")
    );
}

/// The output comes from a `finish` step, or from a tool that the script calls.
#[test]
fn doctor_finds_a_script_that_never_gives_an_output() {
    let agent = "[agents.a]\nmodel = \"fast\"\ntools = [\"sum\"]\noutput_schema = { type = \"object\" }\n\
        [tools.sum]\nkind = \"builtin\"\nbuiltin = \"calculator\"\n";
    let text = r#"{ "default": [ { "text": "done" } ] }"#;
    let finish = r#"{ "rules": [ { "match": "x", "steps": [ { "finish": { "a": 1 } } ] } ] }"#;
    let call = r#"{ "default": [ { "tool_calls": [ { "name": "sum" } ] } ] }"#;
    let finishing = format!("{agent}finish_with = true\n");
    let without = agent.replace("output_schema", "initial_state");
    let cases = [
        (agent, text, 1),
        (agent, finish, 0),
        (agent, call, 1),
        (&finishing, call, 0),
        (&finishing, text, 1),
        (&without, text, 0),
    ];
    for (agent, script, findings) in cases {
        let folder = Folder::with(&config(agent), script);
        let did = folder.helix(&["doctor"]).ends(findings);
        let says = "!! agent: a has an `output_schema`, and no step of its script gives an output; \
                    end a rule with a step like { \"finish\": { ... } }";
        assert_eq!(
            did.out.contains(says),
            findings == 1,
            "{script}: {}",
            did.out
        );
    }
}

#[test]
fn doctor_finds_missing_dependencies() {
    let folder = Folder::with(&config(&format!("{AGENT}{PICK}")), SCRIPT);
    folder.helix(&["run", "a", "hi", "--session", "s"]).ends(4);
    // Answered, and not resumed.
    folder.helix(&["run", "a", "hi", "--session", "t"]).ends(4);
    folder.helix(&["submit", "t", "c", "--error", "x"]).ends(0);

    folder.write(
        "helix.toml",
        &config(
            "[agents.a]\nmodel = \"fast\"\ntools = [\"far\"]\n\
             [tools.far]\ndescription = \"x\"\nkind = \"http\"\nurl = \"http://127.0.0.1:9/\"\n\
             [[server.tokens]]\nenv = \"HELIX_TEST_NOT_SET\"\nuser = \"ada\"\n",
        ),
    );
    let did = folder.helix(&["doctor"]).ends(1);
    for text in [
        "!! environment: HELIX_TEST_NOT_SET is not set",
        "!! tool: far cannot be reached at 127.0.0.1:9",
        "!! pending: call c of session s is pending, but its agent no longer has the tool pick",
        "!! due: session t: all its calls are answered; `helix resume t` continues it",
        "4 findings",
    ] {
        assert!(did.out.contains(text), "{text}\n{}", did.out);
    }

    folder.write("helix.toml", &config("[agents.b]\nmodel = \"fast\"\n"));
    let did = folder.helix(&["doctor"]).ends(1);
    let text = "2 sessions (2 unfinished) belong to the agent a, which is not configured";
    assert!(did.out.contains(text), "{}", did.out);
    let did = folder.helix(&["resume", "t"]).ends(2);
    assert!(
        did.err
            .contains("belongs to the agent `a`, which is not configured here"),
        "{}",
        did.err
    );
}

#[tokio::test]
async fn a_reachable_service_is_not_a_finding() {
    let service = Service::that(vec![Reply::Hangs]).await;
    let folder = Folder::with(
        &config(&format!(
            "[agents.a]\nmodel = \"fast\"\ntools = [\"near\"]\n[tools.near]\ndescription = \"x\"\nkind = \"http\"\nurl = \"http://{}/\"\n",
            service.address
        )),
        SCRIPT,
    );
    folder.helix(&["doctor"]).ends(0);
}

#[test]
fn a_store_is_set_up_and_a_foreign_file_is_left_alone() {
    let folder = Folder::with(&config(&format!("{AGENT}{PICK}")), SCRIPT);
    let did = folder.helix(&["migrate"]).ends(0);
    assert_eq!(did.out, "the store sqlite:helix.db is up to date\n");
    folder.helix(&["migrate", "--json"]).ends(0);

    folder.write("helix.db", "this is no database, and longer than a header of one would be........................................................");
    for command in ["migrate", "pending"] {
        let did = folder.helix(&[command]).ends(2);
        assert!(did.err.contains("is not a database"), "{}", did.err);
    }
    assert_eq!(
        folder
            .helix(&["doctor"])
            .ends(1)
            .out
            .matches("!! store")
            .count(),
        1
    );
}

#[test]
fn shells_get_their_completions() {
    let folder = Folder::empty();
    for shell in ["bash", "zsh", "fish"] {
        let did = folder.helix(&["completions", shell]).ends(0);
        assert!(did.out.contains("submit"), "{shell}");
    }
    folder.helix(&["completions", "tcsh"]).ends(2);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
