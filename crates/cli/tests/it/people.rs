//! Tests of approvals, client results, and who may answer what.

use helix_agents_core::store::{Change, Commit, SessionStore};
use helix_agents_core::{CallId, SessionId};
use helix_agents_store_sqlite::SqliteStore;
use serde_json::json;

use crate::kit::{CommandOutput, Folder, config};
use crate::service::{Reply, Service};

const SCRIPT: &str = r#"{ "rules": [
  { "match": "color", "steps": [
      { "text": "Which one? ", "tool_calls": [ { "id": "pick", "name": "pick_color", "arguments": { "of": ["red", "blue"] } } ] },
      { "text": "You chose {{tool_result:pick}}." } ] },
  { "match": "both", "steps": [
      { "tool_calls": [ { "id": "pick", "name": "pick_color" }, { "id": "pay", "name": "refund", "arguments": { "cents": 5 } } ] },
      { "text": "{{tool_result:pick}} and {{tool_result:pay}}" } ] } ],
  "default": [
      { "tool_calls": [ { "id": "pay", "name": "refund", "arguments": { "cents": 5 } } ] },
      { "text": "Result: {{tool_result:pay}}" } ] }"#;

fn folder_with(url: &str) -> Folder {
    let text = config(&format!(
        r#"
[agents.support]
model = "fast"
tools = ["refund", "pick_color"]
[tools.refund]
description = "Refund"
kind = "http"
url = "{url}"
require_approval = true
deadline_ms = 600000
[tools.pick_color]
description = "Pick"
kind = "client"
"#
    ));
    Folder::with(&text, SCRIPT)
}

fn folder() -> Folder {
    folder_with("http://127.0.0.1:9/")
}

fn paused(folder: &Folder, message: &str) -> CommandOutput {
    folder
        .helix(&["run", "support", message, "--session", "s", "--user", "ada"])
        .ends(4)
}

#[tokio::test]
async fn an_approved_call_runs_once_in_another_process() {
    let service = Service::that(vec![Reply::Says(200, "", "\"paid\"".into())]).await;
    let folder = folder_with(&format!("http://{}/", service.address));
    // The binary is awaited in another thread, so that the service can respond.
    let (folder, resumed) = tokio::task::spawn_blocking(|| {
        let did = paused(&folder, "pay");
        assert!(
            did.err
                .contains("helix submit s pay --approve | --deny REASON"),
            "{}",
            did.err
        );
        let did = folder
            .helix(&["run", "support", "more", "--session", "s"])
            .ends(4);
        assert!(
            did.err.contains("waits for answers to refund (pay)"),
            "{}",
            did.err
        );
        folder.helix(&["resume", "s"]).ends(4);
        let did = folder
            .helix(&["submit", "s", "pay", "--approve", "--json"])
            .ends(0);
        assert_eq!(
            did.json(),
            json!({ "status": "accepted", "continuation": "caller_resumes" })
        );
        let resumed = folder.helix(&["resume", "s"]).ends(0);
        (folder, resumed)
    })
    .await
    .unwrap();
    assert_eq!(resumed.out, "Result: paid\n");
    assert_eq!(service.asked().len(), 1);
    assert_eq!(service.asked()[0].json()["toolCallId"], "pay");
    let did = folder
        .helix(&["submit", "s", "pay", "--approve", "--json"])
        .ends(0);
    assert_eq!(
        did.json(),
        json!({ "status": "already_completed", "continuation": "none" })
    );
}

#[test]
fn the_model_reads_a_denial() {
    let folder = folder();
    paused(&folder, "pay");
    folder
        .helix(&["submit", "s", "pay", "--deny", "too much"])
        .ends(0);
    let did = folder.helix(&["resume", "s"]).ends(0);
    assert!(
        did.out.contains("was not approved. Reason: too much"),
        "{}",
        did.out
    );
}

#[test]
fn a_client_result_becomes_the_result_of_the_call() {
    let folder = folder();
    paused(&folder, "color");
    folder
        .helix(&["submit", "s", "pick", "--result", "{\"color\":\"red\"}"])
        .ends(0);
    let did = folder.helix(&["resume", "s"]).ends(0);
    assert_eq!(did.out, "You chose {\"color\":\"red\"}.\n");
}

#[test]
fn invalid_answers_are_refused_and_not_stored() {
    let folder = folder();
    paused(&folder, "both");
    let long = "x".repeat(9_000);
    let table: [(&[&str], i32, &str); 8] = [
        (
            &["pay", "--result", "1"],
            2,
            "call pay waits for a decision; answer with --approve or --deny REASON",
        ),
        (
            &["pick", "--approve"],
            2,
            "call pick waits for a result; answer with --result JSON or --error TEXT",
        ),
        (
            &["pick", "--deny", "no"],
            2,
            "--result JSON or --error TEXT",
        ),
        (&["pick", "--error", &long], 2, "shorten it"),
        (&["nope", "--approve"], 1, "unknown_tool_call"),
        (
            &["pick", "--result", "{not json"],
            2,
            "--result is not JSON",
        ),
        (
            &["pick", "--approve", "--error", "x"],
            2,
            "cannot be used with",
        ),
        (&["pick"], 2, "required"),
    ];
    for (arguments, code, text) in table {
        let all = [&["submit", "s"], arguments].concat();
        let did = folder.helix(&all).ends(code);
        assert!(did.err.contains(text), "{arguments:?}: {}", did.err);
    }
    assert_eq!(folder.helix(&["pending", "--json"]).json()["total"], 2);
    folder
        .helix(&["submit", "nobody", "pay", "--approve"])
        .ends(1);
}

