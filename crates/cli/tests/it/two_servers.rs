//! Tests of two servers over one store: a request reaches a run wherever it is performed, and one at a time is.
//!
//! proves: LCK-01

use serde_json::{Value, json};

use crate::databases::{Database, on_each_store};
use crate::killed_server::counting;
use crate::kit::{Folder, config_on};
use crate::serving::Served;

/// A reply that takes longer than any test, and a short one.
const SCRIPT: &str = r#"{ "rules": [
    { "match": "long", "steps": [ { "text": "TEXT", "chunk_chars": 4, "delay_ms": 20 } ] },
    { "match": "refund", "steps": [
        { "tool_calls": [ { "id": "c", "name": "refund", "arguments": { "cents": 500 } } ] },
        { "text": "Refunded." } ] } ],
  "default": [ { "text": "Echo: {{last_user}}" } ] }"#;

on_each_store!(
    two_starts_at_once_by_way_of_two_servers_run_once
    a_message_by_way_of_another_server_interrupts_the_run
    a_run_is_approved_and_continued_by_way_of_another_server
);

fn two_servers(store: &str, more: &str) -> (Folder, Served, Served) {
    let agent = "[server]\nallow_unauthenticated = true\n[agents.a]\nmodel = \"fast\"\n";
    let script = SCRIPT.replace("TEXT", &"word ".repeat(4_000));
    let folder = Folder::with(&config_on(store, &format!("{agent}{more}")), &script);
    let serve = ["serve", "--config", "helix.toml"];
    let one = Served::start(&folder, &serve);
    let other = Served::start(&folder, &serve);
    (folder, one, other)
}

/// Reads the stream of session `s` until this text has come.
async fn read_until(server: &Served, text: &str) {
    let mut body = server.get("/sse?sessionId=s").await;
    let mut read = String::new();
    while !read.contains(text) {
        let piece = body.chunk().await.unwrap().unwrap();
        read.push_str(&String::from_utf8_lossy(&piece));
    }
}

async fn posted(server: &Served, path: &str, body: Value) -> Value {
    let (status, answer) = server.ask(path, Some(body), None).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

/// proves: SRV-04
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_interrupted_by_way_of_another_server() {
    for database in Database::ALL {
        if let Some(store) = database.sections() {
            interrupted(&store).await;
        }
    }
}

async fn interrupted(store: &str) {
    let (_folder, one, other) = two_servers(store, "");
    let start = json!({ "sessionId": "s", "agentType": "a", "message": "long" });
    let started = posted(&one, "/start", start).await;
    read_until(&other, "text_delta").await;
    let stopped = posted(&other, "/interrupt", json!({ "sessionId": "s" })).await;
    assert_eq!(
        stopped,
        json!({ "accepted": true, "runId": started["runId"] })
    );
    assert_eq!(other.end("s", None).await["status"], "interrupted");
    let (_, messages) = one.ask("/sessions/s/messages", None, None).await;
    let said = messages["messages"][1]["content"].as_str().unwrap();
    assert!(
        said.starts_with("word ") && said.len() < 10_000,
        "{}",
        said.len()
    );
}

/// Of two starts and of two resumes at the same moment one is performed, and the other one is told why not.
async fn two_starts_at_once_by_way_of_two_servers_run_once(store: &str) {
    let (_folder, one, other) = two_servers(store, "");
    let start = |message| json!({ "sessionId": "s", "agentType": "a", "message": message });
    let refused = async |path: &str, bodies: [Value; 2]| {
        let [first, second] = bodies;
        let (first, second) = tokio::join!(
            one.ask(path, Some(first), None),
            other.ask(path, Some(second), None)
        );
        let mut answers = [first, second];
        answers.sort_by_key(|(status, _)| *status);
        let [(performed, _), (refused, why)] = answers;
        assert_eq!((performed, refused), (200, 409), "{why}");
        why["code"].clone()
    };
    let why = refused("/start", [start("long 1"), start("long 2")]).await;
    assert_eq!(why, "ALREADY_RUNNING");
    posted(&one, "/interrupt", json!({ "sessionId": "s" })).await;
    assert_eq!(other.end("s", None).await["status"], "interrupted");

    let resume = json!({ "sessionId": "s", "mode": "retry" });
    let why = refused("/resume", [resume.clone(), resume]).await;
    assert_eq!(why, "ALREADY_RUNNING");
    let (_, runs) = one.ask("/sessions/s/runs", None, None).await;
    assert_eq!(runs["total"], 2, "{runs}");
    posted(&other, "/abort", json!({ "sessionId": "s" })).await;
    assert_eq!(one.end("s", None).await["status"], "failed");
}

/// A message to one server interrupts the run that another one performs, and is answered.
async fn a_message_by_way_of_another_server_interrupts_the_run(store: &str) {
    let (_folder, one, other) = two_servers(store, "");
    let start = json!({ "sessionId": "s", "agentType": "a", "message": "long" });
    posted(&one, "/start", start).await;
    read_until(&other, "text_delta").await;
    let send = json!({ "sessionId": "s", "mode": "with_message", "message": "and you?" });
    let sent = posted(&other, "/resume", send).await;
    // The stream does not end between the two runs.
    assert_eq!(other.end("s", None).await["status"], "completed");
    let (_, status) = one.ask("/status?sessionId=s", None, None).await;
    assert_eq!(status["runId"], sent["runId"]);
    let (_, messages) = one.ask("/sessions/s/messages", None, None).await;
    assert_eq!(messages["messages"][3]["content"], "Echo: and you?");
}

/// The run that one server started waits for an approval; it is given to the other one, which performs the rest.
async fn a_run_is_approved_and_continued_by_way_of_another_server(store: &str) {
    let (address, reached) = counting().await;
    let refund = format!(
        "tools = [\"refund\"]\n[tools.refund]\nkind = \"http\"\nurl = \"http://{address}/\"\nrequire_approval = true\n"
    );
    let (_folder, one, other) = two_servers(store, &refund);
    let start = json!({ "sessionId": "s", "agentType": "a", "message": "refund" });
    posted(&one, "/start", start).await;
    assert!(other.end("s", None).await["suspended"].is_object());
    let (_, now) = other.ask("/status?sessionId=s", None, None).await;
    let approval = json!({
        "sessionId": "s", "kind": "approval-response", "toolCallId": "c", "approved": true,
        "approvalId": now["pending"][0]["approvalId"],
    });
    let taken = posted(&other, "/submit-tool-result", approval.clone()).await;
    let wanted = json!({ "status": "accepted", "continuation": "new_run" });
    assert_eq!(taken, wanted);
    let again = posted(&one, "/submit-tool-result", approval).await;
    assert_eq!(again["status"], "already_completed");
    assert_eq!(one.end("s", None).await["status"], "completed");
    for server in [&one, &other] {
        let (_, messages) = server.ask("/sessions/s/messages", None, None).await;
        assert_eq!(messages["messages"][3]["content"], "Refunded.");
    }
    assert_eq!(reached.lock().unwrap().len(), 1);
}
