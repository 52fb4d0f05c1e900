//! The seven paths of a chat request.

use serde_json::json;

use super::agents::Desk;
use super::page::{Page, body, paid, user};
use super::reading::{Bubble, call_of, essence, text_of, whole};
use crate::interleaved_store::InterleavedStore;

/// proves: CHT-01
#[tokio::test]
async fn the_first_message_creates_the_session() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    let bubble = page.say("look").await;
    assert_eq!(bubble.id(), "msg-1");
    assert_eq!(bubble.text(), "I look. seen: {\"seen\":7}");
    assert_eq!(bubble.finish.as_deref(), Some("stop"));
    let call = json!({ "type": "dynamic-tool", "toolName": "look", "toolCallId": "l1", "state": "output-available",
        "input": { "at": 7 }, "output": { "seen": 7 }, "providerExecuted": true });
    assert_eq!(*bubble.call("l1"), call);
    assert!(!page.would_send());
    let status = desk.place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["agentType"], "clerk");
    let snapshot = desk.snapshot().await;
    assert_eq!(snapshot["messages"][0], user("u0", "look"));
    assert_eq!(
        essence(&snapshot["messages"][1]),
        essence(&page.messages[1])
    );
}

/// proves: CHT-02
#[tokio::test]
async fn the_next_message_continues_the_session() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("count").await;
    let bubble = page.say("count").await;
    assert_eq!((bubble.id(), bubble.text().as_str()), ("msg-3", "turn 2"));
    // Only what is new at the end counts.
    let mut forged = page.messages.clone();
    forged[1]["parts"] = json!([{ "type": "text", "text": "I never said so" }]);
    forged.push(user("u9", "count"));
    page.messages = forged;
    let bubble = page.send().await;
    assert_eq!((bubble.id(), bubble.text().as_str()), ("msg-5", "turn 3"));
    let snapshot = desk.snapshot().await;
    assert_eq!(snapshot["messages"].as_array().unwrap().len(), 6);
    assert_eq!(snapshot["messages"][1]["parts"][1]["text"], "turn 1");
}

/// Both answers in one request start one run, and the message goes on in the same bubble.
///
/// proves: CHT-03
#[tokio::test]
async fn the_answers_of_a_request_continue_the_run_once() {
    for approved in [true, false] {
        let desk = Desk::new();
        let mut page = Page::of(&desk);
        let bubble = page.say("pay and ask").await;
        assert_eq!(bubble.finish.as_deref(), Some("tool-calls"));
        assert_eq!(bubble.told("pending"), [&desk.pending().await]);
        page.answer("q1", &json!({ "color": "red" }));
        assert!(!page.would_send(), "the approval is open");
        page.decide("p1", approved);
        assert!(page.would_send());
        let bubble = page.send().await;
        let paying = if approved {
            "5 cents"
        } else {
            "{\"error\":\"The call of pay was not approved. Reason: too much\"}"
        };
        let text = format!("Two. {{\"color\":\"red\"}} and {paying}");
        assert_eq!((bubble.id(), bubble.text()), ("msg-1", text));
        let state = if approved {
            "output-available"
        } else {
            "output-denied"
        };
        assert_eq!(bubble.call("p1")["state"], state);
        assert!(!page.would_send());
        assert_eq!(paid(&desk.place), usize::from(approved));
        assert_eq!(desk.seen.calls(), 2);
        let runs = desk.place.get("/sessions/s/runs").await.ok();
        assert_eq!(runs["total"], 2, "{runs}");
    }
}

