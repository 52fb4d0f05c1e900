//! A message is the same however a client came by it: live, replayed, cut and continued, or in a snapshot.

use std::time::Duration;

use serde_json::{Value, json};

use super::agents::Desk;
use super::page::{Page, body, user};
use super::reading::{Bubble, Frame, essence, whole};

/// A turn: its name, its agent, its message, and what its pauses are answered with.
struct Turn {
    agent: &'static str,
    text: &'static str,
    answers: &'static [(&'static str, &'static str)],
}

const fn turn(
    agent: &'static str,
    text: &'static str,
    answers: &'static [(&'static str, &'static str)],
) -> Turn {
    Turn {
        agent,
        text,
        answers,
    }
}

const TURNS: [Turn; 22] = [
    turn("clerk", "hello", &[]),
    turn("clerk", "think", &[]),
    turn("clerk", "look", &[]),
    turn("clerk", "explode", &[]),
    turn("clerk", "bad input", &[]),
    turn("clerk", "note", &[]),
    turn("clerk", "ask", &[("q1", "red")]),
    turn("clerk", "ask two", &[("q1 q2", "red")]),
    turn("clerk", "size", &[("q1", "small")]),
    turn("clerk", "pay", &[("p1", "approve")]),
    turn("clerk", "pay", &[("p1", "deny")]),
    turn("clerk", "pay and ask", &[("q1 p1", "approve")]),
    turn("clerk", "pay and ask", &[("p1 q1", "deny")]),
    turn("clerk", "pay then ask", &[("p1", "approve"), ("q1", "red")]),
    turn("clerk", "pay then ask", &[("p1", "deny"), ("q1", "red")]),
    turn("clerk", "fail", &[]),
    turn("poet", "a poem", &[]),
    turn("boss", "look around", &[]),
    turn("boss", "pay", &[("p1", "approve")]),
    turn("boss", "pay", &[("p1", "deny")]),
    turn("boss", "ask", &[("q1", "Ada")]),
    turn("boss", "both ask", &[("q1", "Ada")]),
];

/// The message without the calls of sub-agents that waited, and their steps: those are in their own sessions.
fn of_root(message: &Value) -> Value {
    let parts = message["parts"].as_array().unwrap().iter();
    let children = parts.filter(|part| part["type"] == "data-subagent");
    let theirs: Vec<Value> = children
        .flat_map(|child| child["data"]["tools"].as_array().unwrap())
        .map(|tool| tool["toolCallId"].clone())
        .collect();
    let mut message = essence(message);
    let mut kept: Vec<Value> = Vec::new();
    for part in message["parts"].as_array().unwrap() {
        if !theirs.contains(&part["toolCallId"]) {
            kept.push(part.clone());
        } else if kept.last().is_some_and(|last| last["type"] == "step-start") {
            kept.pop();
        }
    }
    message["parts"] = json!(kept);
    message
}

fn follow(page: &mut Page<'_>, calls: &str, with: &str) {
    for call in calls.split(' ') {
        match (page.last.call(call)["state"].as_str().unwrap(), with) {
            ("approval-requested", with) => page.decide(call, with == "approve"),
            (_, with) => page.answer(call, &json!(with)),
        }
    }
}

/// Cuts the stream after every chunk, and continues with the cursor.
async fn cut_everywhere(desk: &Desk, all: &[Frame], what: &str) {
    let complete = Bubble::of(all);
    for (at, frame) in all.iter().enumerate() {
        let Some(id) = frame.id else {
            continue;
        };
        let mut bubble = Bubble::of(&all[..=at]);
        let rest = desk
            .get_with("/chat/s/stream", &[("last-event-id", &id.to_string())])
            .await;
        if rest.status == 204 {
            let is_over = all[at + 1..].iter().all(|frame| frame.id.is_none());
            assert!(is_over, "{what}: nothing after {id}");
            let mut rest = all[at + 1..].to_vec();
            rest.retain(|frame| frame.chunk["type"] != "finish");
            bubble.read(&rest);
        } else {
            let rest = whole(&rest);
            assert!(
                rest.iter().all(|frame| frame.chunk["type"] != "start"),
                "{what}"
            );
            bubble.read(&rest);
        }
        assert_eq!(bubble.message, complete.message, "{what}: after {id}");
    }
}

