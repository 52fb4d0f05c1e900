//! Tests of `/status`, `/sessions/{id}` and the routes below it.

use helix_agents_core::runtime::{Runtime, StartedRun};
use helix_agents_core::{RunId, SessionId};
use serde_json::{Value, json};

use crate::kit::{ALICE, BOB, NOW, Place};

/// proves in part: SRV-01
#[tokio::test]
async fn the_status_of_a_session_with_a_pending_call() {
    let place = Place::new();
    place.ended("pay").await;
    let mut status = place.get("/status?sessionId=s").await.ok();
    let digest = status["pending"][0]["digest"].take();
    assert_eq!(digest.as_str().unwrap().len(), 64);
    let expected = json!({
        "sessionId": "s",
        "agentType": "desk",
        "status": "active",
        "runId": "run-1",
        "runStatus": "suspended_client_tool",
        "stepCount": 0,
        "streamSequence": status["streamSequence"], "streamIncarnation": status["streamIncarnation"],
        "suspended": { "toolCallIds": ["p1"], "stepId": "step-1" },
        "pending": [{
            "toolCallId": "p1",
            "toolName": "pay",
            "kind": "approval",
            "input": { "cents": 5 },
            "approvalId": "approval-1",
            "digest": null,
            "runId": "run-1",
            "sessionId": "s",
            "rootSessionId": "s",
            "createdAt": NOW,
        }],
    });
    assert_eq!(status, expected);
    assert!(status["streamSequence"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn the_status_of_a_completed_and_of_a_failed_session() {
    let place = Place::new();
    place.ended("hello").await;
    let status = place.get("/status?sessionId=s").await.ok();
    let expected = json!({
        "sessionId": "s", "agentType": "desk", "status": "completed", "runId": "run-1",
        "runStatus": "completed", "stepCount": 1,
        "streamSequence": status["streamSequence"], "streamIncarnation": status["streamIncarnation"], "pending": [],
    });
    assert_eq!(status, expected);

    let place = Place::new();
    place.ended("fail").await;
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["status"], "failed");
    assert_eq!(status["error"]["code"], "provider_auth");
}

#[tokio::test]
async fn messages_have_the_pinned_shape() {
    let place = Place::new();
    place.ended("look").await;
    let messages = place.get("/sessions/s/messages").await.ok();
    let expected = json!({
        "messages": [
            { "role": "user", "content": "look" },
            { "role": "assistant",
              "toolCalls": [{ "id": "l1", "name": "look", "arguments": { "at": 7 } }] },
            { "role": "tool", "toolCallId": "l1", "toolName": "look", "content": "{\"seen\":7}" },
            { "role": "assistant", "content": "seen: {\"seen\":7}" },
        ],
        "total": 4,
        "hasMore": false,
    });
    assert_eq!(messages, expected);
    let part = place
        .get("/sessions/s/messages?offset=1&limit=2")
        .await
        .ok();
    assert_eq!(part["messages"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&part["total"], &part["hasMore"]),
        (&json!(4), &json!(true))
    );
}

#[tokio::test]
async fn thinking_is_beside_the_text_of_a_message() {
    let place = Place::new();
    place.ended("hello").await;
    let messages = place.get("/sessions/s/messages").await.ok();
    let expected = json!({
        "role": "assistant", "content": "Hello, how are you?", "thinking": { "content": "greet" }
    });
    assert_eq!(messages["messages"][1], expected);
}

#[tokio::test]
async fn the_open_step_comes_last_and_is_marked() {
    let place = Place::new();
    place.ended("both").await;
    let messages = place.get("/sessions/s/messages").await.ok();
    let said = json!({
        "role": "assistant", "content": "Two things.", "open": true, "toolCalls": [
            { "id": "b1", "name": "look", "arguments": { "at": 1 } },
            { "id": "b2", "name": "ask", "arguments": { "what": "size" } },
        ],
    });
    let seen = json!({
        "role": "tool", "toolCallId": "b1", "toolName": "look", "content": "{\"seen\":1}",
        "open": true,
    });
    let user = json!({ "role": "user", "content": "both" });
    let expected = json!({ "messages": [user, said, seen], "total": 3, "hasMore": false });
    assert_eq!(messages, expected);
    // Read page by page, it is the same list.
    for (offset, message) in [user, said, seen].iter().enumerate() {
        let path = format!("/sessions/s/messages?offset={offset}&limit=1");
        let part = place.get(&path).await.ok();
        let expected = json!({ "messages": [message], "total": 3, "hasMore": offset < 2 });
        assert_eq!(part, expected);
    }
}

#[tokio::test]
async fn a_session_with_its_runs_checkpoints_and_usage() {
    let place = Place::new();
    place.ended("look").await;
    let session = place.get("/sessions/s").await.ok();
    let expected = json!({
        "sessionId": "s", "agentType": "desk", "status": "completed", "stepCount": 2,
        "userId": "alice", "tags": [], "metadata": {}, "createdAt": NOW, "updatedAt": NOW,
        "state": { "visits": 0 }, "messageCount": 4, "version": session["version"],
        "runId": "run-1", "runStatus": "completed", "checkpointId": session["checkpointId"],
    });
    assert_eq!(session, expected);

    let runs = place.get("/sessions/s/runs").await.ok();
    let expected = json!({ "items": [{
        "runId": "run-1", "sessionId": "s", "trigger": "execute", "turn": 1, "messages": 1, "stepCount": 2,
        "status": "completed", "startSequence": 0, "startedAt": NOW, "endedAt": NOW,
        "completionReason": runs["items"][0]["completionReason"],
    }], "total": 1, "hasMore": false });
    assert_eq!(runs, expected);

    let checkpoints = place.get("/sessions/s/checkpoints").await.ok();
    assert_eq!(
        (&checkpoints["total"], &checkpoints["hasMore"]),
        (&json!(2), &json!(false))
    );
    let newest = &checkpoints["items"][0];
    let expected = json!({
        "id": session["checkpointId"], "runId": "run-1", "stepCount": 2, "messageCount": 4,
        "status": newest["status"], "timestamp": NOW,
    });
    assert_eq!(*newest, expected);

    let usage = place.get("/sessions/s/usage").await.ok();
    let expected = json!({
        "tokens": { "input": 30, "output": 5, "total": 35 }, "tools": { "calls": 1, "failures": 0 }
    });
    assert_eq!(usage, expected);
    let usage = place.get("/sessions/s/usage?entries=true").await.ok();
    assert_eq!(usage["entries"].as_array().unwrap().len(), 3);
    assert_eq!(usage["hasMore"], false);
    let part = place
        .get("/sessions/s/usage?entries=true&offset=1&limit=1")
        .await
        .ok();
    assert_eq!(part["entries"], json!([usage["entries"][1]]));
    assert_eq!(part["hasMore"], true);
    assert_eq!(
        part["tokens"], usage["tokens"],
        "the sum covers all entries"
    );
}

#[tokio::test]
async fn a_session_is_removed_once() {
    let place = Place::new();
    place.ended("hello").await;
    let removed = place.ask(ALICE, "DELETE", "/sessions/s", None).await;
    assert_eq!((removed.status.as_u16(), removed.text()), (204, ""));
    place.get("/sessions/s").await.is(404, "NOT_FOUND");
    let again = place.ask(ALICE, "DELETE", "/sessions/s", None).await;
    again.is(404, "NOT_FOUND");
}

#[tokio::test]
async fn the_run_of_a_deleted_session_does_not_affect_its_successor() {
    let place = Place::new();
    let start = |token, message: &str| {
        let body = json!({ "sessionId": "s", "agentType": "desk", "message": message });
        place.ask(token, "POST", "/start", Some(body))
    };
    let first = start(ALICE, "wait").await.ok();
    place.outside.reached().await;
    place.ask(ALICE, "DELETE", "/sessions/s", None).await;
    start(BOB, "ask").await.ok();
    place.settled("s").await;
    let bobs = async || {
        let read = async |path| place.ask(BOB, "GET", path, None).await.ok();
        let messages = read("/sessions/s/messages").await;
        (
            read("/status?sessionId=s").await,
            messages,
            read("/sessions/s/runs").await,
        )
    };
    let before = bobs().await;
    // Alice's run continues, and finds that its session was deleted.
    place.outside.open();
    let run = first["runId"].as_str().unwrap();
    let run = StartedRun::new(
        SessionId::new("s").unwrap().as_root(),
        RunId::new(run).unwrap(),
    );
    let ended = place.runtime.ended(&run).await;
    assert!(ended.is_err(), "{ended:?}");
    assert_eq!(bobs().await, before);
}

#[tokio::test]
async fn a_branch_keeps_whole_steps() {
    let place = Place::new();
    place.ended("look").await;
    // The message with the call is kept with its result.
    let body = json!({ "messageIndex": 1, "newSessionId": "copy" });
    let branched = place.post("/sessions/s/branch", body.clone()).await.ok();
    assert_eq!(branched, json!({ "sessionId": "copy" }));
    let messages = place.get("/sessions/copy/messages").await.ok();
    assert_eq!(messages["total"], 3);
    let taken = place.post("/sessions/s/branch", body).await;
    taken.is(409, "STALE");

    let newest = place.get("/sessions/s/checkpoints").await.ok()["items"][0]["id"].clone();
    let body = json!({ "checkpointId": newest });
    let branched = place.post("/sessions/s/branch", body).await.ok();
    assert_eq!(branched, json!({ "sessionId": "session-1" }));
    let messages = place.get("/sessions/session-1/messages").await.ok();
    assert_eq!(messages["total"], 4);
    // The copy is Alice's too, and can be continued.
    let body = json!({ "sessionId": "copy", "mode": "with_message", "message": "hello" });
    place.post("/resume", body).await.ok();

    let bad: [Value; 4] = [
        json!({}),
        json!({ "messageIndex": 0, "checkpointId": newest }),
        json!({ "messageIndex": 99 }),
        json!({ "checkpointId": "never" }),
    ];
    for body in bad {
        let answer = place.post("/sessions/s/branch", body).await;
        answer.is(400, "VALIDATION_ERROR");
    }
}

/// proves in part: SRV-01
#[tokio::test]
async fn a_session_has_no_workspaces_yet() {
    let place = Place::new();
    place.ended("hello").await;
    let found = place.get("/workspaces?sessionId=s").await.ok();
    assert_eq!(found, json!({ "workspaces": [] }));
    let none = place.get("/workspaces?sessionId=never").await;
    none.is(404, "NOT_FOUND");
}