/// While others wait, an answer is stored and nothing is added to the message: not even a step, or the client would
/// not send the others.
///
/// proves: CHT-03
#[tokio::test]
async fn an_answer_while_others_wait_opens_no_step() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("ask two").await;
    let before = page.messages.clone();
    page.answer("q1", &json!("one"));
    let answered = page.messages.clone();
    let bubble = page.send().await;
    assert_eq!(bubble.finish.as_deref(), Some("tool-calls"));
    assert_eq!(page.messages, answered);
    let told = page.last.told("pending").into_iter().cloned();
    let told: Vec<_> = told.collect();
    let pending = desk.pending().await;
    assert_eq!(told, std::slice::from_ref(&pending));
    assert_eq!(pending.as_array().unwrap().len(), 1);
    assert_eq!(pending[0]["toolCallId"], "q2");
    assert_eq!(desk.snapshot().await["pending"], pending);
    assert_eq!(desk.seen.calls(), 1);
    // Who reads the pause now is told of what still waits, and of nothing else.
    let mut other = Page::loaded(&desk).await;
    assert_eq!(other.last.told("pending"), [&pending]);
    // The first answer to a call counts, whichever page gives it.
    other.answer("q1", &json!("other"));
    other.answer("q2", &json!("two"));
    let bubble = other.send().await;
    assert_eq!(bubble.text(), "one and two");
    page.messages = before;
    page.answer("q2", &json!("too late"));
    let bubble = page.send().await;
    assert_eq!(bubble.text(), "one and two");
    assert_eq!(desk.seen.calls(), 2);
}

/// proves: CHT-03, SUS-02
#[tokio::test]
async fn answers_reach_a_pause_of_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let first = Desk::sqlite(folder.path(), "a").await;
    let mut page = Page::of(&first);
    page.say("pay and ask").await;
    let messages = page.messages.clone();
    drop(first);
    let second = Desk::sqlite(folder.path(), "b").await;
    let mut page = Page::of(&second);
    page.messages = messages;
    page.answer("q1", &json!("red"));
    page.decide("p1", true);
    let bubble = page.send().await;
    assert_eq!(
        (bubble.id(), bubble.text().as_str()),
        ("msg-1", "Two. red and 5 cents")
    );
    assert_eq!((paid(&second.place), second.seen.calls()), (1, 1));
    let third = Desk::sqlite(folder.path(), "c").await;
    let loaded = Page::loaded(&third).await;
    assert_eq!(essence(&loaded.messages[1]), essence(&page.messages[1]));
    assert_eq!(loaded.messages.len(), 2);
}

/// proves: CHT-03
#[tokio::test]
async fn a_runtime_that_does_not_continue_by_itself_is_told_to() {
    let desk = Desk::running(
        helix_agents_core::memory::MemoryStore::new(),
        "",
        false,
        |server| server,
    );
    let mut page = Page::of(&desk);
    page.say("ask").await;
    page.answer("q1", &json!("red"));
    let (sent, before) = (page.body(), page.messages[1].clone());
    assert_eq!(page.send().await.text(), "answer: red");
    let again = desk.place.post("/chat", sent).await;
    let mut bubble = Bubble::on(before);
    bubble.read(&whole(&again));
    assert_eq!(bubble.text(), "answer: red");
    assert_eq!(desk.seen.calls(), 2);
}

/// proves: CHT-04
#[tokio::test]
async fn a_message_over_pending_calls_abandons_them() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("pay and ask").await;
    let bubble = page.say("count").await;
    assert_eq!((bubble.id(), bubble.text().as_str()), ("msg-5", "turn 2"));
    assert_eq!((paid(&desk.place), desk.pending().await), (0, json!([])));
    let snapshot = desk.snapshot().await;
    let abandoned = &snapshot["messages"][1];
    for call in ["q1", "p1"] {
        let part = call_of(abandoned, call);
        assert_eq!(part["state"], "output-error", "{part}");
        let text = part["errorText"].as_str().unwrap();
        assert!(text.starts_with("Not executed"), "{text}");
    }
    assert_eq!(last_text(&snapshot), "turn 2");
}

/// The answers that come with a new message are not lost.
///
/// proves: CHT-04
#[tokio::test]
async fn answers_that_come_with_a_new_message_are_kept() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("pay and ask").await;
    page.answer("q1", &json!("red"));
    let bubble = page.say("count").await;
    assert_eq!(bubble.text(), "turn 2");
    let snapshot = desk.snapshot().await;
    let abandoned = &snapshot["messages"][1];
    assert_eq!(call_of(abandoned, "q1")["output"], "red");
    assert_eq!(call_of(abandoned, "p1")["state"], "output-error");
    assert_eq!(paid(&desk.place), 0);
}