/// Reads the chat in every way, and compares with the last message of the page.
async fn is_the_same_everywhere(desk: &Desk, page: &Page<'_>, what: &str) {
    let live = page.messages.last().unwrap();
    let frames = whole(&desk.place.get("/chat/s/stream").await);
    let replayed = Bubble::of(&frames);
    assert_eq!(
        of_root(&replayed.message)["id"],
        of_root(live)["id"],
        "{what}"
    );
    let is_paused = desk.snapshot().await["status"] == "paused";
    let (mut one, mut other) = (essence(&replayed.message), essence(live));
    if is_paused {
        // What the client has answered meanwhile only the client has.
        for message in [&mut one, &mut other] {
            assert_eq!(message["role"], "assistant");
        }
    }
    assert_eq!(one, other, "{what}: replayed");
    cut_everywhere(desk, &frames, what).await;
    let snapshot = desk.snapshot().await;
    let messages = snapshot["messages"].as_array().unwrap();
    let before = frames.iter().find_map(|frame| frame.id).unwrap() - 1;
    if is_paused {
        assert_eq!(messages.len() + 1, page.messages.len(), "{what}");
        assert_eq!(snapshot["streamSequence"], before, "{what}");
    } else {
        assert_eq!(snapshot["streamSequence"], json!(replayed.cursor), "{what}");
        assert_eq!(messages.len(), page.messages.len(), "{what}: {snapshot}");
        for (stored, live) in messages.iter().zip(&page.messages) {
            if live["role"] == "user" {
                assert_eq!(stored, live, "{what}");
            } else {
                assert_eq!(of_root(stored), of_root(live), "{what}: snapshot");
            }
        }
        let pages = desk.place.get("/chat/s/messages").await.ok();
        assert_eq!(pages["messages"], snapshot["messages"], "{what}");
    }
    // A page that is loaded has every message once.
    let loaded = Page::loaded(desk).await;
    let ids = |messages: &[Value]| {
        messages
            .iter()
            .map(|message| message["id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&loaded.messages), ids(&page.messages), "{what}");
}

/// proves: TRN-03, TRN-04
#[tokio::test]
async fn a_turn_is_the_same_live_replayed_and_in_a_snapshot() {
    for Turn {
        agent,
        text,
        answers,
    } in TURNS
    {
        let desk = Desk::new();
        let mut page = Page::with(&desk, agent);
        // It is the second turn: numbers and ids do not begin at the beginning.
        page.say("look around").await;
        page.say(text).await;
        let mut what = format!("{agent}: {text}");
        is_the_same(&desk, &page, &what).await;
        for (calls, with) in answers {
            follow(&mut page, calls, with);
            page.send().await;
            what = format!("{what}, {calls} {with}");
            is_the_same(&desk, &page, &what).await;
        }
        if text == "both ask" {
            let parts = page.messages[3]["parts"].as_array().unwrap();
            let call = parts
                .iter()
                .rfind(|part| part["toolName"] == "ask")
                .unwrap();
            let call = call["toolCallId"].as_str().unwrap().to_owned();
            page.answer(&call, &json!("Bob"));
            page.send().await;
            is_the_same(&desk, &page, "both ask, Bob").await;
        }
        assert!(!page.would_send(), "{what}");
    }
}

/// A failed turn has no message in the history, where its model has said nothing that counts; the page that saw it
/// keeps what it saw.
async fn is_the_same(desk: &Desk, page: &Page<'_>, what: &str) {
    if page.last.error.is_none() {
        return is_the_same_everywhere(desk, page, what).await;
    }
    let frames = whole(&desk.place.get("/chat/s/stream").await);
    let replayed = Bubble::of(&frames);
    assert_eq!(replayed.error, page.last.error, "{what}");
    assert_eq!(replayed.id(), page.last.id(), "{what}");
    cut_everywhere(desk, &frames, what).await;
    let snapshot = desk.snapshot().await;
    assert_eq!(
        (&snapshot["status"], &snapshot["error"]["error"]),
        (&json!("failed"), &json!(replayed.error))
    );
}

/// proves in part: TRN-03, TRN-04
#[tokio::test]
async fn an_interrupted_reply_is_the_same_everywhere() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.messages.push(user("u0", "slow"));
    let mut live = desk.open(page.body()).await;
    desk.place.outside.reached().await;
    desk.tick();
    live.until("one").await;
    // While it goes on, a snapshot leaves it out, and says where it begins.
    let snapshot = desk.snapshot().await;
    assert_eq!(
        (&snapshot["status"], &snapshot["streamSequence"]),
        (&json!("active"), &json!(0))
    );
    assert_eq!(snapshot["messages"], json!([user("u0", "slow")]));
    // The model is not waited for.
    desk.place.post("/chat/s/interrupt", json!({})).await.ok();
    let frames = live.end().await;
    page.last = Bubble::of(&frames);
    // The thoughts that led to what was cut off are not kept.
    let thoughts = |part: &Value| part["type"] == "reasoning";
    assert!(page.last.parts().iter().any(thoughts));
    page.messages.push(page.last.message.clone());
    let frames = whole(&desk.place.get("/chat/s/stream").await);
    assert_eq!(Bubble::of(&frames).message, page.last.message);
    cut_everywhere(&desk, &frames, "interrupted").await;
    let snapshot = desk.snapshot().await;
    let mut shown = essence(&page.last.message);
    shown["parts"]
        .as_array_mut()
        .unwrap()
        .retain(|part| !thoughts(part));
    assert_eq!(essence(&snapshot["messages"][1]), shown);
    let interrupted = json!({ "helixInterrupted": { "stop": "interrupt" } });
    assert_eq!(snapshot["messages"][1]["metadata"], interrupted);
}

/// A reader that is cut off in the middle of a reply continues with its cursor, while the reply goes on.
///
/// proves in part: TRN-03, CHT-09
#[tokio::test]
async fn a_live_stream_is_continued_while_its_run_goes_on() {
    let desk = Desk::new();
    let mut live = desk.open(body(&[user("u0", "slow")])).await;
    desk.place.outside.reached().await;
    desk.tick();
    let seen = live.until("one").await;
    drop(live);
    let mut bubble = Bubble::of(&seen);
    let cursor = bubble.cursor.unwrap().to_string();
    let rest = desk.watch_after(&cursor).await;
    let all = desk.watch().await;
    desk.place.outside.open();
    bubble.read(&rest.end().await);
    let all = Bubble::of(&all.end().await);
    assert_eq!(bubble.message, all.message);
    assert_eq!(all.text(), "one two three four five six");
    assert_eq!(
        essence(&desk.snapshot().await["messages"][1]),
        essence(&all.message)
    );
}

/// An answer after the deadline is told to the model once, and its client that it came too late.
///
/// proves in part: CHT-07, CLT-06
#[tokio::test]
async fn an_answer_after_the_deadline_is_told_once() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("ask late").await;
    desk.clock.advance(Duration::from_secs(61));
    page.answer("q1", &json!("crimson"));
    let sent = page.body();
    let before = page.messages[1].clone();
    let bubble = page.send().await;
    assert_eq!(
        bubble.data("resume-rejected")[0]["code"],
        "late_answer_after_timeout"
    );
    assert_eq!(
        bubble.data("resume-rejected")[0]["toolCallIds"],
        json!(["q1"])
    );
    assert_eq!(bubble.call("q1")["state"], "output-error");
    assert!(
        bubble.text().contains("did not answer within the deadline"),
        "{}",
        bubble.text()
    );
    assert!(!page.would_send());
    let told = desk.seen.last_users();
    assert!(told.last().unwrap().contains("crimson"), "{told:?}");
    for _ in 0..2 {
        let mut again = Bubble::on(before.clone());
        again.read(&whole(&desk.place.post("/chat", sent.clone()).await));
        assert_eq!(
            again.data("resume-rejected")[0]["code"],
            "late_answer_after_timeout"
        );
    }
    page.say("count").await;
    let told = desk.seen.last_users();
    assert_eq!(
        told.iter().filter(|text| text.contains("crimson")).count(),
        1,
        "{told:?}"
    );
    assert!(!desk.snapshot().await.to_string().contains("crimson"));
}
