//! Tests of `/interrupt` and `/abort`.

use serde_json::json;

use crate::kit::Place;

async fn waiting() -> Place {
    let place = Place::new();
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "wait" });
    place.post("/start", body).await.ok();
    place.outside.reached().await;
    place
}

/// proves in part: SRV-01
#[tokio::test]
async fn an_interrupted_run_ends_and_can_be_continued() {
    let place = waiting().await;
    let body = json!({ "sessionId": "s", "reason": "enough" });
    let answer = place.post("/interrupt", body).await.ok();
    assert_eq!(answer, json!({ "accepted": true, "runId": "run-1" }));
    place.outside.open();
    place.settled("s").await;
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["status"], "interrupted");
    assert_eq!(status["runStatus"], "interrupted");
    let resumed = place.post("/resume", json!({ "sessionId": "s" })).await;
    assert_eq!(resumed.ok()["runId"], "run-2");
    place.settled("s").await;
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["status"], "completed");
}

#[tokio::test]
async fn an_aborted_run_fails() {
    let place = waiting().await;
    let body = json!({ "sessionId": "s", "reason": "wrong customer" });
    let answer = place.post("/abort", body).await.ok();
    assert_eq!(answer, json!({ "accepted": true, "runId": "run-1" }));
    place.outside.open();
    place.settled("s").await;
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["status"], "failed");
    assert_eq!(status["error"]["code"], "framework_cancelled");
}

#[tokio::test]
async fn a_run_that_has_ended_cannot_be_stopped() {
    let place = Place::new();
    place.ended("hello").await;
    for path in ["/interrupt", "/abort"] {
        let answer = place.post(path, json!({ "sessionId": "s" })).await.ok();
        assert_eq!(answer, json!({ "accepted": false, "runId": "run-1" }));
        let long = json!({ "sessionId": "s", "reason": "x".repeat(9000) });
        place.post(path, long).await.is(400, "VALIDATION_ERROR");
        let nobody = json!({ "sessionId": "never" });
        place.post(path, nobody).await.is(404, "NOT_FOUND");
    }
    let body = json!({ "messageIndex": 0, "newSessionId": "copy" });
    place.post("/sessions/s/branch", body).await.ok();
    let answer = place.post("/abort", json!({ "sessionId": "copy" })).await;
    assert_eq!(answer.ok(), json!({ "accepted": false }));
}

/// A session that waits for an answer is stopped like any other: its calls are not executed, and an answer
/// is too late.
#[tokio::test]
async fn a_suspended_run_is_stopped() {
    for (path, status) in [("/interrupt", "interrupted"), ("/abort", "failed")] {
        let place = Place::new();
        place.ended("ask").await;
        let answer = place.post(path, json!({ "sessionId": "s" })).await;
        assert_eq!(answer.ok(), json!({ "accepted": true, "runId": "run-1" }));
        place.settled("s").await;
        let found = place.get("/status?sessionId=s").await.ok();
        assert_eq!(
            (&found["status"], &found["pending"]),
            (&json!(status), &json!([]))
        );
        let late = json!({
            "sessionId": "s", "kind": "client-tool-result", "toolCallId": "q1", "result": "blue",
        });
        place
            .post("/submit-tool-result", late)
            .await
            .is(404, "NOT_FOUND");
        let messages = place.get("/sessions/s/messages").await.ok();
        assert_eq!(
            messages["messages"][2]["toolCallId"], "q1",
            "the call is paired"
        );
    }
}
