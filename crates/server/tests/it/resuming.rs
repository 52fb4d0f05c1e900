//! Tests of `/resume`.

use helix_agents_core::entries::DoubleTexting;
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

/// Starts a session whose tool waits.
async fn waiting(place: &Place) {
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "wait" });
    place.post("/start", body).await.ok();
    place.outside.reached().await;
}

#[tokio::test]
async fn a_running_session_cannot_be_resumed() {
    let place = Place::ruled(DoubleTexting::Reject);
    waiting(&place).await;
    for body in [
        json!({ "sessionId": "s" }),
        json!({ "sessionId": "s", "mode": "continue" }),
        json!({ "sessionId": "s", "mode": "retry" }),
        json!({ "sessionId": "s", "mode": "from_checkpoint", "checkpointId": "cp-1" }),
        json!({ "sessionId": "s", "mode": "with_message", "message": "hello" }),
    ] {
        place.post("/resume", body).await.is(409, "ALREADY_RUNNING");
    }
    place.outside.open();
    place.settled("s").await;
}

/// proves: SRV-01
#[tokio::test]
async fn a_message_during_a_run_is_handled_as_the_rule_says() {
    for rule in [DoubleTexting::Interrupt, DoubleTexting::Queue] {
        let place = Place::ruled(rule);
        waiting(&place).await;
        let body = json!({ "sessionId": "s", "mode": "with_message", "message": "hello" });
        let first = place.post("/resume", body.clone()).await.ok();
        let again = place.post("/resume", body).await.ok();
        assert_eq!(first, again, "both messages enter one run");
        assert_ne!(first["runId"], "run-1");
        let status = place.get("/status?sessionId=s").await.ok();
        assert_eq!(status["runId"], "run-1");
        place.outside.open();
        place.run_ended("s", "run-1").await;
        place.run_ended("s", first["runId"].as_str().unwrap()).await;
        let runs = place.get("/sessions/s/runs").await.ok();
        let wanted = match rule {
            DoubleTexting::Queue => "completed",
            _ => "interrupted",
        };
        assert_eq!(runs["items"][0]["status"], wanted);
        assert_eq!(runs["items"][1]["runId"], first["runId"]);
        assert_eq!(runs["items"][1]["status"], "completed");
        assert_eq!(runs["total"], 2);
        let messages = place.get("/sessions/s/messages").await.ok();
        let said = messages["messages"].as_array().unwrap();
        let asked = said.iter().filter(|one| one["content"] == "hello");
        assert_eq!(asked.count(), 2);
        assert_eq!(said[said.len() - 1]["content"], "Hello, how are you?");
    }
}

#[tokio::test]
async fn a_message_over_pending_calls_abandons_them_on_request() {
    let place = Place::new();
    place.ended("ask").await;
    let body = json!({
        "sessionId": "s", "mode": "with_message", "message": "hello", "abandonPending": true,
    });
    place.post("/resume", body).await.ok();
    place.settled("s").await;
    let messages = place.get("/sessions/s/messages").await.ok();
    let said = messages["messages"].as_array().unwrap();
    let roles: Vec<_> = said
        .iter()
        .map(|one| one["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant"]);
    assert!(said[2]["content"].as_str().unwrap().contains("error"));
    let late = json!({
        "sessionId": "s", "kind": "client-tool-result", "toolCallId": "q1", "result": "blue",
    });
    let late = place.post("/submit-tool-result", late).await;
    late.is(404, "NOT_FOUND");
    assert!(late.text().contains("unknown_tool_call"));
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
    for (body, why) in [
        (
            json!({ "mode": "retry", "message": "hello" }),
            "takes no message",
        ),
        (json!({ "message": "hello" }), "takes no message"),
        (
            json!({ "mode": "retry", "checkpointId": "cp-1" }),
            "takes no checkpointId",
        ),
        (json!({ "mode": "from_checkpoint" }), "has no checkpointId"),
        (json!({ "abandonPending": true }), "does not abandon"),
    ] {
        let mut body = body;
        body["sessionId"] = json!("s");
        let answer = place.post("/resume", body).await;
        answer.is(400, "VALIDATION_ERROR");
        assert!(answer.text().contains(why), "{}", answer.text());
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

/// A failed turn is tried again with the same message. A session goes back to a checkpoint of its own.
#[tokio::test]
async fn a_session_is_retried_and_goes_back_to_a_checkpoint() {
    let place = Place::new();
    place.ended("fail").await;
    let retry = json!({ "sessionId": "s", "mode": "retry" });
    let retried = place.post("/resume", retry.clone()).await.ok();
    place
        .run_ended("s", retried["runId"].as_str().unwrap())
        .await;
    let runs = place.get("/sessions/s/runs").await.ok();
    assert_eq!(runs["items"][1]["trigger"], "retry");
    assert_eq!(runs["items"][1]["turn"], 1);

    let hello = json!({ "sessionId": "s", "mode": "with_message", "message": "hello" });
    place.post("/resume", hello).await.ok();
    place.settled("s").await;
    place
        .post("/resume", retry)
        .await
        .is(409, "ALREADY_COMPLETED");
    let look = json!({ "sessionId": "s", "mode": "with_message", "message": "look" });
    place.post("/resume", look).await.ok();
    place.settled("s").await;
    let before = place.get("/sessions/s/messages").await.ok();
    let checkpoints = place.get("/sessions/s/checkpoints").await.ok();
    let items = checkpoints["items"].as_array().unwrap();
    // The latest is the end of the turn; the one before it is after the call.
    let mid_turn = &items[1];
    let body =
        json!({ "sessionId": "s", "mode": "from_checkpoint", "checkpointId": mid_turn["id"] });
    place.post("/resume", body).await.ok();
    place.settled("s").await;
    let after = place.get("/sessions/s/messages").await.ok();
    assert_eq!(after, before, "the last step is made again");
    let other = json!({ "sessionId": "s", "mode": "from_checkpoint", "checkpointId": "cp-none" });
    place
        .post("/resume", other)
        .await
        .is(400, "VALIDATION_ERROR");
}
