//! Tests of what a user at a terminal sees before a decision, and of answers that came too late.

use crate::kit::{Folder, config};
use crate::programs;
use crate::terminal::Terminal;

/// A text that reads as something else, hides something, or controls a terminal.
pub(crate) const TRICKS: &str =
    "\u{202e}001\u{202c} a\u{200b}b\u{feff}c\u{ad}d\u{e0041}e\u{2066}f\u{9b}g\u{fe0f}h";
/// The same text as it is shown.
pub(crate) const SHOWN: &str =
    r"\u{202e}001\u{202c} a\u{200b}b\u{feff}c\u{ad}d\u{e0041}e\u{2066}f\u{9b}g\u{fe0f}h";

/// An agent that asks for an approval, and then for a result.
pub(crate) fn folder(to: &str) -> Folder {
    let script = serde_json::json!({ "default": [
        { "text": "I ask. ", "tool_calls": [
            { "id": "pay", "name": "refund", "arguments": { "to": to, "title": "Say hello" } } ] },
        { "text": "Result: {{tool_result:pay}}" } ] });
    let agent = r#"
[agents.support]
model = "fast"
tools = ["refund"]
[tools.refund]
description = "Pays money back"
kind = "http"
url = "http://127.0.0.1:9/"
require_approval = true
"#;
    Folder::with(&config(agent), &script.to_string())
}

#[test]
fn hidden_characters_are_shown_where_a_person_decides() {
    let Some(tmux) = programs::find("tmux") else {
        return;
    };
    let folder = folder(TRICKS);
    let mut terminal = Terminal::run(&tmux, &folder, 200, "helix run support pay --session s");
    let came = terminal.until("enter = later: ");
    assert!(
        came.contains("\x1b[0;7;33m\\u{202e}\x1b[0m\x1b[33m001"),
        "not marked: {came:?}"
    );
    terminal.types("n no\u{202e}pe");
    assert_eq!(terminal.code(), 0);
    let screen = terminal.screen();
    // Titles come from the configuration.
    assert!(screen.contains("refund: Pays money back"), "{screen}");
    let question = screen.lines().find(|line| line.starts_with("Run refund"));
    assert!(
        question.is_some_and(|line| line.contains(SHOWN)),
        "{screen}"
    );
    assert!(screen.contains("! denied: no\\u{202e}pe"), "{screen}");

    // Lists escape the same characters.
    folder
        .helix(&["run", "support", "pay", "--session", "t"])
        .ends(4);
    let mut terminal = Terminal::run(&tmux, &folder, 200, "helix pending");
    assert_eq!(terminal.code(), 0);
    let screen = terminal.screen();
    assert!(screen.contains(SHOWN), "{screen}");
}

#[test]
fn a_late_answer_at_the_terminal_shows_the_earlier_decision() {
    let Some(tmux) = programs::find("tmux") else {
        return;
    };
    let folder = folder("ada");
    let mut terminal = Terminal::run(&tmux, &folder, 120, "helix run support pay --session s");
    terminal.until("enter = later: ");
    let deny = ["submit", "s", "pay", "--deny", "too much", "--user", "bob"];
    folder.helix(&deny).ends(0);
    terminal.types("y");
    terminal.until("too late: refund was denied by bob: too much; your answer changes nothing");
    terminal.until("! denied by bob: too much");
    terminal.until("was not approved. Reason: too much");
    assert_eq!(terminal.code(), 0);
}

#[test]
fn a_late_submitted_answer_shows_the_earlier_decision() {
    let folder = folder("ada");
    folder
        .helix(&["run", "support", "pay", "--session", "s"])
        .ends(4);
    let deny = ["submit", "s", "pay", "--deny", "too much", "--user", "bob"];
    let did = folder.helix(&deny).ends(0);
    assert_eq!(did.out, "accepted\n");
    let told = "already_completed: it was denied by bob: too much; this answer changes nothing\n";
    // Before a run has consumed the answer, and after that.
    for _ in 0..2 {
        let did = folder.helix(&["submit", "s", "pay", "--approve"]).ends(0);
        assert_eq!(did.out, told);
        folder.helix(&["resume", "s"]);
    }
}

#[test]
fn a_session_that_was_continued_elsewhere_is_not_resumed_here() {
    let Some(tmux) = programs::find("tmux") else {
        return;
    };
    let folder = folder("ada");
    let mut terminal = Terminal::run(&tmux, &folder, 120, "helix run support pay --session s");
    terminal.until("enter = later: ");
    let deny = ["submit", "s", "pay", "--deny", "too much", "--user", "bob"];
    folder.helix(&deny).ends(0);
    folder.helix(&["resume", "s"]).ends(0);
    terminal.types("y");
    terminal.until("too late: refund was denied by bob: too much; your answer changes nothing");
    terminal.until("`helix sessions show s` shows it");
    assert_eq!(terminal.code(), 0);
}
