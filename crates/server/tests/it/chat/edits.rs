//! Edited messages, answers that are wanted once more, and the same request again.

use serde_json::{Value, json};

use super::agents::Desk;
use super::page::{Page, body, paid, user};
use super::reading::{Bubble, essence, whole};
use crate::interleaved_store::InterleavedStore;

/// The request to answer this message, in the place of the one that has its id.
fn edit(messages: &[Value]) -> Value {
    let mut body = body(messages);
    body["messageId"] = messages.last().unwrap()["id"].clone();
    body
}

/// The request to answer the last message once more.
fn again(messages: &[Value]) -> Value {
    let mut body = body(messages);
    body["trigger"] = json!("regenerate-message");
    body
}

async fn send(desk: &Desk, body: Value) -> Bubble {
    Bubble::of(&whole(&desk.place.post("/chat", body).await))
}

fn ids(snapshot: &Value) -> Vec<&str> {
    let messages = snapshot["messages"].as_array().unwrap().iter();
    messages
        .map(|message| message["id"].as_str().unwrap())
        .collect()
}

async fn runs(desk: &Desk) -> Value {
    desk.place.get("/sessions/s/runs").await.ok()["total"].clone()
}

/// proves: CHT-11
#[tokio::test]
async fn an_edited_message_takes_the_place_of_its_turn() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("note").await;
    page.say("edit me one").await;
    page.say("note").await;
    assert_eq!(desk.snapshot().await["state"]["counter"], 4);
    let request = edit(&[
        page.messages[0].clone(),
        page.messages[1].clone(),
        user("u2", "edit me two"),
    ]);
    let bubble = send(&desk, request.clone()).await;
    // The model counts what the session has now; the state is that of then.
    assert_eq!(
        (bubble.id(), bubble.text().as_str()),
        ("msg-6", "turn 2: edit me two")
    );
    let snapshot = desk.snapshot().await;
    assert_eq!(
        snapshot["state"],
        json!({ "counter": 2, "items": ["a", "b"] })
    );
    assert_eq!(ids(&snapshot), ["u0", "msg-1", "u2", "msg-6"]);
    assert_eq!(snapshot["messages"][2], user("u2", "edit me two"));
    // It was told what may have taken effect, and the user is not shown that.
    let told = desk.seen.last_users();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[1].contains("note (n1_2)") && told[1].contains("changed an earlier message"),
        "{told:?}"
    );
    let (calls, count) = (desk.seen.calls(), runs(&desk).await);
    for _ in 0..2 {
        let replayed = send(&desk, request.clone()).await;
        assert_eq!(replayed.message, bubble.message);
    }
    assert_eq!((desk.seen.calls(), runs(&desk).await), (calls, count));
    assert_eq!(desk.snapshot().await["messages"], snapshot["messages"]);
}

/// proves: CHT-11
#[tokio::test]
async fn the_first_message_of_all_can_be_edited() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    for text in ["note", "count", "look"] {
        page.say(text).await;
    }
    let bubble = send(&desk, edit(&[user("u0", "edit me")])).await;
    assert_eq!(bubble.text(), "turn 1: edit me");
    let snapshot = desk.snapshot().await;
    assert_eq!(snapshot["state"], json!({ "counter": 0, "items": [] }));
    assert_eq!(ids(&snapshot), ["u0", bubble.id()]);
    let told = desk.seen.last_users();
    assert!(told[0].contains("note (n1), look (l1)"), "{told:?}");
    // A turn after it, and a page that is loaded.
    page.messages = snapshot["messages"].as_array().unwrap().clone();
    assert_eq!(page.say("count").await.text(), "turn 2");
    let loaded = Page::loaded(&desk).await;
    assert_eq!(essence(&loaded.messages[3]), essence(&page.messages[3]));
}

