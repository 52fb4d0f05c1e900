//! Tests of `helix run` in a terminal: streaming, questions, answers and exit codes.

use std::process::Command;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::kit::{Folder, config};
use crate::programs;
use crate::service::{Reply, Service};
use crate::terminal::Terminal;

/// Returns a text without its colours.
fn plain(text: &str) -> String {
    let mut pieces = text.split('\x1b');
    let first = pieces.next().unwrap().to_owned();
    pieces.fold(first, |all, piece| all + piece.split_once('m').unwrap().1)
}

#[test]
fn an_approval_is_asked_for_and_given() {
    let Some(tmux) = programs::find("tmux") else {
        return;
    };
    let folder = Folder::empty();
    let line = "helix run support 'I want a refund' --session s";
    let mut terminal = Terminal::run(&tmux, &folder, 100, line);
    let came = terminal.until("Run refund");
    let text = plain(&came);
    let place = |wanted: &str| {
        text.find(wanted)
            .unwrap_or_else(|| panic!("{wanted}: {text}"))
    };
    let told = [
        "The order comes first.",
        "Let me look at the order.",
        "→ lookup_order",
        "← lookup_order",
    ];
    assert!(told.map(place).is_sorted(), "{came}");
    assert!(
        came.contains("\x1b[36m→ lookup_order"),
        "no colour: {came:?}"
    );
    terminal.until("enter = later: ");
    // Input that is neither yes nor no is asked for again.
    terminal.types("perhaps");
    terminal.until("please answer");
    terminal.until("enter = later: ");
    terminal.types("y");
    terminal.until("The result of the refund: {\"refundedCents\":1999}");
    assert_eq!(terminal.code(), 0);
}

#[test]
fn what_was_typed_before_a_question_does_not_answer_it() {
    let Some(tmux) = programs::find("tmux") else {
        return;
    };
    let script = r#"{ "default": [
        { "tool_calls": [ { "id": "a", "name": "first" }, { "id": "b", "name": "second" } ] },
        { "text": "{{tool_result:a}} and {{tool_result:b}}." } ] }"#;
    let agent = "[agents.a]\nmodel = \"fast\"\ntools = [\"first\", \"second\"]\n\
                 [tools.first]\nkind = \"client\"\n[tools.second]\nkind = \"client\"\n";
    let folder = Folder::with(&config(agent), script);
    let mut terminal = Terminal::run(&tmux, &folder, 100, "helix run a go");
    terminal.until("enter = later: ");
    // Three lines at once: the lines after the first were typed before the next question.
    terminal.pastes("one\n{\n\"x\": 1\n");
    terminal.until("What is the result of second");
    terminal.until("enter = later: ");
    terminal.types("{");
    terminal.until("this is not JSON");
    terminal.until("enter = later: ");
    terminal.types("two");
    terminal.until("one and two.");
    assert_eq!(terminal.code(), 0);
}

#[test]
fn an_unanswered_call_stays_pending_and_a_denial_is_shown() {
    let Some(tmux) = programs::find("tmux") else {
        return;
    };
    let folder = Folder::empty();
    let mut terminal = Terminal::run(&tmux, &folder, 100, "helix run support refund --session s");
    terminal.until("enter = later: ");
    terminal.types("");
    terminal.until("helix submit s refund --approve | --deny REASON");
    assert_eq!(terminal.code(), 4);

    // Resuming later asks again.
    let mut terminal = Terminal::run(&tmux, &folder, 100, "helix resume s");
    terminal.until("enter = later: ");
    terminal.types("n not today");
    terminal.until("not today");
    assert_eq!(terminal.code(), 0);
}

