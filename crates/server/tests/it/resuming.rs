//! Tests of `/resume`.

use serde_json::json;

use crate::kit::Place;

/// proves in part: SRV-01
#[tokio::test]
async fn a_completed_session_is_continued_with_a_message_only() {
    let place = Place::new();
    place.ended("hello").await;
    let plain = place.post("/resume", json!({ "sessionId": "s" })).await;
    plain.is(409, "ALREADY_COMPLETED");
    let body = json!({ "sessionId": "s", "mode": "with_message", "message": "look" });
    let resumed = place.post("/resume", body).await.ok();
    let expected = json!({ "sessionId": "s", "streamId": "s", "runId": resumed["runId"] });
    assert_ne!(resumed["runId"], "run-1");
    assert_eq!(resumed, expected);
    place.settled("s").await;
    let runs = place.get("/sessions/s/runs").await.ok();
    assert_eq!(runs["items"][1]["trigger"], "with_message");
    assert_eq!(runs["items"][1]["turn"], 2);
    let messages = place.get("/sessions/s/messages").await.ok();
    assert_eq!(messages["messages"][5]["content"], "seen: {\"seen\":7}");
}

#[tokio::test]
async fn a_failed_session_continues_with_a_message() {
    let place = Place::new();
    place.ended("fail").await;
    let plain = place.post("/resume", json!({ "sessionId": "s" })).await;
    plain.is(409, "STALE");
    let body = json!({ "sessionId": "s", "mode": "with_message", "message": "hello" });
    place.post("/resume", body).await.ok();
    place.settled("s").await;
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["status"], "completed");
}

#[tokio::test]
async fn a_running_session_cannot_be_resumed() {
    let place = Place::new();
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "wait" });
    place.post("/start", body).await.ok();
    place.outside.reached().await;
    for mode in ["continue", "retry", "from_checkpoint", "with_message"] {
        let body = json!({ "sessionId": "s", "mode": mode, "message": "hello" });
        place.post("/resume", body).await.is(409, "ALREADY_RUNNING");
    }
    place.outside.open();
    place.settled("s").await;
}

#[tokio::test]
async fn a_session_with_a_pending_call_is_not_resumed_without_its_answer() {
    let place = Place::new();
    place.ended("ask").await;
    let plain = place.post("/resume", json!({ "sessionId": "s" })).await;
    plain.is(409, "AWAITING_ANSWERS");
    let body = json!({ "sessionId": "s", "mode": "with_message", "message": "hello" });
    place
        .post("/resume", body)
        .await
        .is(409, "AWAITING_ANSWERS");
    let runs = place.get("/sessions/s/runs").await.ok();
    assert_eq!(runs["total"], 1);
}

#[tokio::test]
async fn invalid_resume_requests_are_refused() {
    let place = Place::new();
    place.ended("hello").await;
    for mode in ["retry", "from_checkpoint"] {
        let body = json!({ "sessionId": "s", "mode": mode });
        let answer = place.post("/resume", body).await;
        answer.is(400, "VALIDATION_ERROR");
        assert!(
            answer.text().contains("not supported yet"),
            "{}",
            answer.text()
        );
    }
    let no_message = json!({ "sessionId": "s", "mode": "with_message" });
    let answer = place.post("/resume", no_message).await;
    answer.is(400, "VALIDATION_ERROR");
    let no_mode = json!({ "sessionId": "s", "mode": "sideways" });
    place
        .post("/resume", no_mode)
        .await
        .is(400, "VALIDATION_ERROR");
    let nobody = json!({ "sessionId": "never" });
    place.post("/resume", nobody).await.is(404, "NOT_FOUND");
}
