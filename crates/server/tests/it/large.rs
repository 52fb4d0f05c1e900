//! Tests of histories that are too large for one response.

use axum::body::Body;
use axum::http::Response;
use helix_agents_core::SessionId;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::message::UserMessage;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::store::{Change, Commit};
use helix_agents_core::time::Timestamp;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::kit::{
    ADMIN, ALICE, Answer, BOB, NOW, Outside, Place, builder, request, runtime, tokens,
};

const MIB: usize = 1024 * 1024;

/// Appends messages of these sizes in bytes.
async fn append(place: &Place, sizes: &[usize]) {
    for size in sizes {
        let id = SessionId::new("s").unwrap();
        let said = UserMessage::new("x".repeat(*size));
        let commit = Commit::new(id, Timestamp::from_millis(NOW)).then(Change::AppendUser(said));
        let store = &place.runtime.backend().store;
        store.commit(commit).await.unwrap();
    }
}

/// Returns all items, read page by page, and the sizes of the responses.
async fn all(place: &Place) -> (Vec<Value>, Vec<usize>) {
    let (mut messages, mut sizes) = (Vec::new(), Vec::new());
    loop {
        let path = format!("/sessions/s/messages?limit=1000&offset={}", messages.len());
        let answer = place.get(&path).await;
        let page = answer.ok();
        let items = page["messages"].as_array().unwrap();
        assert!(!items.is_empty(), "it has more");
        messages.extend(items.iter().cloned());
        sizes.push(answer.bytes.len());
        let more = messages.len() < usize::try_from(page["total"].as_u64().unwrap()).unwrap();
        assert_eq!(page["hasMore"], more);
        if !more {
            return (messages, sizes);
        }
    }
}

async fn check(place: &Place) {
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "wait" });
    place.post("/start", body).await.ok();
    place.outside.reached().await;
    let small = all(place).await.0.len();
    assert_eq!(
        all(place).await.1.len(),
        1,
        "a small history is one response"
    );
    append(place, &[300_000; 10]).await;
    append(place, &[3 * MIB, 100, 100]).await;
    let (messages, sizes) = all(place).await;
    assert_eq!(messages.len(), small + 13);
    let largest = sizes.iter().max().unwrap();
    assert!(*largest < 3 * MIB + 10_000, "one large message: {sizes:?}");
    let large = sizes.iter().filter(|size| **size > MIB + 10_000);
    assert_eq!(large.count(), 1, "it is alone in its response: {sizes:?}");
    assert_eq!(messages.last().unwrap()["open"], true);
    place.outside.open();
}

#[tokio::test]
async fn a_large_history_is_split_into_bounded_responses() {
    check(&Place::new()).await;
}

#[tokio::test]
async fn a_large_history_in_a_file_is_split_into_bounded_responses() {
    let folder = tempfile::tempdir().unwrap();
    check(&Place::sqlite(folder.path()).await).await;
}

/// Usage entries that tools record can be large too.
#[tokio::test]
async fn large_usage_entries_are_split_into_bounded_responses() {
    let place = Place::new();
    place.ended("hello").await;
    for n in 0..5 {
        let entry = json!({
            "id": format!("u-{n}"), "runId": "run-1", "step": 1, "timestamp": NOW, "kind": "custom",
            "name": "notes", "quantity": 1, "data": "x".repeat(400_000),
        });
        let entry = serde_json::from_value(entry).unwrap();
        let id = SessionId::new("s").unwrap();
        let commit = Commit::new(id, Timestamp::from_millis(NOW)).then(Change::Usage(entry));
        place.runtime.backend().store.commit(commit).await.unwrap();
    }
    let mut entries = 0;
    loop {
        let path = format!("/sessions/s/usage?entries=true&limit=1000&offset={entries}");
        let answer = place.get(&path).await;
        assert!(answer.bytes.len() < MIB + 10_000, "{}", answer.bytes.len());
        let page = answer.ok();
        assert_eq!(page["tokens"]["total"], 12, "the sum is of everything");
        entries += page["entries"].as_array().unwrap().len();
        if page["hasMore"] == false {
            break;
        }
    }
    assert_eq!(entries, 1 + 5);
}

/// A server with this memory budget for large responses, in total and per user.
async fn tight(all: usize, of_one: usize) -> Place {
    let outside = Outside::new();
    let runtime = runtime(MemoryStore::new(), &outside);
    let server = builder(&runtime).authenticate(tokens());
    let server = server.answers_bytes(all).answers_bytes_per_user(of_one);
    let place = Place {
        app: server.build().unwrap().router(),
        outside,
        runtime,
    };
    place.ended("hello").await;
    append(&place, &[900_000; 2]).await;
    place
}

/// Sends a request and does not read the response.
async fn unread(place: &Place, token: Option<&str>, path: &str) -> Response<Body> {
    let request = request(token, "GET", path, None);
    place.app.clone().oneshot(request).await.unwrap()
}

const MESSAGES: &str = "/sessions/s/messages";

#[tokio::test(start_paused = true)]
async fn unread_large_responses_of_one_user_leave_room_for_others() {
    let place = tight(8 * MIB, 2 * MIB).await;
    let mut kept = Vec::new();
    for _ in 0..2 {
        let answer = unread(&place, ALICE, MESSAGES).await;
        assert_eq!(answer.status(), 200);
        kept.push(answer);
    }
    let refused = Answer::of(unread(&place, ALICE, MESSAGES).await).await;
    refused.is(429, "RATE_LIMITED");
    assert_eq!(refused.headers["retry-after"], "1");
    // Other users, and responses that are not lists, are not affected.
    place.ask(ADMIN, "GET", MESSAGES, None).await.ok();
    place.ask(BOB, "GET", "/sessions", None).await.ok();
    place.get("/agents").await.ok();
    // Reading a response makes room.
    Answer::of(kept.remove(0)).await.ok();
    place.get(MESSAGES).await.ok();
}

#[tokio::test(start_paused = true)]
async fn unread_large_responses_stay_within_the_total_budget() {
    let place = tight(2 * MIB, 2 * MIB).await;
    let first = unread(&place, ALICE, MESSAGES).await;
    let second = unread(&place, ADMIN, MESSAGES).await;
    assert_eq!(
        (first.status(), second.status()),
        (200.try_into().unwrap(), 200.try_into().unwrap())
    );
    let refused = place.ask(ADMIN, "GET", MESSAGES, None).await;
    refused.is(429, "RATE_LIMITED");
    drop(second);
    place.ask(ADMIN, "GET", MESSAGES, None).await.ok();
}

#[tokio::test(start_paused = true)]
async fn small_responses_do_not_count_against_the_budget() {
    let place = tight(2 * MIB, 2 * MIB).await;
    let mut kept = Vec::new();
    for _ in 0..50 {
        let answer = unread(&place, ALICE, "/sessions").await;
        assert_eq!(answer.status(), 200);
        kept.push(answer);
    }
}
