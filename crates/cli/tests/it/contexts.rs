//! Tests of conversations near the context limit.

use serde_json::json;

use crate::kit::{Folder, config};

/// Each turn of the agent has more tokens than its limit; another script writes summaries.
const SCRIPT: &str = r#"{ "rules": [
  { "match": "User:", "steps": [ { "text": "A summary of {{last_user}}", "usage": { "input": 30, "output": 5 } } ] } ],
  "default": [ { "text": "Turn {{turn}}.", "usage": { "input": 900, "output": 10 } } ] }"#;

fn folder(context: &str) -> Folder {
    let text = config(&format!(
        "[agents.a]\nmodel = \"fast\"\n[agents.a.context]\n{context}\n"
    ));
    Folder::with(&text, SCRIPT)
}

#[test]
fn earlier_turns_are_summarized_and_the_summary_is_shown() {
    let folder =
        folder("near_limit = \"summarize\"\nmodel = \"fast\"\nat_tokens = 800\nkeep_turns = 1");
    for text in ["one", "two"] {
        folder.helix(&["run", "a", text, "--session", "s"]).ends(0);
    }
    let shown = folder.helix(&["sessions", "show", "s"]).ends(0).out;
    let summary = "summary, for the messages before number 3: The earlier part of this conversation is left \
                   out. This is its summary:\n\nA summary of User: one";
    assert!(shown.contains(summary), "{shown}");
    let shown = folder
        .helix(&["sessions", "show", "s", "--json"])
        .ends(0)
        .json();
    let messages = shown["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 5, "the history is whole: {messages:?}");
    let stands = json!({ "from": 2, "summary": true });
    assert_eq!(messages[3]["metadata"]["helixContext"], stands);
    assert_eq!(messages[4]["content"], "Turn 2.");
}

/// proves in part: LLM-04
#[test]
fn a_conversation_that_is_too_long_fails_with_its_code() {
    let folder = folder("near_limit = \"fail\"\nat_tokens = 10");
    let long = "word ".repeat(100);
    let ended = folder.helix(&["run", "a", &long, "--session", "s", "--json"]);
    assert!(
        ended.out.contains("provider_context_length"),
        "{}",
        ended.out
    );
}