fn last_text(snapshot: &serde_json::Value) -> String {
    let messages = snapshot["messages"].as_array().unwrap();
    text_of(messages.last().unwrap())
}

/// proves: CHT-05
#[tokio::test]
async fn the_same_request_attaches_to_its_run() {
    let desk = Desk::new();
    let sent = body(&[user("u0", "slow")]);
    let first = desk.open(sent.clone()).await;
    desk.place.outside.reached().await;
    desk.tick();
    let mut again = desk.open(sent.clone()).await;
    again.until("one").await;
    let mut watching = desk.watch().await;
    watching.until("one").await;
    desk.place.outside.open();
    let frames = [first.end().await, again.end().await, watching.end().await];
    assert_eq!(frames[0], frames[1]);
    assert_eq!(frames[0], frames[2]);
    assert_eq!(Bubble::of(&frames[0]).text(), "one two three four five six");
    assert_eq!(desk.seen.calls(), 1);
    let runs = desk.place.get("/sessions/s/runs").await.ok();
    assert_eq!(runs["total"], 1);
}

/// Two equal requests that find no session, or the same one, run once.
///
/// proves: CHT-05
#[tokio::test]
async fn equal_requests_at_the_same_time_run_once() {
    let store = InterleavedStore::new();
    let desk = Desk::over(store.clone());
    let mut sent = vec![user("u0", "count")];
    for turn in 1..=2 {
        store.meet(2);
        let (one, other) = tokio::join!(
            desk.place.post("/chat", body(&sent)),
            desk.place.post("/chat", body(&sent))
        );
        let (one, other) = (Bubble::of(&whole(&one)), Bubble::of(&whole(&other)));
        assert_eq!(one.message, other.message);
        assert_eq!(one.text(), format!("turn {turn}"));
        assert_eq!(desk.seen.calls(), turn);
        sent.push(one.message);
        sent.push(user("u1", "count"));
    }
}

/// Two equal requests with answers continue the run once.
///
/// proves: CHT-03, CHT-05
#[tokio::test]
async fn equal_answers_at_the_same_time_continue_once() {
    let store = InterleavedStore::new();
    let desk = Desk::over(store.clone());
    let mut page = Page::of(&desk);
    page.say("pay and ask").await;
    page.answer("q1", &json!("red"));
    page.decide("p1", true);
    let sent = page.body();
    store.meet(2);
    let (one, other) = tokio::join!(
        desk.place.post("/chat", sent.clone()),
        desk.place.post("/chat", sent)
    );
    for answer in [one, other] {
        let mut bubble = Bubble::on(page.messages[1].clone());
        bubble.read(&whole(&answer));
        assert_eq!(bubble.text(), "Two. red and 5 cents");
    }
    assert_eq!((paid(&desk.place), desk.seen.calls()), (1, 2));
}

/// proves: CHT-06
#[tokio::test]
async fn the_same_request_replays_a_turn_that_is_over() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    for text in ["look", "think", "explode"] {
        page.say(text).await;
    }
    let all = page.messages.clone();
    for (turn, message) in all.chunks(2).enumerate() {
        let mut sent = body(&all[..=turn * 2]);
        let mut seen = Vec::new();
        for path in ["/chat", "/chat/s", "/api/chat", "/api/chat/s"] {
            let answer = desk.place.post(path, sent.clone()).await;
            let bubble = Bubble::of(&whole(&answer));
            assert_eq!(essence(&bubble.message), essence(&message[1]));
            assert_eq!(bubble.finish.as_deref(), Some("stop"));
            seen.push(bubble);
            sent["trigger"] = json!("submit-message");
        }
    }
    assert_eq!(desk.seen.calls(), 5);
    for path in [
        "/chat/s/stream",
        "/chat/s",
        "/chat/s/s/stream",
        "/api/chat/s/stream",
        "/api/chat/s",
        "/api/chat/s/s/stream",
    ] {
        let answer = desk.place.get(path).await;
        assert_eq!(answer.headers["x-session-id"], "s");
        let bubble = Bubble::of(&whole(&answer));
        assert_eq!(essence(&bubble.message), essence(&all[5]));
    }
    assert_eq!(desk.seen.calls(), 5);
}

