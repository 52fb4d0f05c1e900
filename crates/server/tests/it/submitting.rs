//! Tests of `/submit-tool-result`.

use std::sync::{Arc, Mutex};

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::store::{Change, Commit};
use helix_agents_core::{CallId, SessionId};
use helix_agents_server::{Access, Principal, Refusal};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::kit::{ALICE, Answer, Outside, Place, builder, request, runtime, tokens};

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

/// Moves the deadline of a pending call of session `s` to this instant.
async fn let_pass(place: &Place, call: &str) {
    let store = &place.runtime.backend().store;
    let session = SessionId::new("s").unwrap();
    let found = store.load(session.as_root()).await.unwrap().unwrap();
    let pending = &found.state.pending_client_tool_calls;
    let mut pending = pending[&CallId::new(call).unwrap()].clone();
    let now = place.runtime.clock().now();
    pending.deadline = Some(now);
    let commit = Commit::new(session, now).then(Change::Pending(Box::new(pending)));
    store.commit(commit).await.unwrap();
}

/// An answer at the deadline or after it is late. The first one times the call out and continues the run.
///
/// proves in part: CLT-06, SRV-01
#[tokio::test]
async fn an_answer_after_the_deadline_is_late() {
    let place = Place::new();
    place.ended("ask").await;
    let_pass(&place, "q1").await;
    for continuation in ["new_run", "none"] {
        let answer = place
            .post("/submit-tool-result", result(&json!("crimson")))
            .await;
        let status = "late_answer_after_timeout";
        let expected = json!({ "status": status, "continuation": continuation });
        assert_eq!(answer.ok(), expected);
        place.settled("s").await;
    }
    let messages = place.get("/sessions/s/messages").await.ok();
    let timed_out = "{\"error\":\"The client did not answer within the deadline.\"}";
    assert_eq!(messages["messages"][2]["content"], timed_out);
    assert_eq!(
        messages["messages"].to_string().matches("crimson").count(),
        1
    );
}

/// A client cannot report a timeout.
#[tokio::test]
async fn a_timeout_is_not_an_answer() {
    let place = Place::new();
    place.ended("ask").await;
    for call in ["q1", "never"] {
        let body = json!({ "sessionId": "s", "kind": "expired", "toolCallId": call });
        let request = request(ALICE, "POST", "/submit-tool-result", Some(body));
        let answer = Answer::of(place.app.clone().oneshot(request).await.unwrap()).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(answer.json()["code"], "VALIDATION_ERROR");
    }
    let pending = place.get("/status?sessionId=s").await.ok()["pending"].clone();
    assert_eq!(pending[0]["toolCallId"], "q1");
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
