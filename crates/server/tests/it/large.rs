//! Histories that are too large for one answer.

use helix_agents_core::SessionId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::store::{Change, Commit};
use helix_agents_core::time::Timestamp;
use serde_json::{Value, json};

use crate::kit::{NOW, Place};

const MIB: usize = 1024 * 1024;

/// Appends messages of so many bytes.
async fn append(place: &Place, sizes: &[usize]) {
    for size in sizes {
        let id = SessionId::new("s").unwrap();
        let said = UserMessage::new("x".repeat(*size));
        let commit = Commit::new(id, Timestamp::from_millis(NOW)).then(Change::AppendUser(said));
        let store = &place.runtime.backend().store;
        store.commit(commit).await.unwrap();
    }
}

/// Everything, as a client gets it that goes on after what it got; and how large the answers were.
async fn all(place: &Place) -> (Vec<Value>, Vec<usize>) {
    let (mut messages, mut sizes) = (Vec::new(), Vec::new());
    loop {
        let path = format!("/sessions/s/messages?limit=1000&offset={}", messages.len());
        let answer = place.get(&path).await;
        let page = answer.ok();
        let items = page["messages"].as_array().unwrap();
        assert!(!items.is_empty(), "it goes on");
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
    assert_eq!(all(place).await.1.len(), 1, "what is small is one answer");
    append(place, &[300_000; 10]).await;
    append(place, &[3 * MIB, 100, 100]).await;
    let (messages, sizes) = all(place).await;
    assert_eq!(messages.len(), small + 13);
    let largest = sizes.iter().max().unwrap();
    assert!(*largest < 3 * MIB + 10_000, "one large message: {sizes:?}");
    let large = sizes.iter().filter(|size| **size > MIB + 10_000);
    assert_eq!(large.count(), 1, "it is alone in its answer: {sizes:?}");
    assert_eq!(messages.last().unwrap()["open"], true);
    place.outside.open();
}

#[tokio::test]
async fn a_large_history_comes_in_answers_that_are_not() {
    check(&Place::new()).await;
}

#[tokio::test]
async fn a_large_history_in_a_file_comes_in_answers_that_are_not() {
    let folder = tempfile::tempdir().unwrap();
    check(&Place::sqlite(folder.path()).await).await;
}