/// proves: CHT-11
#[tokio::test]
async fn the_last_answer_is_made_once_more() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("note").await;
    page.say("note").await;
    let request = again(&page.messages[..3]);
    let bubble = send(&desk, request.clone()).await;
    assert_eq!(bubble.text(), "State updated.");
    let snapshot = desk.snapshot().await;
    assert_eq!(snapshot["state"]["counter"], 4);
    assert_eq!(ids(&snapshot), ["u0", "msg-1", "u2", bubble.id()]);
    assert_eq!(runs(&desk).await, 3);
    // The id of the answer that is to be made again may be named.
    let mut named = request;
    named["messageId"] = json!(bubble.id());
    send(&desk, named).await;
    assert_eq!(
        (
            desk.snapshot().await["state"]["counter"].clone(),
            runs(&desk).await
        ),
        (json!(4), json!(4))
    );
    // So can be that of an earlier turn, and of one that failed.
    let first = send(&desk, again(&page.messages[..1])).await;
    let snapshot = desk.snapshot().await;
    assert_eq!(ids(&snapshot), ["u0", first.id()]);
    assert_eq!(snapshot["state"]["counter"], 2);
    let mut page = Page::loaded(&desk).await;
    page.say("fail").await;
    assert!(page.last.error.is_some());
    page.messages.truncate(3);
    let failed = send(&desk, again(&page.messages)).await;
    assert!(failed.error.is_some());
    assert_eq!(
        desk.place.get("/status?sessionId=s").await.ok()["status"],
        "failed"
    );
}

/// proves: CHT-11
#[tokio::test]
async fn an_edit_replaces_a_run_that_goes_on() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("count").await;
    page.messages.push(user("u2", "gate"));
    let live = desk.open(page.body()).await;
    desk.place.outside.reached().await;
    page.messages.pop();
    page.messages.push(user("u2", "edit me"));
    let request = edit(&page.messages);
    let edited = desk.open(request.clone()).await;
    // The same request while it waits, and what a page shows meanwhile.
    let twice = desk.open(request.clone()).await;
    assert_eq!(desk.snapshot().await["status"], "active");
    desk.place.outside.open();
    let replaced = Bubble::of(&live.end().await);
    assert_eq!(replaced.finish.as_deref(), Some("other"));
    let bubble = Bubble::of(&edited.end().await);
    assert_eq!(bubble.text(), "turn 2: edit me");
    assert_eq!(Bubble::of(&twice.end().await).message, bubble.message);
    assert_eq!(send(&desk, request).await.message, bubble.message);
    assert_eq!(runs(&desk).await, 3);
    let snapshot = desk.snapshot().await;
    assert_eq!(ids(&snapshot), ["u0", "msg-1", "u2", bubble.id()]);
    assert!(desk.seen.last_users()[1].contains("gate (g1)"));
}

/// Who edits a message twice means the second text, also when the first still waits for its run.
///
/// proves: CHT-11
#[tokio::test]
async fn the_last_of_two_quick_edits_counts() {
    let desk = Desk::new();
    let live = desk.open(body(&[user("u0", "gate")])).await;
    desk.place.outside.reached().await;
    let first = desk.open(edit(&[user("u0", "edit me one")])).await;
    let second = desk.open(edit(&[user("u0", "edit me two")])).await;
    desk.place.outside.open();
    live.end().await;
    let bubble = Bubble::of(&second.end().await);
    assert_eq!(bubble.text(), "turn 1: edit me two");
    assert_eq!(Bubble::of(&first.end().await).message, bubble.message);
    let snapshot = desk.snapshot().await;
    assert_eq!(ids(&snapshot), ["u0", bubble.id()]);
    assert_eq!(snapshot["messages"][0], user("u0", "edit me two"));
}

/// proves: CHT-11
#[tokio::test]
async fn an_edit_over_pending_calls_leaves_nothing_of_them() {
    for how in ["edit", "again"] {
        let desk = Desk::new();
        let mut page = Page::of(&desk);
        page.say("note").await;
        page.say("pay and ask").await;
        let request = match how {
            "edit" => edit(&[
                page.messages[0].clone(),
                page.messages[1].clone(),
                user("u2", "edit me"),
            ]),
            _ => again(&page.messages[..3]),
        };
        let bubble = send(&desk, request).await;
        let pending = desk.pending().await;
        let calls = pending.as_array().unwrap().iter();
        let mut ids_pending: Vec<_> = calls
            .map(|call| call["toolCallId"].as_str().unwrap())
            .collect();
        ids_pending.sort_unstable();
        if how == "edit" {
            assert_eq!(bubble.text(), "turn 2: edit me");
            assert!(ids_pending.is_empty());
            // Nothing had begun, so there is nothing to tell.
            assert_eq!(desk.seen.last_users(), ["note", "edit me"]);
        } else {
            assert_eq!(ids_pending, ["p1_2", "q1_2"]);
        }
        // An answer to the old calls is stale.
        page.answer("q1", &json!("red"));
        page.decide("p1", true);
        let before = desk.snapshot().await;
        let stale = page.send().await;
        assert_eq!(stale.data("resume-rejected").len(), 1, "{how}");
        assert_eq!(desk.snapshot().await, before);
        assert_eq!(paid(&desk.place), 0);
    }
}

