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
    let place = Place::new();
    place.ended("ask").await;
    let answer = place.post("/interrupt", json!({ "sessionId": "s" })).await;
    assert_eq!(answer.ok(), json!({ "accepted": false, "runId": "run-1" }));
    let body = json!({ "messageIndex": 0, "newSessionId": "copy" });
    place.post("/sessions/s/branch", body).await.ok();
    let answer = place.post("/abort", json!({ "sessionId": "copy" })).await;
    assert_eq!(answer.ok(), json!({ "accepted": false }));
}
