//! Pages of the history, and snapshots of one moment.

use helix_agents_core::SessionId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::store::{Change, Commit};
use helix_agents_core::time::Timestamp;
use serde_json::{Value, json};

use super::agents::Desk;
use super::page::{Page, user};
use super::reading::{Bubble, essence, whole};
use crate::interleaved_store::InterleavedStore;
use crate::kit::NOW;

fn list(of: &Value) -> Vec<Value> {
    of["messages"].as_array().unwrap().clone()
}

/// proves in part: TRN-05
#[tokio::test]
async fn pages_have_whole_turns_and_together_everything() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    for text in [
        "look",
        "think",
        "explode",
        "note",
        "bad input",
        "look",
        "count",
    ] {
        page.say(text).await;
    }
    let all = desk.snapshot().await;
    assert_eq!(all["hasMore"], false);
    for (stored, live) in list(&all).iter().zip(&page.messages) {
        if live["role"] == "assistant" {
            assert_eq!(essence(stored), essence(live));
        }
    }
    for limit in 1..=8 {
        let mut together = Vec::new();
        loop {
            let offset = together.len() / 2;
            let path = format!("/chat/s/messages?offset={offset}&limit={limit}");
            let read = desk.place.get(&path).await.ok();
            assert_eq!(read["total"], 7);
            for message in list(&read) {
                let open = |part: &&Value| {
                    part["type"] == "dynamic-tool" && part["state"] == "input-available"
                };
                assert_eq!(message["parts"].as_array().unwrap().iter().find(open), None);
                together.push(message);
            }
            assert_eq!(read["hasMore"], together.len() < 14, "{limit} {offset}");
            assert!(list(&read).len() <= 2 * limit);
            if together.len() == 14 {
                break;
            }
        }
        assert_eq!(together, list(&all), "{limit}");
    }
    let past = desk.place.get("/chat/s/messages?offset=7").await.ok();
    assert_eq!(
        past,
        json!({ "messages": [], "total": 7, "hasMore": false })
    );
    let none = desk.place.get("/chat/s/messages?limit=0").await.ok();
    assert_eq!(none, json!({ "messages": [], "total": 7, "hasMore": true }));
    for bad in ["offset=-1", "limit=x", "limit=201"] {
        let answer = desk.place.get(&format!("/chat/s/messages?{bad}")).await;
        assert!(
            answer.status == 400 || answer.status == 200,
            "{bad}: {}",
            answer.text()
        );
    }
    desk.place
        .get("/chat/never/messages")
        .await
        .is(404, "NOT_FOUND");
    desk.place
        .get("/chat/never/snapshot")
        .await
        .is(404, "NOT_FOUND");
}

/// A history that is longer than what is read at once, and larger than a snapshot.
///
/// proves in part: TRN-03, TRN-05
#[tokio::test]
async fn a_snapshot_of_a_large_history_has_its_latest_turns() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    for turn in 0..150 {
        page.messages = vec![user(
            &format!("u{turn}"),
            &format!("count {turn} {}", "x".repeat(20_000)),
        )];
        page.send().await;
        page.messages.clear();
    }
    let snapshot = desk.snapshot().await;
    assert_eq!(snapshot["hasMore"], true);
    let shown = list(&snapshot);
    let bytes = snapshot.to_string().len();
    assert!((1_500_000..2_500_000).contains(&bytes), "{bytes}");
    assert_eq!(
        (&shown[0]["role"], &shown.last().unwrap()["id"]),
        (&json!("user"), &json!("msg-299"))
    );
    // The turns before it are on the pages, and the ids agree.
    let mut all = Vec::new();
    for offset in [0, 60, 120] {
        let path = format!("/chat/s/messages?offset={offset}&limit=60");
        all.extend(list(&desk.place.get(&path).await.ok()));
    }
    assert_eq!(all.len(), 300);
    assert_eq!(all[300 - shown.len()..], shown);
    for (at, message) in all.iter().enumerate().filter(|(at, _)| at % 2 == 1) {
        assert_eq!(message["id"], format!("msg-{at}"));
    }
    // A message that was sent long ago is still known.
    let calls = desk.seen.calls();
    page.messages = vec![user("u10", &format!("count 10 {}", "x".repeat(20_000)))];
    let bubble = page.send().await;
    assert_eq!((bubble.id(), desk.seen.calls()), ("msg-21", calls));
}

