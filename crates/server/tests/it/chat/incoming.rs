//! New user messages: several, hidden ones, files and metadata.

use helix_agents_core::SessionId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::store::{Change, Commit};
use helix_agents_core::time::Clock;
use serde_json::{Value, json};

use super::agents::Desk;
use super::page::{body, user};
use super::reading::{Bubble, essence, whole};
use crate::kit::Answer;

async fn post(desk: &Desk, body: Value) -> Answer {
    desk.place.post("/chat", body).await
}

fn hidden(id: &str, text: &str) -> Value {
    let mut message = user(id, text);
    message["metadata"] = json!({ "hidden": true });
    message
}

/// The user messages as they are stored.
async fn stored(desk: &Desk) -> Vec<Value> {
    let all = desk.place.get("/sessions/s/messages").await.ok();
    let all = all["messages"].as_array().unwrap().iter();
    all.filter(|message| message["role"] == "user")
        .cloned()
        .collect()
}

/// proves: CHT-08
#[tokio::test]
async fn all_user_messages_at_the_end_are_taken() {
    let desk = Desk::new();
    let mut with_file = user("u2", "count");
    let file = json!({ "type": "file", "url": "data:text/plain;base64,SGk=", "mediaType": "text/plain", "filename": "hi.txt" });
    with_file["parts"]
        .as_array_mut()
        .unwrap()
        .push(file.clone());
    with_file["metadata"] = json!({ "from": "phone" });
    let only_file = json!({ "id": "u3", "role": "user", "parts": [file] });
    let sent = [
        user("u1", "first"),
        hidden("h1", "a hint"),
        only_file.clone(),
        with_file.clone(),
        hidden("h2", "the time"),
    ];
    let mut request = body(&sent);
    request["metadata"] = json!({ "tenant": "t1" });
    let bubble = Bubble::of(&whole(&post(&desk, request.clone()).await));
    // Each one is a message of its own, in order; the model is given the hidden ones, too.
    assert_eq!(
        desk.seen.last_users(),
        ["first", "a hint", "", "count", "the time"]
    );
    assert_eq!((bubble.id(), bubble.text().as_str()), ("msg-5", "turn 3"));
    let stored = stored(&desk).await;
    let metadata: Vec<_> = stored
        .iter()
        .map(|message| message["metadata"].clone())
        .collect();
    let session = json!({ "tenant": "t1" });
    let hides = json!({ "hidden": true });
    assert_eq!(
        metadata,
        [
            session.clone(),
            hides.clone(),
            session.clone(),
            json!({ "from": "phone" }),
            hides
        ]
    );
    let files: Vec<_> = stored
        .iter()
        .map(|message| message["files"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(files, [0, 0, 1, 1, 0]);
    let found = desk.place.get("/sessions/s").await.ok();
    assert_eq!(found["metadata"], session);
    // The page is shown what the user wrote, with the ids that it gave.
    let snapshot = desk.snapshot().await;
    let mut first = user("u1", "first");
    first["metadata"] = session.clone();
    let mut last = only_file;
    last["metadata"] = session;
    assert_eq!(snapshot["messages"][0], first);
    assert_eq!(snapshot["messages"][1], last);
    assert_eq!(snapshot["messages"][2], with_file);
    assert_eq!(essence(&snapshot["messages"][3]), essence(&bubble.message));
    assert_eq!(snapshot["messages"].as_array().unwrap().len(), 4);
    assert!(!snapshot.to_string().contains("a hint"));
    // The same request again finds all of them, hidden ones too.
    let again = Bubble::of(&whole(&post(&desk, request).await));
    assert_eq!(again.message, bubble.message);
    assert_eq!(desk.seen.calls(), 1);
    let pages = desk.place.get("/chat/s/messages").await.ok();
    assert_eq!(
        (&pages["total"], pages["messages"].as_array().unwrap().len()),
        (&json!(1), 4)
    );
}

/// proves: CHT-08
#[tokio::test]
async fn metadata_that_is_too_large_is_dropped_and_the_rest_stays() {
    let desk = Desk::new();
    let large = "x".repeat(64 * 1024);
    let fits = "y".repeat(64 * 1024 - r#"{"k":""}"#.len());
    let mut messages = [
        user("u1", "one"),
        user("u2", "two"),
        user("u3", "three"),
        user("u4", "four"),
        user("u5", "count"),
    ];
    messages[1]["metadata"] = json!({ "k": large });
    messages[2]["metadata"] = json!({ "hidden": true, "k": large });
    messages[3]["metadata"] = json!({ "k": fits });
    messages[4]["metadata"] = json!(null);
    let mut request = body(&messages);
    request["metadata"] = json!({ "k": large });
    whole(&desk.ask_with("POST", "/chat", Some(request), &[]).await);
    let stored = stored(&desk).await;
    let metadata: Vec<_> = stored
        .iter()
        .map(|message| message.get("metadata").cloned())
        .collect();
    // What hides a message stays, or the user would see it.
    let expected = [
        None,
        None,
        Some(json!({ "hidden": true })),
        Some(json!({ "k": fits })),
        None,
    ];
    assert_eq!(metadata, expected);
    let of_session = async || desk.place.get("/sessions/s").await.ok()["metadata"].clone();
    assert_eq!(of_session().await, json!({}));
    let shown = desk.snapshot().await["messages"].as_array().unwrap().len();
    assert_eq!(shown, 5);
    // What the session has stays, where it would have too much with the new.
    for (id, key, kept) in [
        ("u6", "a", json!({ "a": fits })),
        ("u7", "b", json!({ "a": fits })),
        ("u8", "a", json!({ "a": "z" })),
    ] {
        let mut request = body(&[user(id, "count")]);
        let value = if id == "u8" { "z" } else { &fits };
        request["metadata"] = json!({ key: value });
        whole(&desk.ask_with("POST", "/chat", Some(request), &[]).await);
        assert_eq!(of_session().await, kept, "{id}");
    }
}

/// A message that only the model is given, sent alone.
///
/// proves: CHT-08
#[tokio::test]
async fn hidden_messages_alone_begin_a_turn() {
    let desk = Desk::new();
    let first = whole(&post(&desk, body(&[user("u1", "count")])).await);
    let answer = Bubble::of(&first).message;
    let sent = body(&[
        user("u1", "count"),
        answer.clone(),
        hidden("h1", "the user is back"),
    ]);
    let bubble = Bubble::of(&whole(&post(&desk, sent.clone()).await));
    assert_eq!(desk.seen.last_users(), ["count", "the user is back"]);
    assert_eq!(bubble.id(), "msg-3");
    let again = Bubble::of(&whole(&post(&desk, sent).await));
    assert_eq!((again.id(), desk.seen.calls()), ("msg-3", 2));
    let snapshot = desk.snapshot().await;
    let ids: Vec<_> = snapshot["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["id"])
        .collect();
    assert_eq!(ids, ["u1", "msg-1", "msg-3"]);
}

/// An application that gives the model the same hint with each turn may give it the same id, too.
///
/// proves: CHT-08
#[tokio::test]
async fn a_hidden_message_whose_id_is_used_again_is_of_the_new_turn() {
    for is_first in [true, false] {
        let desk = Desk::new();
        let mut all = Vec::new();
        let mut bubbles = Vec::new();
        let mut requests = Vec::new();
        for turn in 1..=3 {
            let hint = hidden("ctx", &format!("hint {turn}"));
            let mut sent = vec![user(&format!("u{turn}"), "count")];
            sent.insert(usize::from(!is_first), hint);
            let request = body(&[all.clone(), sent.clone()].concat());
            let bubble = Bubble::of(&whole(&post(&desk, request.clone()).await));
            let users = desk.seen.last_users();
            assert_eq!(users.len(), 2 * turn, "{users:?}");
            assert!(users.contains(&format!("hint {turn}")), "{users:?}");
            all.push(user(&format!("u{turn}"), "count"));
            all.push(bubble.message.clone());
            bubbles.push(bubble);
            requests.push(request);
        }
        // The same requests again are answered by their own turns.
        for (request, bubble) in requests.into_iter().zip(bubbles) {
            let again = Bubble::of(&whole(&post(&desk, request).await));
            assert_eq!(essence(&again.message), essence(&bubble.message));
        }
        assert_eq!(desk.seen.calls(), 3);
    }
}

/// What stands after a message that was never answered was sent with it, and is not sent again.
#[tokio::test]
async fn what_was_sent_with_a_message_is_not_sent_again_with_the_next() {
    let desk = Desk::new();
    let first = [
        hidden("h0", "before"),
        user("u1", "fail"),
        hidden("h1", "after"),
    ];
    post(&desk, body(&first)).await;
    let mut next = first.to_vec();
    next.push(user("u2", "count"));
    let bubble = Bubble::of(&whole(&post(&desk, body(&next)).await));
    assert_eq!(bubble.text(), "turn 2");
    assert_eq!(desk.seen.last_users(), ["before", "fail", "after", "count"]);
}

/// The messages with which the latest turn began are found, however long the turn is.
///
/// proves: CHT-06
#[tokio::test]
async fn the_same_request_for_a_long_turn_runs_once() {
    let desk = Desk::new();
    let sent = body(&[user("u1", "count")]);
    let bubble = Bubble::of(&whole(&post(&desk, sent.clone()).await));
    let mut commit = Commit::new(SessionId::new("s").unwrap(), desk.clock.now());
    for _ in 0..1400 {
        commit = commit.then(Change::AppendUser(UserMessage::hidden("a note")));
    }
    let store = &Runtime::backend(&desk.place.runtime).store;
    store.commit(commit).await.unwrap();
    let again = Bubble::of(&whole(&post(&desk, sent).await));
    assert_eq!(again.message, bubble.message);
    assert_eq!(desk.seen.calls(), 1);
}

/// proves: CHT-08
#[tokio::test]
async fn messages_that_say_nothing_are_refused_and_nothing_is_stored() {
    let desk = Desk::new();
    let parts = |parts: Value| json!({ "id": "u2", "role": "user", "parts": parts });
    let bad = [
        parts(json!([])),
        parts(json!([{ "type": "text", "text": "" }])),
        parts(json!([{ "type": "file", "mediaType": "text/plain" }])),
        json!({ "id": "u2", "role": "user", "parts": [], "content": "" }),
        json!({ "id": "no id at all", "role": "user", "parts": [{ "type": "text", "text": "hi" }] }),
        json!({ "id": "x".repeat(257), "role": "user", "parts": [{ "type": "text", "text": "hi" }] }),
    ];
    for message in &bad {
        let request = body(&[user("u1", "count"), message.clone()]);
        let answer = desk.ask_with("POST", "/chat", Some(request), &[]).await;
        answer.is(400, "VALIDATION_ERROR");
        desk.place
            .get("/status?sessionId=s")
            .await
            .is(404, "NOT_FOUND");
    }
    whole(&post(&desk, body(&[user("u1", "count")])).await);
    let before = desk.snapshot().await;
    for message in &bad {
        let request = body(std::slice::from_ref(message));
        let answer = desk.ask_with("POST", "/chat", Some(request), &[]).await;
        answer.is(400, "VALIDATION_ERROR");
    }
    assert_eq!(desk.snapshot().await, before);
    for request in [
        json!({ "messages": [user("u1", "hi")] }),
        json!({ "id": "new", "messages": [] }),
        json!({ "id": "../s", "messages": [user("u1", "hi")] }),
        json!({ "id": "new", "agentType": "nobody", "messages": [user("u1", "hi")] }),
        json!({ "id": "s", "agentType": "boss", "messages": [user("u9", "hi")] }),
        json!({ "id": "s", "trigger": "shout", "messages": [user("u9", "hi")] }),
        json!({ "id": "s", "messages": "hi" }),
    ] {
        let answer = desk
            .ask_with("POST", "/chat", Some(request.clone()), &[])
            .await;
        assert!(
            (400..=404).contains(&answer.status.as_u16()),
            "{request}: {}",
            answer.text()
        );
    }
    let other = desk
        .ask_with("POST", "/chat/t", Some(body(&[user("u1", "hi")])), &[])
        .await;
    other.is(400, "VALIDATION_ERROR");
    assert_eq!((desk.snapshot().await, desk.seen.calls()), (before, 1));
}

/// Clients without parts send a text.
#[tokio::test]
async fn a_message_may_be_a_plain_text_and_the_agent_stand_in_the_query() {
    let desk = Desk::new();
    let request =
        json!({ "messages": [{ "id": "u1", "role": "user", "content": "think", "parts": [] }] });
    let answer = desk
        .ask_with("POST", "/api/chat/s?agentType=clerk", Some(request), &[])
        .await;
    assert_eq!(Bubble::of(&whole(&answer)).text(), "The answer is 42.");
    let request = json!({ "id": "p", "messages": [user("u1", "a poem")] });
    let answer = desk
        .ask_with("POST", "/api/chat?agentType=poet", Some(request), &[])
        .await;
    let bubble = Bubble::of(&whole(&answer));
    assert_eq!(bubble.data("output"), [&json!({ "verses": 3 })]);
}
