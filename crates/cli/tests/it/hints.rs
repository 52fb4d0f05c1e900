//! Tests of hints that can be pasted, and of values that look like flags.

use std::process::Command;

use crate::kit::{Folder, config};

const SCRIPT: &str = r#"{ "default": [
    { "tool_calls": [ { "id": "c", "name": "pick" } ] },
    { "text": "Got {{tool_result:c}} for {{last_user}}" } ] }"#;
const AGENT: &str =
    "[agents.a]\nmodel = \"fast\"\ntools = [\"pick\"]\n[tools.pick]\nkind = \"client\"\n";

/// Runs a line in a shell, as a user who pastes it does.
fn pasted(folder: &Folder, line: &str) -> String {
    let line = line
        .trim()
        .replacen("helix", env!("CARGO_BIN_EXE_helix"), 1);
    let mut shell = Command::new("sh");
    let output = shell
        .arg("-c")
        .arg(&line)
        .current_dir(folder.path())
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_hint_names_the_same_configuration_and_store() {
    let folder = Folder::with(&config(AGENT), SCRIPT);
    std::fs::rename(
        folder.path().join("helix.toml"),
        folder.path().join("my own.toml"),
    )
    .unwrap();
    let place = ["--config", "my own.toml", "--store", "sqlite:here.db"];
    let run = [&["run", "a", "hi", "--session", "s"], &place[..]].concat();
    let did = folder.helix(&run).ends(4);
    let line = |start: &str| {
        let mut lines = did.err.lines();
        let found = lines.find_map(|line| line.trim().strip_prefix(start));
        found
            .unwrap_or_else(|| panic!("{start}: {}", did.err))
            .to_owned()
    };
    let submit = line("helix submit ").replace("--result JSON | --error TEXT", "--result 1");
    pasted(&folder, &format!("helix submit {submit}"));
    assert_eq!(pasted(&folder, &line("then: ")), "Got 1 for hi\n");
}

#[test]
fn values_may_look_like_flags() {
    let folder = Folder::with(&config(AGENT), SCRIPT);
    folder
        .helix(&["run", "a", "-5 or so", "--session", "s"])
        .ends(4);
    folder
        .helix(&["submit", "s", "c", "--result", "-3"])
        .ends(0);
    assert_eq!(
        folder.helix(&["resume", "s"]).ends(0).out,
        "Got -3 for -5 or so\n"
    );
    folder
        .helix(&["run", "a", "--json", "--session", "t", "-x"])
        .ends(4);
    folder
        .helix(&["submit", "t", "c", "--error", "- no"])
        .ends(0);
    let did = folder.helix(&["resume", "t"]).ends(0);
    assert!(did.out.contains("- no"), "{}", did.out);
    folder.helix(&["run", "a", "--unknown", "hi"]).ends(2);
    folder.helix(&["interrupt", "t", "--reason", "-1"]).ends(1);

    // Suspended, answered or not: it is ended here.
    for answered in [false, true] {
        let session = format!("u-{answered}");
        folder
            .helix(&["run", "a", "hi", "--session", &session])
            .ends(4);
        if answered {
            folder
                .helix(&["submit", &session, "c", "--result", "1"])
                .ends(0);
        }
        folder.helix(&["abort", &session]).ends(0);
        let did = folder
            .helix(&["sessions", "show", &session, "--json"])
            .ends(0);
        assert!(did.out.contains("framework_cancelled"), "{}", did.out);
        let did = folder.helix(&["abort", &session]).ends(1);
        assert!(did.err.contains("nothing to stop"), "{}", did.err);
    }
}

#[test]
fn the_error_of_worker_names_the_command_to_use() {
    let folder = Folder::with(&config(AGENT), SCRIPT);
    let did = folder.helix(&["worker", "--config", "helix.toml"]).ends(2);
    assert!(
        did.err
            .contains("not supported yet; `helix serve --config helix.toml` hosts the agents"),
        "{}",
        did.err
    );
}
