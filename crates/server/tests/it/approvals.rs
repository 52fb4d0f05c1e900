//! Tests of approvals that outlive the process that asked for them.

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::kit::{BOB, Place};

/// proves in part: SUS-02
#[tokio::test]
async fn an_approval_given_in_another_process_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = Place::sqlite(folder.path()).await;
    first.ended("pay").await;
    let asked = first.get("/status?sessionId=s").await.ok();
    drop(first);

    let second = Place::sqlite(folder.path()).await;
    let status = second.get("/status?sessionId=s").await.ok();
    assert_eq!(status, asked);
    let pending = &status["pending"][0];
    let mut body = json!({
        "sessionId": "s", "kind": "approval-response", "toolCallId": "p1",
        "approvalId": "not-it", "approved": true, "digest": pending["digest"],
    });
    let path = "/submit-tool-result";
    second
        .post(path, body.clone())
        .await
        .is(400, "VALIDATION_ERROR");
    body["approvalId"] = pending["approvalId"].clone();
    let bobs = second.ask(BOB, "POST", path, Some(body.clone())).await;
    bobs.is(404, "NOT_FOUND");
    let answer = second.post(path, body.clone()).await.ok();
    let expected = json!({ "status": "accepted", "continuation": "new_run" });
    assert_eq!(answer, expected);
    second.settled("s").await;
    assert_eq!(second.outside.paid.load(Ordering::SeqCst), 1);

    let third = Place::sqlite(folder.path()).await;
    for _ in 0..100 {
        let again = third.post(path, body.clone()).await.ok();
        let expected = json!({ "status": "already_completed", "continuation": "none" });
        assert_eq!(again, expected);
    }
    assert_eq!(third.outside.paid.load(Ordering::SeqCst), 0);
    let status = third.get("/status?sessionId=s").await.ok();
    assert_eq!(status["status"], "completed");
    let messages = third.get("/sessions/s/messages").await.ok();
    assert_eq!(messages["messages"][3]["content"], "paid: 5 cents");
    // The user who decided is recorded.
    let stream = third.get("/sse?sessionId=s").await;
    let decided = stream
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let decided: Vec<serde_json::Value> = decided
        .map(|data| serde_json::from_str(data).unwrap())
        .filter(|chunk: &serde_json::Value| chunk["type"] == "tool_approval_response")
        .collect();
    assert_eq!(decided.len(), 1, "{decided:?}");
    assert_eq!(decided[0]["decidedBy"], "alice");
}

#[tokio::test]
async fn a_denied_call_is_not_run_and_the_model_reads_the_reason() {
    let place = Place::new();
    place.ended("pay").await;
    let status = place.get("/status?sessionId=s").await.ok();
    let body = json!({
        "sessionId": "s", "kind": "approval-response", "toolCallId": "p1",
        "approvalId": status["pending"][0]["approvalId"], "approved": false,
        "reason": "too much",
    });
    place.post("/submit-tool-result", body).await.ok();
    place.settled("s").await;
    assert_eq!(place.outside.paid.load(Ordering::SeqCst), 0);
    let messages = place.get("/sessions/s/messages").await.ok();
    assert_eq!(messages["messages"][2]["status"], "denied");
    let content = messages["messages"][2]["content"].as_str().unwrap();
    assert!(content.contains("too much"), "{content}");
}

#[tokio::test]
async fn the_status_shows_decisions_that_no_run_has_consumed() {
    let place = Place::new();
    place.ended("two questions").await;
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status.get("answered"), None, "{status}");
    let pending = status["pending"].as_array().unwrap();
    assert_eq!(pending.len(), 2);
    let approval = pending.iter().find(|call| call["toolCallId"] == "p2");
    let approval = &approval.unwrap()["approvalId"];
    let body = json!({
        "sessionId": "s", "kind": "approval-response", "toolCallId": "p2",
        "approvalId": approval, "approved": false, "reason": "too much",
    });
    let answer = place.post("/submit-tool-result", body).await.ok();
    let expected = json!({ "status": "accepted", "continuation": "none" });
    assert_eq!(answer, expected);
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["pending"].as_array().unwrap().len(), 1);
    let mut answered = status["answered"].clone();
    let at = answered[0].as_object_mut().unwrap().remove("answeredAt");
    assert!(at.is_some_and(|at| at.is_u64()));
    let expected = json!([{
        "toolCallId": "p2", "sessionId": "s", "approvalId": approval, "approved": false,
        "reason": "too much", "decidedBy": "alice",
    }]);
    assert_eq!(answered, expected);

    // The run has consumed the answers: from now on they are in the stream.
    let body = json!({
        "sessionId": "s", "kind": "client-tool-result", "toolCallId": "q2", "result": "small",
    });
    place.post("/submit-tool-result", body).await.ok();
    place.settled("s").await;
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status.get("answered"), None, "{status}");
}