/// proves: CLT-07
#[test]
fn an_operator_fails_a_stuck_call_of_either_kind() {
    let folder = folder();
    paused(&folder, "both");
    let did = folder.helix(&[
        "submit",
        "s",
        "pick",
        "--error",
        "the browser is gone",
        "--json",
    ]);
    assert_eq!(
        did.ends(0).json(),
        json!({ "status": "accepted", "continuation": "none" }),
        "another call is still pending"
    );
    folder
        .helix(&["submit", "s", "pay", "--error", "nobody decides"])
        .ends(0);
    let did = folder.helix(&["resume", "s"]).ends(0);
    assert!(did.out.contains("the browser is gone"), "{}", did.out);
    assert!(did.out.contains("nobody decides"), "{}", did.out);
    // The second answer changes nothing.
    let did = folder
        .helix(&["submit", "s", "pay", "--error", "again", "--json"])
        .ends(0);
    assert_eq!(did.json()["status"], "already_completed");
    let shown = folder
        .helix(&["sessions", "show", "s", "--json"])
        .ends(0)
        .json();
    assert_eq!(shown["status"], "completed");
}

/// Moves the deadline of a pending call into the past.
async fn let_pass(folder: &Folder, call: &str) {
    let store = SqliteStore::open(folder.path().join("helix.db")).await;
    let store = store.unwrap();
    let session = SessionId::new("s").unwrap();
    let found = store.load(session.as_root()).await.unwrap().unwrap();
    let pending = &found.state.pending_client_tool_calls;
    let mut pending = pending[&CallId::new(call).unwrap()].clone();
    assert!(pending.deadline.is_some());
    pending.deadline = Some(pending.created_at);
    let commit = Commit::new(session, pending.created_at);
    let commit = commit.then(Change::Pending(Box::new(pending)));
    store.commit(commit).await.unwrap();
}

/// An approval after the deadline runs nothing: before the session is resumed, and after. The model is told
/// of the first.
///
/// proves in part: CLT-06
#[tokio::test]
async fn an_approval_after_the_deadline_is_late() {
    for resumes_first in [false, true] {
        let folder = folder();
        paused(&folder, "pay");
        let_pass(&folder, "pay").await;
        let submit = |how: &[&str]| {
            let arguments = [&["submit", "s", "pay"], how].concat();
            folder.helix(&arguments).ends(0)
        };
        if resumes_first {
            let did = folder.helix(&["resume", "s"]).ends(0);
            assert!(did.out.contains("Nobody decided"), "{}", did.out);
        }
        let continuation = if resumes_first {
            "none"
        } else {
            "caller_resumes"
        };
        let late = "late_answer_after_timeout";
        assert_eq!(
            submit(&["--approve", "--json"]).json(),
            json!({ "status": late, "continuation": continuation })
        );
        let again = submit(&["--deny", "too much"]);
        assert!(again.out.starts_with(late), "{}", again.out);
        if !resumes_first {
            let did = folder.helix(&["resume", "s"]).ends(0);
            assert!(did.out.contains("Nobody decided"), "{}", did.out);
        }
        let shown = folder.helix(&["sessions", "show", "s", "--json"]).ends(0);
        let told = "Call pay of refund was approved after its deadline; it was not executed.";
        assert_eq!(shown.out.matches(told).count(), 1, "{}", shown.out);
        assert!(!shown.out.contains("too much"), "{}", shown.out);
    }
}

#[test]
fn pending_calls_can_be_filtered_by_user() {
    let folder = folder();
    assert_eq!(
        folder.helix(&["pending", "--json"]).ends(0).json(),
        json!({ "pending": [], "total": 0 })
    );
    paused(&folder, "pay");
    for (user, total) in [("ada", 1), ("bob", 0)] {
        let did = folder.helix(&["pending", "--user", user, "--json"]).ends(0);
        assert_eq!(did.json()["total"], total, "{user}");
    }
    let pending = folder.helix(&["pending", "--json"]).json()["pending"][0].clone();
    assert_eq!(pending["toolCallId"], "pay");
    assert_eq!(pending["toolName"], "refund");
    assert_eq!(pending["kind"], "approval");
    assert_eq!(pending["input"], json!({ "cents": 5 }));
    assert_eq!(pending["sessionId"], "s");
    assert_eq!(pending["rootSessionId"], "s");
    for key in ["approvalId", "digest", "runId", "deadline"] {
        assert!(pending.get(key).is_some(), "{key}: {pending}");
    }
    let did = folder.helix(&["pending"]).ends(0);
    assert!(did.out.starts_with("SESSION  CALL  KIND"), "{}", did.out);
}
