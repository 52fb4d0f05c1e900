//! A new message while a run goes on.

use helix_agents_core::entries::DoubleTexting;
use serde_json::{Value, json};

use super::agents::Desk;
use super::page::{Live, Page, body, user};
use super::reading::{Bubble, whole};

/// A chat with one turn, and a second one whose run waits in a tool.
async fn running(desk: &Desk) -> (Page<'_>, Live) {
    let mut page = Page::of(desk);
    page.say("count").await;
    page.messages.push(user("u2", "gate"));
    let live = desk.open(page.body()).await;
    desk.place.outside.reached().await;
    (page, live)
}

fn ids(snapshot: &Value) -> Vec<&str> {
    let messages = snapshot["messages"].as_array().unwrap().iter();
    messages
        .map(|message| message["id"].as_str().unwrap())
        .collect()
}

/// Sends `count` in a new message, twice, while the run goes on; then lets the run go. Returns what those streams
/// and that of the run gave.
async fn interrupted(desk: &Desk) -> [Bubble; 3] {
    let (mut page, live) = running(desk).await;
    page.messages.push(user("u3", "count"));
    let next = desk.open(page.body()).await;
    let twice = desk.open(page.body()).await;
    desk.place.outside.open();
    let first = Bubble::of(&live.end().await);
    let streams = [
        first,
        Bubble::of(&next.end().await),
        Bubble::of(&twice.end().await),
    ];
    // And once more, now that it is over.
    let again = Bubble::of(&whole(&desk.place.post("/chat", page.body()).await));
    assert_eq!(again.message, streams[1].message);
    let runs = desk.place.get("/sessions/s/runs").await.ok();
    assert_eq!(runs["total"], 3, "{runs}");
    streams
}

/// proves in part: CHT-02
#[tokio::test]
async fn a_new_message_interrupts_the_run() {
    let desk = Desk::ruled(DoubleTexting::Interrupt);
    let [first, next, twice] = interrupted(&desk).await;
    assert_eq!(first.finish.as_deref(), Some("other"));
    assert_eq!(first.told("run-interrupted").len(), 1);
    assert_eq!(next.text(), "turn 3");
    assert_eq!(next.message, twice.message);
    let snapshot = desk.snapshot().await;
    assert_eq!(
        ids(&snapshot),
        ["u0", "msg-1", "u2", first.id(), "u3", next.id()]
    );
    assert_eq!(
        super::reading::essence(&snapshot["messages"][3]),
        super::reading::essence(&first.message)
    );
}

#[tokio::test]
async fn a_new_message_is_refused_and_the_old_one_attaches() {
    let desk = Desk::ruled(DoubleTexting::Reject);
    let (mut page, live) = running(&desk).await;
    let again = desk.open(page.body()).await;
    let before = desk.place.get("/sessions/s/messages").await.ok();
    page.messages.push(user("u3", "count"));
    let refused = desk.place.post("/chat", page.body()).await;
    refused.is(409, "ALREADY_RUNNING");
    assert_eq!(desk.place.get("/sessions/s/messages").await.ok(), before);
    desk.place.outside.open();
    let frames = live.end().await;
    assert_eq!(Bubble::of(&frames).text(), "passed: done");
    assert_eq!(again.end().await, frames);
    assert_eq!(
        Bubble::of(&whole(&desk.place.post("/chat", page.body()).await)).text(),
        "turn 3"
    );
}

#[tokio::test]
async fn a_new_message_waits_for_the_end_of_the_run() {
    let desk = Desk::ruled(DoubleTexting::Queue);
    let [first, next, twice] = interrupted(&desk).await;
    assert_eq!(
        (first.text().as_str(), first.finish.as_deref()),
        ("passed: done", Some("stop"))
    );
    assert_eq!(next.text(), "turn 3");
    assert_eq!(next.message, twice.message);
    let snapshot = desk.snapshot().await;
    assert_eq!(
        ids(&snapshot),
        ["u0", "msg-1", "u2", "msg-3", "u3", next.id()]
    );
}

