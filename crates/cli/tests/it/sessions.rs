//! Tests of listing, showing, exporting, importing and branching sessions.

use serde_json::{Value, json};

use crate::kit::{Folder, config};

const SCRIPT: &str = r#"{ "rules": [
  { "match": "ask", "steps": [
      { "tool_calls": [ { "id": "note", "name": "notes", "arguments": { "action": "add", "text": "asked" } }, { "id": "pick", "name": "pick", "arguments": {} } ] },
      { "text": "Got {{tool_result:pick}}." } ] } ],
  "default": [ { "thinking": "hm", "tool_calls": [ { "id": "n", "name": "notes", "arguments": { "action": "add", "text": "{{last_user}}" } } ] },
               { "text": "Noted.", "usage": { "input": 12, "output": 3 } } ] }"#;

fn folder() -> Folder {
    let text = config(
        r#"
[agents.a]
model = "fast"
tools = ["notes", "pick"]
initial_state = { notes = [] }
[tools.notes]
kind = "builtin"
[tools.pick]
description = "Pick"
kind = "client"
"#,
    );
    Folder::with(&text, SCRIPT)
}

fn show(folder: &Folder, session: &str, more: &[&str]) -> Value {
    let all = [&["sessions", "show", session, "--json"], more].concat();
    folder.helix(&all).ends(0).json()
}

#[test]
fn sessions_are_listed_and_shown() {
    let folder = folder();
    assert_eq!(
        folder.helix(&["sessions", "list", "--json"]).json()["total"],
        0
    );
    folder
        .helix(&["run", "a", "one", "--session", "s1"])
        .ends(0);
    folder
        .helix(&["run", "a", "ask", "--session", "s2", "--user", "ada"])
        .ends(4);
    let list = folder.helix(&["sessions", "list", "--json"]).ends(0).json();
    assert_eq!(
        (&list["total"], &list["hasMore"]),
        (&json!(2), &json!(false))
    );
    let list = folder
        .helix(&["sessions", "list", "--status", "active", "--json"])
        .json();
    assert_eq!(list["items"][0]["sessionId"], "s2");
    let list = folder
        .helix(&["sessions", "list", "--user", "ada", "--json"])
        .json();
    assert_eq!(list["total"], 1);
    let plain = folder.helix(&["sessions", "list"]).ends(0).out;
    assert!(
        plain.starts_with("SESSION  AGENT  STATUS     STEPS  CHANGED"),
        "{plain}"
    );

    let shown = show(&folder, "s1", &[]);
    assert_eq!(shown["state"], json!({ "notes": ["one"] }));
    assert_eq!(
        shown["messages"],
        json!([
            { "role": "user", "content": "one" },
            { "role": "assistant", "thinking": { "content": "hm" },
              "toolCalls": [{ "id": "n", "name": "notes", "arguments": { "action": "add", "text": "one" } }] },
            { "role": "tool", "content": "{\"notes\":[\"one\"]}", "toolCallId": "n", "toolName": "notes" },
            { "role": "assistant", "content": "Noted." },
        ])
    );
    assert!(
        folder
            .helix(&["sessions", "show", "s1"])
            .ends(0)
            .out
            .contains("assistant: Noted.")
    );
    folder.helix(&["sessions", "show", "nobody"]).ends(1);

    // The open step comes last, and is marked.
    let asked = json!({ "action": "add", "text": "asked" });
    let calls = json!([
        { "id": "note", "name": "notes", "arguments": asked },
        { "id": "pick", "name": "pick", "arguments": {} },
    ]);
    assert_eq!(
        show(&folder, "s2", &[])["messages"],
        json!([
            { "role": "user", "content": "ask" },
            { "role": "assistant", "toolCalls": calls, "open": true },
            { "role": "tool", "content": "{\"notes\":[\"asked\"]}", "toolCallId": "note",
              "toolName": "notes", "open": true },
        ])
    );
    let plain = folder.helix(&["sessions", "show", "s2"]).ends(0).out;
    for line in [
        "assistant (open): ",
        "  \u{2192} pick pick {}",
        "  \u{2190} note {\"notes\":[\"asked\"]}",
        "pending: pick pick {}",
    ] {
        assert!(plain.lines().any(|have| have == line), "{line}: {plain}");
    }
}

#[test]
fn a_session_is_deleted() {
    let folder = folder();
    folder.helix(&["run", "a", "one", "--session", "s"]).ends(0);
    let did = folder.helix(&["sessions", "delete", "s", "--json"]).ends(0);
    assert_eq!(did.json(), json!({ "deleted": true, "sessionId": "s" }));
    folder.helix(&["sessions", "delete", "s"]).ends(1);
    assert_eq!(
        folder.helix(&["sessions", "list", "--json"]).json()["total"],
        0
    );
}

