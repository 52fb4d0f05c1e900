//! Tests of two servers over one store: a request reaches a run wherever it is performed.

use serde_json::{Value, json};

use crate::kit::{Folder, config};
use crate::serving::Served;

/// A reply that takes longer than any test, and a short one.
const SCRIPT: &str = r#"{ "rules": [
    { "match": "long", "steps": [ { "text": "TEXT", "chunk_chars": 4, "delay_ms": 20 } ] } ],
  "default": [ { "text": "Echo: {{last_user}}" } ] }"#;

fn two_servers() -> (Folder, Served, Served) {
    let agent = "[server]\nallow_unauthenticated = true\n[agents.a]\nmodel = \"fast\"\n";
    let script = SCRIPT.replace("TEXT", &"word ".repeat(4_000));
    let folder = Folder::with(&config(agent), &script);
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
    let (_folder, one, other) = two_servers();
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

/// A message to one server interrupts the run that another one performs, and is answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_by_way_of_another_server_interrupts_the_run() {
    let (_folder, one, other) = two_servers();
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