/// Of several that wait each is taken once, in the run of the first.
#[tokio::test]
async fn several_messages_wait_together() {
    let desk = Desk::ruled(DoubleTexting::Queue);
    let (mut page, live) = running(&desk).await;
    let mut streams = Vec::new();
    for id in ["u3", "u4", "u3", "u4"] {
        if !page.messages.iter().any(|message| message["id"] == id) {
            page.messages.push(user(id, "count"));
        }
        streams.push(desk.open(page.body()).await);
    }
    // A page that is loaded meanwhile reads the run that goes on.
    assert_eq!(desk.snapshot().await["status"], "active");
    let watching = desk.watch().await;
    desk.place.outside.open();
    assert_eq!(live.end().await, watching.end().await);
    for stream in streams {
        assert_eq!(Bubble::of(&stream.end().await).text(), "turn 4");
    }
    assert_eq!(
        ids(&desk.snapshot().await),
        ["u0", "msg-1", "u2", "msg-3", "u3", "u4", "msg-8"]
    );
    assert_eq!(desk.seen.calls(), 4);
}

#[tokio::test]
async fn a_new_message_takes_the_run_back() {
    let desk = Desk::ruled(DoubleTexting::Rollback);
    let [_, next, twice] = interrupted(&desk).await;
    assert_eq!(next.text(), "turn 2");
    assert_eq!(next.message, twice.message);
    let snapshot = desk.snapshot().await;
    assert_eq!(ids(&snapshot), ["u0", "msg-1", "u3", next.id()]);
    let told = desk.seen.last_users();
    assert!(
        told[1].contains("gate (g1)") && told[1].contains("withdrew"),
        "{told:?}"
    );
}

/// The answer of a turn that is abandoned may follow its message, or not: what is new is what comes last.
#[tokio::test]
async fn messages_that_were_taken_back_are_not_sent_again() {
    let desk = Desk::ruled(DoubleTexting::Rollback);
    let live = desk.open(body(&[user("u0", "gate")])).await;
    desk.place.outside.reached().await;
    let request = body(&[user("u0", "gate"), user("u1", "count")]);
    let next = desk.open(request.clone()).await;
    desk.place.outside.open();
    live.end().await;
    let next = Bubble::of(&next.end().await);
    assert_eq!(next.text(), "turn 1");
    let again = Bubble::of(&whole(&desk.place.post("/chat", request).await));
    assert_eq!(again.message, next.message);
    assert_eq!(ids(&desk.snapshot().await), ["u1", next.id()]);
}

/// Stopping is another thing than going away.
#[tokio::test]
async fn a_connection_that_is_dropped_stops_nothing_and_the_interrupt_route_does() {
    let desk = Desk::new();
    let live = desk.open(body(&[user("u0", "slow")])).await;
    desk.place.outside.reached().await;
    drop(live);
    desk.place.outside.open();
    desk.place.settled("s").await;
    let mut page = Page::loaded(&desk).await;
    assert_eq!(
        super::reading::text_of(&page.messages[1]),
        "one two three four five six"
    );
    page.messages.push(user("u2", "slow again"));
    let mut live = desk.open(page.body()).await;
    desk.place.outside.reached().await;
    desk.tick();
    live.until("one").await;
    let stopped = desk
        .place
        .post("/chat/s/interrupt", json!({ "reason": "enough" }))
        .await
        .ok();
    assert_eq!(stopped["accepted"], true);
    desk.place.outside.open();
    let stopped = Bubble::of(&live.end().await);
    assert_eq!(stopped.finish.as_deref(), Some("other"));
    assert_eq!(
        stopped.told("run-interrupted"),
        [&json!({ "reason": "enough" })]
    );
    let snapshot = desk.snapshot().await;
    assert_eq!(snapshot["status"], "ended");
    assert_eq!(
        super::reading::essence(&snapshot["messages"][3]),
        super::reading::essence(&stopped.message)
    );
    page.messages.pop();
    page.messages = snapshot["messages"].as_array().unwrap().clone();
    assert_eq!(page.say("count").await.text(), "turn 3");
}
