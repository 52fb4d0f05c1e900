//! Tests of `/submit-tool-result`.

use std::sync::{Arc, Mutex};

use helix_agents_core::memory::MemoryStore;
use helix_agents_server::{Access, Principal, Refusal};
use serde_json::{Value, json};

use crate::kit::{Outside, Place, builder, runtime, tokens};

fn result(result: &Value) -> Value {
    json!({ "sessionId": "s", "kind": "client-tool-result", "toolCallId": "q1", "result": result })
}

/// proves in part: SRV-01
#[tokio::test]
async fn the_last_answer_continues_the_run() {
    let place = Place::new();
    place.ended("ask").await;
    let answer = place
        .post("/submit-tool-result", result(&json!("red")))
        .await;
    let expected = json!({ "status": "accepted", "continuation": "new_run" });
    assert_eq!(answer.ok(), expected);
    place.settled("s").await;
    let messages = place.get("/sessions/s/messages").await.ok();
    assert_eq!(messages["messages"][3]["content"], "answer: red");
    for _ in 0..3 {
        let again = place
            .post("/submit-tool-result", result(&json!("blue")))
            .await;
        let expected = json!({ "status": "already_completed", "continuation": "none" });
        assert_eq!(again.ok(), expected);
    }
}

#[tokio::test]
async fn an_error_answers_a_pending_call() {
    let place = Place::new();
    place.ended("ask").await;
    let body = json!({
        "sessionId": "s", "kind": "client-tool-result", "toolCallId": "q1", "error": "went home"
    });
    place.post("/submit-tool-result", body).await.ok();
    place.settled("s").await;
    let messages = place.get("/sessions/s/messages").await.ok();
    assert_eq!(
        messages["messages"][2]["content"],
        "{\"error\":\"went home\"}"
    );
}

#[tokio::test]
async fn an_invalid_answer_is_refused_and_changes_nothing() {
    let place = Place::new();
    place.ended("pay").await;
    let pending = place.get("/status?sessionId=s").await.ok()["pending"][0].clone();
    let approve = |change: Value| {
        let mut body = json!({
            "sessionId": "s", "kind": "approval-response", "toolCallId": "p1",
            "approvalId": pending["approvalId"], "approved": true,
        });
        for (key, value) in change.as_object().unwrap() {
            match value {
                Value::Null => body.as_object_mut().unwrap().remove(key),
                value => body
                    .as_object_mut()
                    .unwrap()
                    .insert(key.clone(), value.clone()),
            };
        }
        body
    };
    let refused = [
        json!({ "kind": "client-tool-result", "result": "ok" }),
        json!({ "kind": "shout" }),
        json!({ "approvalId": "another" }),
        json!({ "approvalId": null }),
        json!({ "approved": null }),
        json!({ "approved": "yes" }),
        json!({ "digest": "0".repeat(64) }),
        json!({ "digest": "short" }),
        json!({ "runId": "run-9" }),
        json!({ "reason": "x".repeat(9000) }),
        json!({ "toolCallId": null }),
        json!({ "toolCallId": "../p1" }),
        json!({ "sessionId": null }),
        json!({ "sessionId": 5 }),
    ];
    for change in refused {
        let answer = place
            .post("/submit-tool-result", approve(change.clone()))
            .await;
        assert_eq!(
            answer.refused(),
            (400, "VALIDATION_ERROR".to_owned()),
            "{change}"
        );
    }
    for change in [
        json!({ "toolCallId": "p9" }),
        json!({ "sessionId": "never" }),
    ] {
        let answer = place
            .post("/submit-tool-result", approve(change.clone()))
            .await;
        answer.is(404, "NOT_FOUND");
        let is_unknown = answer.text().contains("unknown_tool_call");
        assert_eq!(is_unknown, change.get("toolCallId").is_some());
    }
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["pending"][0], pending);
    let bound = json!({ "digest": pending["digest"], "runId": pending["runId"] });
    let answer = place.post("/submit-tool-result", approve(bound)).await;
    assert_eq!(answer.ok()["status"], "accepted");
}

#[tokio::test]
async fn a_result_over_the_limit_is_refused() {
    let place = Place::new();
    place.ended("ask").await;
    let large = json!("x".repeat(1024 * 1024 + 1));
    let answer = place.post("/submit-tool-result", result(&large)).await;
    answer.is(400, "VALIDATION_ERROR");
    let both = json!({
        "sessionId": "s", "kind": "client-tool-result", "toolCallId": "q1",
        "result": 1, "error": "no"
    });
    let answer = place.post("/submit-tool-result", both).await;
    answer.is(400, "VALIDATION_ERROR");
}

/// The calls of the authorization hook.
type HookCalls = Arc<Mutex<Vec<(String, Option<String>)>>>;

#[tokio::test]
async fn the_authorisation_hook_sees_the_digest_of_the_answered_call() {
    let told: HookCalls = Arc::default();
    let tells = Arc::clone(&told);
    let outside = Outside::new();
    let runtime = runtime(MemoryStore::new(), &outside);
    let server = builder(&runtime)
        .authenticate(tokens())
        .authorize(move |_: &Principal, access: &Access<'_>| {
            let Some(call) = access.call else {
                return Ok(());
            };
            let digest = access.digest.map(ToString::to_string);
            tells.lock().unwrap().push((call.to_string(), digest));
            Err(Refusal::Forbidden("not this one".to_owned()))
        })
        .build()
        .unwrap();
    let app = server.router();
    let place = Place {
        runtime,
        outside,
        app,
    };
    place.ended("ask").await;
    let pending = place.get("/status?sessionId=s").await.ok()["pending"][0].clone();
    let answer = place
        .post("/submit-tool-result", result(&json!("red")))
        .await;
    answer.is(403, "FORBIDDEN");
    let digest = pending["digest"].as_str().map(str::to_owned);
    assert_eq!(*told.lock().unwrap(), [("q1".to_owned(), digest)]);
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["pending"][0], pending);
}
