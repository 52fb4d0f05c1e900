//! Where a stream goes on: the headers of a client that has a part of a bubble.

use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::time::Clock;
use serde_json::json;

use super::agents::Desk;
use super::page::{Page, body, user};
use super::reading::{Bubble, Frame, essence, whole};

const HEADERS: [&str; 3] = ["last-event-id", "x-resume-from-sequence", "x-resume-at"];

fn kinds(frames: &[Frame]) -> Vec<&str> {
    let kinds = frames.iter().map(|frame| frame.chunk["type"].as_str());
    kinds.map(Option::unwrap).collect()
}

/// proves: CHT-09
#[tokio::test]
async fn a_cursor_inside_of_a_bubble_gets_the_rest_of_it() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("count").await;
    let before = page.last.cursor.unwrap();
    page.say("look").await;
    let all = whole(&desk.place.get("/chat/s/stream").await);
    assert_eq!(
        all[0].chunk,
        json!({ "type": "start", "messageId": "msg-3" })
    );
    let ids: Vec<u64> = all.iter().filter_map(|frame| frame.id).collect();
    let (first, last) = (ids[0], *ids.last().unwrap());
    assert!(before < first);
    for header in HEADERS {
        for at in &ids {
            let answer = desk
                .get_with("/chat/s/stream", &[(header, &at.to_string())])
                .await;
            if *at == last {
                assert_eq!(answer.status, 204);
                continue;
            }
            let seen = all.iter().position(|frame| frame.id == Some(*at)).unwrap();
            assert_eq!(whole(&answer), all[seen + 1..], "{header}: {at}");
        }
        // At or before its beginning, and where there is nothing, all of it.
        for at in [0, 1, before, first - 1, last + 1, u64::MAX] {
            let answer = desk
                .get_with("/chat/s/stream", &[(header, &at.to_string())])
                .await;
            assert_eq!(whole(&answer), all, "{header}: {at}");
        }
        for bad in ["x", "-1", "1.5", "99999999999999999999"] {
            let answer = desk.get_with("/chat/s/stream", &[(header, bad)]).await;
            answer.is(400, "VALIDATION_ERROR");
        }
    }
    // The furthest of them counts.
    let headers = [
        ("last-event-id", ids[1].to_string()),
        ("x-resume-at", ids[3].to_string()),
    ];
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, id)| (*name, id.as_str()))
        .collect();
    let answer = desk.get_with("/chat/s/stream", &headers).await;
    let seen = all
        .iter()
        .position(|frame| frame.id == Some(ids[3]))
        .unwrap();
    assert_eq!(whole(&answer), all[seen + 1..]);
    assert_eq!(answer.headers["x-session-id"], "s");
}

/// Retention makes a reply one piece, of which a client that stopped in its middle cannot be given the rest.
///
/// proves: CHT-09
#[tokio::test]
async fn a_cursor_into_a_condensed_turn_gets_the_whole_bubble() {
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk::sqlite(folder.path(), "").await;
    let mut page = Page::of(&desk);
    page.say("count").await;
    let mut live = desk.open(body(&[user("u2", "slow")])).await;
    desk.place.outside.reached().await;
    desk.tick();
    let cursor = live.until("one").await.last().unwrap().id.unwrap();
    desk.place.outside.open();
    let all = Bubble::of(&live.end().await);
    let last = all.cursor.unwrap();
    desk.clock.advance(Duration::from_secs(11 * 60));
    let backend = Runtime::backend(&desk.place.runtime);
    let retention = backend.retention.as_ref().unwrap();
    let now = desk.clock.now();
    assert_eq!(retention.condense_old_turns(now, 10).await.unwrap(), 2);
    let whole_bubble = whole(&desk.place.get("/chat/s/stream").await);
    for at in cursor..last {
        let answer = desk
            .get_with("/chat/s/stream", &[("last-event-id", &at.to_string())])
            .await;
        let frames = whole(&answer);
        assert_eq!(frames, whole_bubble, "{at}");
        let text = Bubble::of(&frames).text();
        assert_eq!(text, "one two three four five six", "{at}");
    }
    let end = desk
        .get_with("/chat/s/stream", &[("last-event-id", &last.to_string())])
        .await;
    assert_eq!(end.status, 204);
}

/// A client that sends its message while the run goes on, with its position, misses nothing of it.
///
/// proves: CHT-09
#[tokio::test]
async fn a_message_without_new_answers_goes_on_at_the_position_of_its_client() {
    let desk = Desk::new();
    let mut live = desk.open(body(&[user("u0", "slow")])).await;
    desk.place.outside.reached().await;
    desk.tick();
    let frames = live.until("one").await;
    let is_first = |frame: &Frame| frame.chunk["type"] == "reasoning-delta";
    let seen = frames.iter().position(is_first).unwrap();
    let shown = Bubble::of(&frames[..=seen]).message;
    let at = frames[seen].id.unwrap().to_string();
    let mut page = Page::of(&desk);
    page.messages = vec![user("u0", "slow"), shown.clone()];
    let answer = desk.open_after(page.body(), &at).await;
    desk.place.outside.open();
    let mut bubble = Bubble::on(shown);
    bubble.read(&answer.end().await);
    assert_eq!(bubble.text(), "one two three four five six");
    assert_eq!(bubble.id(), "msg-1");
    live.end().await;
}

