//! Tests of `/start`.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::kit::Place;

fn hello(session: &str) -> Value {
    json!({ "sessionId": session, "agentType": "desk", "message": "hello" })
}

/// proves in part: SRV-01
#[tokio::test]
async fn a_start_returns_the_ids() {
    let place = Place::new();
    let started = place.post("/start", hello("s")).await.ok();
    let expected = json!({ "sessionId": "s", "streamId": "s", "runId": "run-1" });
    assert_eq!(started, expected);
    let named = json!({ "agentType": "desk", "message": "hello" });
    let started = place.post("/start", named).await.ok();
    let expected = json!({
        "sessionId": "session-1", "streamId": "session-1", "runId": "run-2"
    });
    assert_eq!(started, expected);
}

/// Queries look labels up in rows, so a session has a bounded number of them.
#[tokio::test]
async fn a_session_with_too_many_labels_is_refused() {
    let place = Place::new();
    let with = |key: &str, value: Value| {
        let mut body = hello("s");
        body[key] = value;
        body
    };
    let tags = |count: usize| json!((0..count).map(|n| format!("t-{n}")).collect::<Vec<_>>());
    let metadata = |count: usize, value: &str| {
        let pairs = (0..count).map(|n| (format!("k-{n}"), json!(value)));
        Value::Object(pairs.collect())
    };
    for (key, value) in [
        ("tags", tags(65)),
        ("tags", tags(10_000)),
        ("tags", json!(["x".repeat(257)])),
        ("metadata", metadata(257, "v")),
        ("metadata", metadata(10, &"v".repeat(7_000))),
    ] {
        let refused = place.post("/start", with(key, value)).await;
        refused.is(400, "VALIDATION_ERROR");
    }
    let mut most = with("tags", tags(64));
    most["metadata"] = metadata(256, "v");
    place.post("/start", most).await.ok();
}

#[tokio::test]
async fn a_repeated_start_returns_the_same_ids() {
    let place = Place::new();
    let first = place.post("/start", hello("s")).await.ok();
    place.settled("s").await;
    assert_eq!(place.post("/start", hello("s")).await.ok(), first);
    // Also after later turns of the session.
    let more = json!({ "sessionId": "s", "mode": "with_message", "message": "look" });
    place.post("/resume", more).await.ok();
    assert_eq!(place.post("/start", hello("s")).await.ok(), first);
    place.settled("s").await;
    assert_eq!(place.post("/start", hello("s")).await.ok(), first);
    let messages = place.get("/sessions/s/messages").await.ok();
    assert_eq!(messages["total"], 6);
}

#[tokio::test]
async fn of_many_concurrent_starts_one_starts_and_all_get_its_ids() {
    let place = Place::new();
    let starts = (0..20).map(|_| place.post("/start", hello("s")));
    let answers = join_all(starts).await;
    let expected = json!({ "sessionId": "s", "streamId": "s", "runId": answers[0].ok()["runId"] });
    for answer in &answers {
        assert_eq!(answer.ok(), expected);
    }
    place.settled("s").await;
    let runs = place.get("/sessions/s/runs").await.ok();
    assert_eq!(runs["total"], 1);
    let messages = place.get("/sessions/s/messages").await.ok();
    assert_eq!(messages["total"], 2);
}

#[tokio::test]
async fn another_message_does_not_start_a_session_that_exists() {
    let place = Place::new();
    let start = |message: &str| {
        let body = json!({ "sessionId": "s", "agentType": "desk", "message": message });
        place.post("/start", body)
    };
    start("wait").await.ok();
    place.outside.reached().await;
    start("hello").await.is(409, "ALREADY_RUNNING");
    place.outside.open();
    place.settled("s").await;
    start("hello").await.is(409, "ALREADY_COMPLETED");

    let place = Place::new();
    place.ended("ask").await;
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "hello" });
    let answer = place.post("/start", body).await;
    answer.is(409, "AWAITING_ANSWERS");

    let place = Place::new();
    place.ended("fail").await;
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "hello" });
    let answer = place.post("/start", body).await;
    answer.is(409, "ALREADY_COMPLETED");
}