#[test]
fn failures_and_usage_errors_have_their_exit_codes() {
    let Some(tmux) = programs::find("tmux") else {
        return;
    };
    let agent = "[agents.a]\nmodel = \"fast\"\n";
    let script = r#"{ "default": [ { "error": { "kind": "auth", "attempts": 9 } } ] }"#;
    let folder = Folder::with(&config(agent), script);
    let mut terminal = Terminal::run(&tmux, &folder, 80, "helix run a hello");
    terminal.until("failed (");
    assert_eq!(terminal.code(), 1);
    let mut terminal = Terminal::run(&tmux, &folder, 80, "helix run b hello");
    terminal.until("agent `b` not found; use one of: a");
    assert_eq!(terminal.code(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_shown_before_the_turn_ends() {
    let Some(tmux) = programs::find("tmux") else {
        return;
    };
    let open = Arc::new(Notify::new());
    let service = Service::that(vec![Reply::Waits(Arc::clone(&open))]).await;
    let agent = format!(
        "[agents.a]\nmodel = \"fast\"\ntools = [\"door\"]\n[tools.door]\nkind = \"http\"\nurl = \"http://{}/\"\n",
        service.address
    );
    let script = r#"{ "default": [ { "text": "I knock.", "tool_calls": [ { "name": "door" } ] }, { "text": "It opened." } ] }"#;
    let folder = Folder::with(&config(&agent), script);
    let mut terminal = Terminal::run(&tmux, &folder, 80, "helix run a hello");
    terminal.until("I knock.");
    service.arrived().await;
    // The gate is still closed, so no more text can have come.
    open.notify_one();
    terminal.until("It opened.");
    assert_eq!(terminal.code(), 0);
}

#[test]
fn a_question_can_be_left_with_ctrl_c() {
    let Some(tmux) = programs::find("tmux") else {
        return;
    };
    let tools = "[agents.a]\nmodel = \"fast\"\ntools = [\"one\", \"two\"]\n[tools.one]\nkind = \"client\"\n[tools.two]\nkind = \"client\"\n";
    let script = r#"{ "default": [ { "tool_calls": [ { "id": "c1", "name": "one" }, { "id": "c2", "name": "two" } ] } ] }"#;
    let folder = Folder::with(&config(tools), script);
    for end in ["C-c", "kill"] {
        let line =
            format!("trap : INT; sh -c 'echo $$ > pid; exec helix run a hi --session {end}'");
        let mut terminal = Terminal::run(&tmux, &folder, 100, &line);
        terminal.until("enter = later: ");
        match end {
            "kill" => {
                let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
                let sent = Command::new("kill").args(["-TERM", pid.trim()]).status();
                assert!(sent.unwrap().success());
            }
            key => terminal.presses(key),
        }
        // It also leaves the second question, and prints the pending calls.
        let came = terminal.until("then: helix resume");
        assert!(!came.contains("What is the result of"), "{came}");
        for call in ["c1", "c2"] {
            let hint = format!("helix submit {end} {call} --result JSON");
            assert!(came.contains(&hint), "{came}");
        }
        assert_eq!(terminal.code(), 4);
    }
    let pending = folder.helix(&["pending", "--json"]).ends(0).json();
    assert_eq!(pending["total"], 4, "{pending}");
}

#[test]
fn all_kinds_of_line_breaks_are_shown_and_text_is_not_reordered() {
    let Some(tmux) = programs::find("tmux") else {
        return;
    };
    let script =
        "{ \"default\": [ { \"text\": \"one\\r\\ntwo \u{202e}eno\", \"chunk_chars\": 4 } ] }";
    let folder = Folder::with(&config("[agents.a]\nmodel = \"fast\"\n"), script);
    let mut terminal = Terminal::run(&tmux, &folder, 80, "helix run a hi --session s");
    assert_eq!(terminal.code(), 0);
    let screen = terminal.screen();
    let lines: Vec<_> = screen.lines().map(str::trim_end).collect();
    assert!(
        lines.contains(&"one") && lines.contains(&"two \u{fffd}eno"),
        "{screen}"
    );
}

#[test]
fn ids_can_be_copied_from_a_narrow_list() {
    let Some(tmux) = programs::find("tmux") else {
        return;
    };
    let folder = Folder::empty();
    let id = "session-0123456789-0123456789-0123456789";
    folder
        .helix(&["run", "support", "Where is my order?", "--session", id])
        .ends(0);
    for line in ["helix sessions list", "COLUMNS=0 helix sessions list"] {
        let mut terminal = Terminal::run(&tmux, &folder, 80, line);
        assert_eq!(terminal.code(), 0);
        let screen = terminal.screen();
        let row = screen.lines().find(|line| line.starts_with(id)).unwrap();
        assert!(row.contains("support") && row.contains(" ago"), "{screen}");
    }
}

#[test]
fn narrow_and_plain_terminals_are_respected() {
    let Some(tmux) = programs::find("tmux") else {
        return;
    };
    let folder = Folder::empty();
    let line = "NO_COLOR=1 helix run support 'Where is my order?' --session s";
    let mut terminal = Terminal::run(&tmux, &folder, 30, line);
    let came = terminal.until("delivered\"}");
    assert!(!came.contains("\x1b[3"), "{came:?}");
    assert_eq!(terminal.code(), 0);
    let screen = terminal.screen();
    // A line about a tool is cut to the width, so the next line is another one.
    let lines: Vec<_> = screen.lines().collect();
    let call = lines
        .iter()
        .position(|line| line.starts_with("→ lookup_order"))
        .unwrap();
    assert!(lines[call + 1].starts_with("← lookup_order"), "{screen}");

    let mut terminal = Terminal::run(&tmux, &folder, 30, "helix sessions list");
    assert_eq!(terminal.code(), 0);
    let screen = terminal.screen();
    assert!(screen.contains("support"), "{screen}");
}