/// The output of a call that the client has not seen would end its stream with an error.
///
/// proves in part: CHT-09
#[tokio::test]
async fn a_message_is_told_no_output_of_a_call_that_it_does_not_have() {
    for has_call in [false, true] {
        let desk = Desk::new();
        let mut live = desk.open(body(&[user("u0", "gate")])).await;
        desk.place.outside.reached().await;
        desk.tick();
        let frames = live.until("tool-input-available").await;
        let mut message = Bubble::of(&frames).message;
        if !has_call {
            message["parts"] = json!([{ "type": "step-start" }]);
        }
        let mut page = Page::of(&desk);
        page.messages = vec![user("u0", "gate"), message.clone()];
        let answer = desk.open(page.body()).await;
        desk.place.outside.open();
        let frames = answer.end().await;
        let has_output = kinds(&frames).contains(&"tool-output-available");
        assert_eq!(has_output, has_call);
        let mut bubble = Bubble::on(message);
        bubble.read(&frames);
        assert_eq!(bubble.text(), "passed: done");
        live.end().await;
    }
}

/// proves: CHT-09
#[tokio::test]
async fn a_client_names_the_message_that_it_continues_and_no_other() {
    let desk = Desk::new();
    let fresh = desk
        .ask_with(
            "POST",
            "/chat",
            Some(body(&[user("u0", "pay")])),
            &[("x-existing-message-id", "mine")],
        )
        .await;
    assert_eq!(Bubble::of(&whole(&fresh)).id(), "msg-1");
    let named = async |id: &str| {
        let answer = desk
            .get_with("/chat/s/stream", &[("x-existing-message-id", id)])
            .await;
        Bubble::of(&whole(&answer)).id().to_owned()
    };
    assert_eq!(named("mine").await, "mine");
    assert_eq!(named("msg-1").await, "msg-1");
    // The id of another bubble would put this one in its place.
    assert_eq!(named("msg-7").await, "msg-1");
    let mut page = Page::loaded(&desk).await;
    page.messages[1]["id"] = json!("mine");
    page.decide("p1", true);
    let answer = desk
        .ask_with(
            "POST",
            "/chat",
            Some(page.body()),
            &[("x-existing-message-id", "mine")],
        )
        .await;
    let bubble = page.read(&answer);
    assert_eq!(
        (bubble.id(), bubble.text().as_str()),
        ("mine", "May I? paid: 5 cents")
    );
    page.messages.push(user("u2", "count"));
    let answer = desk
        .ask_with(
            "POST",
            "/chat",
            Some(page.body()),
            &[("x-existing-message-id", "mine")],
        )
        .await;
    assert_eq!(Bubble::of(&whole(&answer)).id(), "msg-5");
}

/// A snapshot says where the stream of the bubble in flight begins, and otherwise where the stream ends.
///
/// proves in part: TRN-03
#[tokio::test]
async fn the_sequence_of_a_snapshot_is_where_a_stream_goes_on() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("count").await;
    let end = page.last.cursor.unwrap();
    let over = desk.snapshot().await;
    assert_eq!(
        (&over["streamSequence"], &over["status"]),
        (&json!(end), &json!("ended"))
    );
    let answer = desk
        .get_with(
            "/chat/s/stream",
            &[("x-resume-from-sequence", &end.to_string())],
        )
        .await;
    assert_eq!(answer.status, 204);
    page.say("pay").await;
    let paused = desk.snapshot().await;
    assert_eq!(
        (&paused["streamSequence"], &paused["status"]),
        (&json!(end), &json!("paused"))
    );
    assert_eq!(paused["messages"].as_array().unwrap().len(), 3);
    let answer = desk
        .get_with(
            "/chat/s/stream",
            &[("x-resume-from-sequence", &end.to_string())],
        )
        .await;
    let bubble = Bubble::of(&whole(&answer));
    assert_eq!(bubble.message, page.messages[3]);
    page.decide("p1", true);
    page.send().await;
    let over = desk.snapshot().await;
    assert_eq!(over["streamSequence"], json!(page.last.cursor.unwrap()));
    assert_eq!(over["messages"].as_array().unwrap().len(), 4);
}