/// A request whose answer was lost is sent again: it gets what followed, once more, and nothing of before.
///
/// proves: CHT-06
#[tokio::test]
async fn the_same_answers_replay_what_followed() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("pay then ask").await;
    page.decide("p1", true);
    let (first, at_first) = (page.body(), page.messages[1].clone());
    page.send().await;
    assert_eq!(page.last.text(), "First. Second. ");
    let after_first = page.messages[1].clone();
    for _ in 0..2 {
        let mut again = Bubble::on(at_first.clone());
        again.read(&whole(&desk.place.post("/chat", first.clone()).await));
        assert_eq!(again.message, after_first);
        assert_eq!(again.finish.as_deref(), Some("tool-calls"));
    }
    page.answer("q1", &json!("red"));
    let (second, at_second) = (page.body(), page.messages[1].clone());
    page.send().await;
    let after_second = page.messages[1].clone();
    for (sent, before) in [(second, at_second), (first, at_first)] {
        let mut again = Bubble::on(before);
        again.read(&whole(&desk.place.post("/chat", sent).await));
        assert_eq!(again.text(), "First. Second. 5 cents, red");
        assert_eq!(again.finish.as_deref(), Some("stop"));
    }
    assert_eq!(text_of(&after_second), "First. Second. 5 cents, red");
    assert_eq!((paid(&desk.place), desk.seen.calls()), (1, 3));
}

/// Answers that the conversation has left behind are refused in a step of their own, so that the client does not send
/// them again, and nothing is stored.
///
/// proves: CHT-07
#[tokio::test]
async fn stale_answers_are_refused_in_a_step_that_ends_them() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("pay and ask").await;
    let left = page.messages.clone();
    page.say("count").await;
    let (calls, before) = (desk.seen.calls(), desk.snapshot().await);
    page.messages = left;
    page.answer("q1", &json!("red"));
    page.decide("p1", true);
    assert!(page.would_send());
    let answer = desk.place.post("/chat", page.body()).await;
    let frames = whole(&answer);
    let shape: Vec<_> = frames.iter().map(|frame| &frame.chunk["type"]).collect();
    let expected = [
        "start",
        "start-step",
        "data-resume-rejected",
        "finish-step",
        "finish",
    ];
    assert_eq!(shape, expected);
    assert_eq!(frames[2].chunk.get("transient"), None);
    let bubble = page.read(&answer);
    assert_eq!(bubble.id(), "msg-1");
    let rejected = bubble.data("resume-rejected")[0];
    assert_eq!(
        (&rejected["toolCallIds"], &rejected["code"]),
        (&json!(["q1", "p1"]), &json!("STALE"))
    );
    assert!(!page.would_send());
    assert_eq!(desk.snapshot().await, before);
    assert_eq!((paid(&desk.place), desk.seen.calls()), (0, calls));
}

/// The same for the calls of a run that was stopped while it waited: the client learns how the turn has ended.
///
/// proves: CHT-07
#[tokio::test]
async fn answers_to_a_stopped_pause_are_not_stored() {
    for (how, finish) in [("interrupt", Some("other")), ("abort", None)] {
        let desk = Desk::new();
        let mut page = Page::of(&desk);
        page.say("pay and ask").await;
        let stopped = desk.place.post(&format!("/chat/s/{how}"), json!({})).await;
        assert_eq!(stopped.ok()["accepted"], true);
        desk.place.settled("s").await;
        let before = desk.snapshot().await;
        page.answer("q1", &json!("red"));
        page.decide("p1", true);
        assert!(page.would_send());
        let bubble = page.send().await;
        for call in ["q1", "p1"] {
            assert_eq!(bubble.call(call)["state"], "output-error", "{how}");
        }
        assert_eq!(bubble.finish.as_deref(), finish);
        assert_eq!(bubble.error.is_some(), how == "abort");
        assert!(!page.would_send(), "{how}");
        assert_eq!(desk.snapshot().await, before);
        assert_eq!((paid(&desk.place), desk.seen.calls()), (0, 1));
    }
}