#[test]
fn a_session_continues_in_another_store() {
    let folder = folder();
    folder.helix(&["run", "a", "one", "--session", "s"]).ends(0);
    folder.helix(&["run", "a", "ask", "--session", "s"]).ends(4);
    let text = folder.helix(&["sessions", "export", "s"]).ends(0).out;
    folder
        .helix(&["sessions", "export", "s", "--out", "s.json"])
        .ends(0);
    assert_eq!(
        std::fs::read_to_string(folder.path().join("s.json")).unwrap(),
        text
    );

    let there = ["--store", "sqlite:other.db"];
    let import = |code| {
        let did = folder.helix(&["sessions", "import", "s.json", "--json", there[0], there[1]]);
        did.ends(code)
    };
    assert_eq!(import(0).json(), json!({ "sessionId": "s" }));
    assert!(import(1).err.contains("session s already exists"));

    let (mut here, mut moved) = (show(&folder, "s", &[]), show(&folder, "s", &there));
    for shown in [&mut here, &mut moved] {
        for key in ["createdAt", "updatedAt", "checkpointId", "checkpoints"] {
            shown.as_object_mut().unwrap().remove(key);
        }
        // A version of the state, of which the other store has its own.
        shown["openStep"]
            .as_object_mut()
            .unwrap()
            .remove("stateBefore");
    }
    assert_eq!(here, moved);
    let again = folder
        .helix(&["sessions", "export", "s", there[0], there[1]])
        .ends(0)
        .json();
    let mut first: Value = serde_json::from_str(&text).unwrap();
    first["openStep"]
        .as_object_mut()
        .unwrap()
        .remove("stateBefore");
    for key in ["messages", "usage", "openStep", "retiredCallIds"] {
        assert_eq!(first[key], again[key], "{key}");
    }

    // The pending call was exported too, and so were the answered calls.
    folder
        .helix(&[
            "submit", "s", "pick", "--result", "\"red\"", there[0], there[1],
        ])
        .ends(0);
    let did = folder.helix(&["resume", "s", there[0], there[1]]).ends(0);
    assert_eq!(did.out, "Got red.\n");
    let did = folder
        .helix(&["run", "a", "three", "--session", "s", there[0], there[1]])
        .ends(0);
    assert_eq!(did.out, "Noted.\n");
    assert_eq!(
        show(&folder, "s", &there)["state"],
        json!({ "notes": ["one", "asked", "three"] })
    );
    folder.helix(&["resume", "s"]).ends(4);
}

#[test]
fn an_invalid_export_is_refused() {
    let folder = folder();
    folder.write("x.json", "{\n\"format\": 7\n}");
    let did = folder.helix(&["sessions", "import", "x.json"]).ends(2);
    assert!(
        did.err.contains("x.json:2: is not an exported session"),
        "{}",
        did.err
    );
    folder
        .helix(&["sessions", "import", "missing.json"])
        .ends(2);
}

#[test]
fn a_branch_begins_at_a_checkpoint_or_a_message() {
    let folder = folder();
    folder.helix(&["run", "a", "one", "--session", "s"]).ends(0);
    folder.helix(&["run", "a", "two", "--session", "s"]).ends(0);
    let shown = show(&folder, "s", &[]);
    let first = shown["checkpoints"].as_array().unwrap().last().unwrap();
    let checkpoint = first["id"].as_str().unwrap();
    let branch = |more: &[&str]| folder.helix(&[&["sessions", "branch", "s"], more].concat());
    let did = branch(&["--checkpoint", checkpoint, "--as", "b", "--json"]).ends(0);
    assert_eq!(did.json(), json!({ "sessionId": "b" }));
    let made = show(&folder, "b", &[]);
    assert_eq!(
        json!(made["messages"].as_array().unwrap().len()),
        first["messageCount"]
    );
    assert_eq!(made["state"], json!({ "notes": ["one"] }));

    let id = branch(&["--message", "0"]).ends(0).out;
    assert_eq!(
        show(&folder, id.trim(), &[])["messages"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    branch(&["--checkpoint", checkpoint, "--as", "b"]).ends(1);
    branch(&["--checkpoint", "nope"]).ends(1);
    branch(&[]).ends(2);
    let did = folder
        .helix(&["run", "a", "other", "--session", "b"])
        .ends(0);
    assert_eq!(did.out, "Noted.\n");
}
