//! Tests of the demo agents.

use serde_json::{Value, json};

use crate::kit::Folder;

#[test]
fn support_refunds_with_an_approval() {
    let folder = Folder::empty();
    folder
        .helix(&["run", "support", "I want a refund", "--session", "s"])
        .ends(4);
    assert!(folder.path().join(".helix/helix.db").exists());
    folder
        .helix(&["submit", "s", "refund", "--approve"])
        .ends(0);
    let did = folder.helix(&["resume", "s"]).ends(0);
    assert_eq!(
        did.out,
        "The result of the refund: {\"refundedCents\":1999}\n"
    );
    let shown = folder.helix(&["sessions", "show", "s", "--json"]).json();
    assert_eq!(shown["state"], json!({ "refundedCents": 1999 }));
}

#[test]
fn form_waits_for_the_user() {
    let folder = Folder::empty();
    folder
        .helix(&["run", "form", "hi", "--session", "s"])
        .ends(4);
    folder
        .helix(&["submit", "s", "form", "--result", "{\"name\":\"Ada\"}"])
        .ends(0);
    let did = folder.helix(&["resume", "s"]).ends(0);
    assert_eq!(did.out, "Thank you. I noted: {\"name\":\"Ada\"}\n");
}

#[test]
fn researcher_gives_an_output() {
    let did = Folder::empty()
        .helix(&["run", "researcher", "What is it?"])
        .ends(0);
    let output = did.out.lines().last().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(output).unwrap(),
        json!({ "summary": "The answer is 42.", "sources": ["calculator", "notes", "checker", "writer"] })
    );
}

#[test]
fn the_error_for_an_unknown_agent_lists_the_known_ones() {
    let did = Folder::empty().helix(&["run", "nobody", "hi"]).ends(2);
    assert_eq!(
        did.err,
        "helix: agent `nobody` not found; use one of: support, form, researcher, scenarios\n"
    );
}