/// The steps before the second pause of a turn are of the bubble in flight, too.
///
/// proves in part: TRN-03
#[tokio::test]
async fn a_snapshot_leaves_out_the_whole_bubble_in_flight() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    page.say("pay then ask").await;
    page.decide("p1", true);
    page.send().await;
    assert_eq!(page.last.text(), "First. Second. ");
    let paused = desk.snapshot().await;
    assert_eq!(paused["messages"], json!([user("u0", "pay then ask")]));
    assert_eq!(paused["streamSequence"], 0);
    let pages = desk.place.get("/chat/s/messages").await.ok();
    assert_eq!(
        pages,
        json!({ "messages": paused["messages"], "total": 1, "hasMore": false })
    );
    let loaded = Page::loaded(&desk).await;
    assert_eq!(loaded.messages.len(), 2);
    assert_eq!(loaded.last.text(), "First. Second. ");
}

/// Ordinary turns, pauses and replays tell of no recovery.
///
/// proves: CHT-12
#[tokio::test]
async fn nobody_is_told_to_resync_unless_something_was_taken_back() {
    let desk = Desk::new();
    let mut page = Page::of(&desk);
    for text in [
        "think",
        "look",
        "explode",
        "pay then ask",
        "fail",
        "count",
        "note",
        "slow",
    ] {
        if text == "slow" {
            desk.place.outside.open();
        }
        let mut streams = vec![page.say(text).await.clone()];
        if text == "pay then ask" {
            page.decide("p1", true);
            streams.push(page.send().await.clone());
            page.answer("q1", &json!("red"));
            streams.push(page.send().await.clone());
        }
        streams.push(Bubble::of(&whole(&desk.place.get("/chat/s/stream").await)));
        for bubble in streams {
            assert_eq!(kinds_told(&bubble), Vec::<&str>::new(), "{text}");
        }
    }
}

fn kinds_told(bubble: &Bubble) -> Vec<&str> {
    let told = bubble.told.iter().map(|told| told.0.as_str());
    told.filter(|name| ["stream-resync", "step-discarded", "executor-superseded"].contains(name))
        .collect()
}

/// A live reader of an attempt that was thrown away is told once; who comes later sees nothing of it.
///
/// proves: CHT-12
#[tokio::test]
async fn a_discarded_attempt_is_told_to_those_who_saw_it() {
    let desk = Desk::new();
    let mut live = desk.open(body(&[user("u0", "slow hiccup")])).await;
    desk.place.outside.reached().await;
    desk.tick();
    live.until("and f").await;
    desk.place.outside.open();
    live.until("step-discarded").await;
    desk.clock.advance(Duration::from_secs(5));
    desk.place.outside.open();
    let frames = live.end().await;
    let bubble = Bubble::of(&frames);
    let kinds = kinds(&frames);
    let resyncs = kinds
        .iter()
        .filter(|kind| **kind == "data-stream-resync")
        .count();
    assert_eq!(resyncs, 1, "{kinds:?}");
    assert!(
        bubble.text().ends_with("Once and for all."),
        "{}",
        bubble.text()
    );
    let later = Bubble::of(&whole(&desk.place.get("/chat/s/stream").await));
    assert_eq!(later.text(), "Once and for all.");
    assert!(later.told("stream-resync").is_empty());
    let snapshot = desk.snapshot().await;
    assert_eq!(essence(&snapshot["messages"][1]), essence(&later.message));
}

/// A run that another process takes over begins its reply again: who saw the first one is told, once.
///
/// proves: CHT-12
#[tokio::test]
async fn a_take_over_is_told_to_those_who_saw_what_was_lost() {
    let store = MemoryStore::new();
    let first = Desk::with(store.clone(), "a", |server| server);
    let mut live = first.open(body(&[user("u0", "slow")])).await;
    first.place.outside.reached().await;
    first.tick();
    live.until("one").await;
    let second = Desk::with(store, "b", |server| server);
    second.clock.advance(Duration::from_secs(60));
    second.place.outside.open();
    let session = SessionId::new("s").unwrap();
    second
        .place
        .runtime
        .recover_session(&session)
        .await
        .unwrap();
    second.place.settled("s").await;
    let frames = live.end().await;
    let kinds = kinds(&frames);
    for kind in ["data-stream-resync", "data-executor-superseded"] {
        assert_eq!(
            kinds.iter().filter(|one| **one == kind).count(),
            1,
            "{kinds:?}"
        );
    }
    let bubble = Bubble::of(&frames);
    assert!(
        bubble.text().ends_with("one two three four five six"),
        "{}",
        bubble.text()
    );
    // The client that is told reads the message again, and has each word once.
    let later = Bubble::of(&whole(&second.place.get("/chat/s/stream").await));
    assert_eq!(later.text(), "one two three four five six");
    assert!(later.told("stream-resync").is_empty());
    let snapshot = second.snapshot().await;
    assert_eq!(essence(&snapshot["messages"][1]), essence(&later.message));
    first.place.outside.open();
}