/// Two equal requests to make an answer once more, of which one is quick and the other slow, make it once.
///
/// proves: CHT-11
#[tokio::test]
async fn equal_edits_at_the_same_time_run_once() {
    for how in ["edit", "again"] {
        let store = InterleavedStore::new();
        let desk = Desk::over(store.clone());
        let mut page = Page::of(&desk);
        page.say("count").await;
        page.say("count").await;
        let request = match how {
            "edit" => edit(&[
                page.messages[0].clone(),
                page.messages[1].clone(),
                user("u2", "edit me"),
            ]),
            _ => again(&page.messages[..3]),
        };
        store.meet(2);
        let gate = store.hold_second_run();
        let slow = async {
            let answer = desk.place.post("/chat", request.clone()).await;
            gate.add_permits(1);
            answer
        };
        let (one, other) = tokio::join!(slow, async {
            let answer = desk.place.post("/chat", request.clone()).await;
            gate.add_permits(1);
            answer
        });
        let (one, other) = (Bubble::of(&whole(&one)), Bubble::of(&whole(&other)));
        assert_eq!(one.message, other.message);
        assert_eq!(
            (desk.seen.calls(), runs(&desk).await),
            (3, json!(3)),
            "{how}"
        );
    }
}

/// The other messages with which a turn began stay when one of them is answered once more or edited.
///
/// proves: CHT-11
#[tokio::test]
async fn an_earlier_turn_keeps_the_messages_before_the_one_that_is_edited() {
    let hidden = {
        let mut message = user("u0", "a hint");
        message["metadata"] = json!({ "hidden": true });
        message
    };
    for (first, how) in [
        (user("u0", "first"), "again"),
        (user("u0", "first"), "edit"),
        (hidden.clone(), "again"),
        (hidden, "edit"),
    ] {
        let desk = Desk::new();
        let mut page = Page::of(&desk);
        page.messages.push(first.clone());
        page.say("count").await;
        page.say("count").await;
        let (request, text) = match how {
            "again" => (again(&page.messages[..2]), "count"),
            _ => (edit(&[first.clone(), user("u1", "edit me")]), "edit me"),
        };
        let bubble = send(&desk, request.clone()).await;
        let before = first["parts"][0]["text"].as_str().unwrap();
        assert_eq!(desk.seen.last_users(), [before, text]);
        let snapshot = desk.snapshot().await;
        let is_shown = first.get("metadata").is_none();
        let shown = if is_shown { &["u0", "u1"][..] } else { &["u1"] };
        assert_eq!(ids(&snapshot), [shown, &[bubble.id()]].concat());
        // The same request again finds both.
        if how == "edit" {
            assert_eq!(send(&desk, request).await.message, bubble.message);
            assert_eq!(desk.seen.calls(), 3);
        }
    }
}

/// An id that the session does not have is that of a new message, and one of another role edits nothing.
#[tokio::test]
async fn only_user_messages_of_the_session_are_edited() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("count").await;
    let mut request = body(&[
        page.messages[0].clone(),
        page.messages[1].clone(),
        user("u2", "count"),
    ]);
    request["messageId"] = json!("msg-1");
    assert_eq!(send(&desk, request).await.text(), "turn 2");
    let bubble = send(&desk, edit(&[user("u9", "count")])).await;
    assert_eq!(bubble.text(), "turn 3");
    assert_eq!(
        ids(&desk.snapshot().await),
        ["u0", "msg-1", "u2", "msg-3", "u9", "msg-5"]
    );
}