#[tokio::test]
async fn every_field_of_a_start_is_stored() {
    let place = Place::new();
    let body = json!({
        "sessionId": "s",
        "agentType": "desk",
        "message": [
            { "role": "user", "content": "first", "metadata": { "from": "web" } },
            { "role": "user", "content": "hello",
              "files": [{ "data": "data:text/plain,hi", "mediaType": "text/plain" }] },
        ],
        "state": { "customer": "Ada" },
        "metadata": { "channel": "mail" },
        "tags": ["vip"],
    });
    place.post("/start", body.clone()).await.ok();
    place.settled("s").await;
    let session = place.get("/sessions/s").await.ok();
    assert_eq!(session["state"], json!({ "visits": 0, "customer": "Ada" }));
    assert_eq!(session["metadata"], json!({ "channel": "mail" }));
    assert_eq!(session["tags"], json!(["vip"]));
    assert_eq!(session["userId"], "alice");
    let messages = place.get("/sessions/s/messages").await.ok();
    assert_eq!(
        messages["messages"].as_array().unwrap()[..2],
        [
            json!({ "role": "user", "content": "first", "metadata": { "from": "web" } }),
            json!({ "role": "user", "content": "hello",
                    "files": [{ "data": "data:text/plain,hi", "mediaType": "text/plain" }] }),
        ]
    );
    // The same two messages are the same start; the first of them alone is not.
    place.post("/start", body).await.ok();
    let first = json!([{ "role": "user", "content": "first", "metadata": { "from": "web" } }]);
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": first });
    place
        .post("/start", body.clone())
        .await
        .is(409, "ALREADY_COMPLETED");
    // Also after a later turn with another message.
    let more = json!({ "sessionId": "s", "mode": "with_message", "message": "hello" });
    let started = place.post("/resume", more).await.ok();
    place
        .run_ended("s", started["runId"].as_str().unwrap())
        .await;
    place
        .post("/start", body)
        .await
        .is(409, "ALREADY_COMPLETED");
}

#[tokio::test]
async fn a_branch_was_not_started_with_the_messages_it_copied() {
    let place = Place::new();
    place.ended("hello").await;
    let body = json!({ "messageIndex": 0, "newSessionId": "copy" });
    place.post("/sessions/s/branch", body).await.ok();
    let more = json!({ "sessionId": "copy", "mode": "with_message", "message": "look" });
    let started = place.post("/resume", more).await.ok();
    place
        .run_ended("copy", started["runId"].as_str().unwrap())
        .await;
    let body = json!({ "sessionId": "copy", "agentType": "desk", "message": "hello" });
    place
        .post("/start", body)
        .await
        .is(409, "ALREADY_COMPLETED");
}

#[tokio::test]
async fn too_much_metadata_is_dropped_and_the_message_stays() {
    let place = Place::new();
    let large = "x".repeat(64 * 1024);
    let message = json!([
        { "role": "user", "content": "hello", "metadata": { "large": large } },
        { "role": "user", "content": "look", "metadata": { "small": "x" } },
    ]);
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": message });
    place.post("/start", body).await.ok();
    let messages = place.get("/sessions/s/messages?limit=2").await.ok();
    let expected = json!([
        { "role": "user", "content": "hello" },
        { "role": "user", "content": "look", "metadata": { "small": "x" } },
    ]);
    assert_eq!(messages["messages"], expected);
}

#[tokio::test]
async fn invalid_starts_are_refused() {
    let place = Place::new();
    place.ended("hello").await;
    let desk = |message: Value| json!({ "agentType": "desk", "message": message });
    let deep = (0..110).fold(json!(1), |inner, _| json!([inner]));
    let refused = [
        json!({ "agentType": "desk" }),
        json!({ "message": "hello" }),
        desk(json!("")),
        desk(json!([])),
        desk(json!(7)),
        desk(json!([{ "role": "assistant", "content": "hello" }])),
        desk(json!([{ "role": "user", "content": "" }])),
        desk(json!([{ "role": "user", "content": "x", "metadata": { "deep": deep } }])),
        json!({ "agentType": "desk", "message": "x", "state": [1] }),
        json!({ "agentType": "desk", "message": "x", "metadata": { "n": 1 } }),
        json!({ "agentType": "desk", "message": "x", "sessionId": "../etc" }),
        json!({ "agentType": "desk", "message": "x", "sessionId": "" }),
        json!({ "agentType": "desk", "message": "x", "sessionId": "a\r\nb: c" }),
        json!({ "agentType": "desk", "message": "x", "sessionId": "x".repeat(257) }),
        json!([]),
        Value::Null,
    ];
    for body in refused {
        let answer = place.post("/start", body.clone()).await;
        assert_eq!(
            answer.refused(),
            (400, "VALIDATION_ERROR".to_owned()),
            "{body}"
        );
    }
    let unknown = json!({ "agentType": "nobody", "message": "hello" });
    place.post("/start", unknown).await.is(404, "NOT_FOUND");
}