/// One that is larger than a snapshot by itself is shown whole.
#[tokio::test]
async fn a_snapshot_has_at_least_one_turn() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("count").await;
    page.say(&format!("count {}", "y".repeat(2_200_000))).await;
    let snapshot = desk.snapshot().await;
    assert_eq!(
        (list(&snapshot).len(), &snapshot["hasMore"]),
        (2, &json!(true))
    );
    assert_eq!(list(&snapshot)[0]["id"], "u2");
}

/// A message that is written while a snapshot is taken is in it, or is not; its parts agree.
///
/// proves in part: TRN-03
#[tokio::test]
async fn a_snapshot_is_of_one_moment() {
    let store = InterleavedStore::new();
    let desk = Desk::over(store.clone());
    let mut page = Page::of(&desk);
    page.say("count").await;
    let id = SessionId::new("s").unwrap();
    let message = UserMessage::new("in between");
    let commit = Commit::new(id, Timestamp::from_millis(NOW)).then(Change::AppendUser(message));
    store.then(commit);
    let snapshot = desk.snapshot().await;
    assert!(store.has_happened());
    assert_eq!(list(&snapshot).len(), 3, "{snapshot}");
    assert_eq!(list(&snapshot)[2]["parts"][0]["text"], "in between");
}

/// proves: TRN-03
#[tokio::test]
async fn a_snapshot_has_what_a_page_needs() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("note").await;
    let snapshot = desk.snapshot().await;
    let keys: Vec<_> = snapshot.as_object().unwrap().keys().cloned().collect();
    let expected = [
        "agentType",
        "checkpointId",
        "hasMore",
        "messages",
        "pending",
        "runId",
        "sessionId",
        "state",
        "status",
        "streamSequence",
        "timestamp",
    ];
    assert_eq!(keys, expected);
    assert_eq!(
        snapshot["state"],
        json!({ "counter": 2, "items": ["a", "b"] })
    );
    assert_eq!(
        (&snapshot["status"], &snapshot["timestamp"]),
        (&json!("ended"), &json!(NOW))
    );
    assert!(snapshot["checkpointId"].is_string());
    // The state in the stream is that of the snapshot.
    let mut state = json!({ "counter": 0, "items": [] });
    for patches in page.last.data("state-patch") {
        for patch in patches["patches"].as_array().unwrap() {
            match patch["path"].as_str().unwrap() {
                "/counter" => state["counter"] = patch["value"].clone(),
                "/items/-" => state["items"]
                    .as_array_mut()
                    .unwrap()
                    .push(patch["value"].clone()),
                other => panic!("{other}"),
            }
        }
    }
    assert_eq!(state, snapshot["state"]);
    assert_eq!(
        page.last.data("progress"),
        [&json!({ "item": "a" }), &json!({ "item": "b" })]
    );
    // Of a session that is new, paused and failed.
    page.say("pay").await;
    let paused = desk.snapshot().await;
    assert_eq!(
        (
            &paused["status"],
            paused["pending"].as_array().unwrap().len()
        ),
        (&json!("paused"), 1)
    );
    page.say("fail").await;
    let failed = desk.snapshot().await;
    assert_eq!(
        (&failed["status"], &failed["error"]["code"]),
        (&json!("failed"), &json!("provider_auth"))
    );
    assert_eq!(failed["pending"], json!([]));
    page.messages.retain(|message| message["role"] == "user");
    page.say("count").await;
    assert_eq!(desk.snapshot().await.get("error"), None);
}

/// Where the chunks of a turn are no longer kept, it is made from the messages.
///
/// proves in part: CHT-06
#[tokio::test]
async fn a_turn_whose_chunks_are_gone_is_replayed_from_its_messages() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("count").await;
    let mut sent = page.messages.clone();
    page.say("look").await;
    sent.push(page.messages[2].clone());
    let root = SessionId::new("s").unwrap();
    let streams = &helix_agents_core::runtime::Runtime::backend(&desk.place.runtime).streams;
    let end = streams.info(&root).await.unwrap().unwrap().last;
    streams.trim(&root, end).await.unwrap();
    let replayed = Bubble::of(&whole(&desk.place.get("/chat/s/stream").await));
    assert_eq!(essence(&replayed.message), essence(&page.messages[3]));
    page.messages = sent;
    let again = page.send().await;
    assert_eq!(essence(&again.message), essence(&replayed.message));
    assert_eq!(desk.seen.calls(), 3);
}
