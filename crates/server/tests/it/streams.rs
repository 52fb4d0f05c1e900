//! Tests of `/sse`.

use std::time::Duration;

use axum::body::Body;
use futures_util::StreamExt;
use helix_agents_core::SessionId;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::stream::Sequence;
use helix_agents_server::Limits;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::kit::{ALICE, Answer, BOB, Place, request};
use crate::loopback::Loopback;

/// The frames of a stream, without comments.
fn frames(text: &str) -> Vec<&str> {
    let frames = text.split("\n\n").filter(|frame| !frame.is_empty());
    frames.filter(|frame| !frame.starts_with(':')).collect()
}

fn sequence(frame: &str) -> u64 {
    let id = frame.lines().next().unwrap().strip_prefix("id: ").unwrap();
    id.parse().unwrap()
}

fn data(frame: &str) -> Value {
    let data = frame.lines().find_map(|line| line.strip_prefix("data: "));
    serde_json::from_str(data.unwrap()).unwrap()
}

async fn read(place: &Place, after: u64) -> String {
    let path = format!("/sse?sessionId=s&fromSequence={after}");
    let answer = place.get(&path).await;
    assert_eq!(answer.status, 200);
    answer.text().to_owned()
}

#[tokio::test]
async fn a_reader_of_a_deleted_session_is_told_at_once() {
    let place = Place::new();
    let app = crate::kit::builder(&place.runtime)
        .authenticate(crate::kit::tokens())
        .keep_alive(Duration::from_secs(86_400))
        .build();
    let server = Loopback::new(app.unwrap().router(), Limits::default()).await;
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "wait" });
    place.post("/start", body).await.ok();
    let mut reader = server.get("/sse?sessionId=s").await;
    reader.until("tool_start").await;
    place.ask(ALICE, "DELETE", "/sessions/s", None).await;
    // It is told that the stream is gone; there is no outcome of a run.
    let seen = reader.whole().await;
    assert!(seen.contains("event: gone\ndata: {}"), "{seen}");
    assert!(!seen.contains("event: end"), "{seen}");
    place.get("/sse?sessionId=s").await.is(404, "NOT_FOUND");
}

/// Requests the stream of `s` after a sequence, in the stream that a header or the query names.
async fn resumed(place: &Place, after: u64, header: Option<&str>, query: Option<&str>) -> Answer {
    let mut path = format!("/sse?sessionId=s&fromSequence={after}");
    if let Some(stream) = query {
        path.push_str(&format!("&streamIncarnation={stream}"));
    }
    let mut asked = request(ALICE, "GET", &path, None);
    if let Some(stream) = header {
        let headers = asked.headers_mut();
        headers.insert("x-helix-stream", stream.parse().unwrap());
    }
    Answer::of(place.app.clone().oneshot(asked).await.unwrap()).await
}

fn stream_of(answer: &Answer) -> String {
    answer.headers["x-helix-stream"]
        .to_str()
        .unwrap()
        .to_owned()
}

/// A sequence belongs to one stream: when its session is deleted and created again, a reader that
/// resumes from it is told, and does not get the rest of another conversation.
#[tokio::test]
async fn a_cursor_into_a_deleted_stream_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for place in [Place::new(), Place::sqlite(folder.path()).await] {
        place.ended("long").await;
        let whole = place.get("/sse?sessionId=s").await;
        let old = stream_of(&whole);
        let all = frames(whole.text());
        let last = sequence(all[all.len() - 2]);
        let status = place.get("/status?sessionId=s").await.ok();
        assert_eq!(status["streamIncarnation"].to_string(), old);
        // While the stream exists, naming it changes nothing.
        for (header, query) in [(Some(&*old), None), (None, Some(&*old))] {
            let rest = resumed(&place, 2, header, query).await;
            assert_eq!(frames(rest.text()), all[2..]);
            assert_eq!(stream_of(&rest), old);
        }
        place.ask(ALICE, "DELETE", "/sessions/s", None).await;
        let gone = resumed(&place, 2, Some(&old), None).await;
        gone.is(404, "NOT_FOUND");

        place.ended("hello").await;
        let whole = place.get("/sse?sessionId=s").await;
        let new = stream_of(&whole);
        assert_ne!(new, old);
        let shorter = frames(whole.text()).len() as u64;
        assert!(shorter < last, "the cases below need a shorter stream");
        for after in [0, 2, last] {
            for (header, query) in [(Some(&*old), None), (None, Some(&*old))] {
                let refused = resumed(&place, after, header, query).await;
                refused.is(409, "STALE");
                assert!(refused.text().contains(&format!("it is now stream {new}")));
            }
        }
        // A reader that does not name its stream gets the outcome at least.
        let end = resumed(&place, last, None, None).await;
        assert_eq!(frames(end.text()).len(), 1);
        assert!(end.text().starts_with("event: end"), "{}", end.text());
        let rest = resumed(&place, 2, Some(&new), Some(&old)).await;
        assert_eq!(frames(rest.text()), frames(whole.text())[2..]);
        for bad in ["x", "-1", ""] {
            let bad = resumed(&place, 0, Some(bad), None).await;
            bad.is(400, "VALIDATION_ERROR");
        }
        let bad = resumed(&place, 0, None, Some("x")).await;
        bad.is(400, "VALIDATION_ERROR");

        // While a run is running there is no outcome, and the reader does not wait for chunks that
        // may never come.
        place.ask(ALICE, "DELETE", "/sessions/s", None).await;
        let body = json!({ "sessionId": "s", "agentType": "desk", "message": "wait" });
        place.post("/start", body).await.ok();
        place.outside.reached().await;
        resumed(&place, last, None, None).await.is(409, "STALE");
        place.outside.open();
        place.settled("s").await;
    }
}

/// A session may be deleted and created again by another user while it is read. Its reader is told,
/// and sees no data of the new session.
#[tokio::test]
async fn a_live_reader_sees_nothing_of_a_recreated_session() {
    let place = Place::new();
    let app = crate::kit::builder(&place.runtime)
        .authenticate(crate::kit::tokens())
        .keep_alive(Duration::from_secs(86_400))
        .build();
    let server = Loopback::new(app.unwrap().router(), Limits::default()).await;
    let body = |message| json!({ "sessionId": "s", "agentType": "desk", "message": message });
    place.post("/start", body("wait")).await.ok();
    place.outside.reached().await;
    let mut reader = server.get("/sse?sessionId=s").await;
    reader.until("tool_start").await;
    // The reader cannot read between the two.
    place.ask(ALICE, "DELETE", "/sessions/s", None).await;
    let bob = place.ask(BOB, "POST", "/start", Some(body("hello")));
    bob.await.ok();
    let seen = reader.whole().await;
    assert!(seen.contains("event: gone"), "{seen}");
    assert!(!seen.contains("event: end"), "{seen}");
    assert!(!seen.contains("how are"), "{seen}");
    assert!(!seen.contains("greet"), "{seen}");
    let late = place.get("/sse?sessionId=s").await;
    late.is(404, "NOT_FOUND");
}

/// proves in part: SRV-01
#[tokio::test]
async fn a_stream_has_numbered_chunks_and_an_end() {
    let place = Place::new();
    place.ended("look").await;
    let answer = place.get("/sse?sessionId=s").await;
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    assert_eq!(answer.headers["cache-control"], "no-cache");
    let frames = frames(answer.text());
    let (end, chunks) = frames.split_last().unwrap();
    assert_eq!(*end, "event: end\ndata: {\"status\":\"completed\"}");
    let types: Vec<_> = chunks
        .iter()
        .map(|chunk| data(chunk)["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(types[0], "run_started");
    for kind in ["tool_start", "tool_end", "text_delta", "step_committed"] {
        assert!(types.iter().any(|have| have == kind), "{types:?}");
    }
    let sequences: Vec<_> = chunks.iter().map(|chunk| sequence(chunk)).collect();
    assert_eq!(sequences[0], 1);
    assert!(sequences.is_sorted_by(|a, b| a < b), "{sequences:?}");
    for chunk in chunks {
        let chunk = data(chunk);
        assert_eq!(chunk["sessionId"], "s");
        assert_eq!(chunk["runId"], "run-1");
        assert_eq!(chunk["agentType"], "desk");
    }
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["streamSequence"], *sequences.last().unwrap());
}

#[tokio::test]
async fn a_stream_can_be_resumed_from_every_sequence_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = Place::sqlite(folder.path()).await;
    first.ended("long").await;
    let whole = read(&first, 0).await;
    let all = frames(&whole);
    assert!(all.len() >= 40, "{}", all.len());
    let second = Place::sqlite(folder.path()).await;
    for place in [&first, &second] {
        for (at, frame) in all[..all.len() - 1].iter().enumerate() {
            let rest = read(place, sequence(frame)).await;
            assert_eq!(frames(&rest), all[at + 1..]);
        }
        assert_eq!(read(place, 0).await, whole);
    }
}

#[tokio::test]
async fn a_browser_resumes_from_its_last_event_id() {
    let place = Place::new();
    place.ended("hello").await;
    let whole = read(&place, 0).await;
    let all = frames(&whole);
    for (header, from) in [("3", 0), ("3", 1), ("1", 3)] {
        let path = format!("/sse?sessionId=s&fromSequence={from}");
        let mut asked = request(ALICE, "GET", &path, None);
        let value = header.parse().unwrap();
        asked.headers_mut().insert("last-event-id", value);
        let answer = place.app.clone().oneshot(asked).await.unwrap();
        let answer = Answer::of(answer).await;
        let first = frames(answer.text())[0].to_owned();
        assert_eq!(first, all[3], "after {header} and {from}");
    }
    let mut asked = request(ALICE, "GET", "/sse?sessionId=s", None);
    asked
        .headers_mut()
        .insert("last-event-id", "x".parse().unwrap());
    let answer = place.app.clone().oneshot(asked).await.unwrap();
    Answer::of(answer).await.is(400, "VALIDATION_ERROR");
    let bad = place.get("/sse?sessionId=s&fromSequence=-1").await;
    bad.is(400, "VALIDATION_ERROR");
    place.get("/sse").await.is(400, "VALIDATION_ERROR");
    let none = place.get("/sse?sessionId=never").await;
    none.is(404, "NOT_FOUND");
}

#[tokio::test]
async fn the_stream_of_a_suspended_run_ends_with_its_pending_calls() {
    let place = Place::new();
    place.ended("pay").await;
    let text = read(&place, 0).await;
    let end = *frames(&text).last().unwrap();
    assert!(end.starts_with("event: end\n"), "{end}");
    let suspended = json!({ "toolCallIds": ["p1"], "stepId": "step-1" });
    let expected = json!({ "status": "active", "suspended": suspended });
    assert_eq!(data(end), expected);
}

#[tokio::test]
async fn a_failed_stream_ends_with_its_error() {
    let place = Place::new();
    place.ended("fail").await;
    let text = read(&place, 0).await;
    let end = data(frames(&text).last().unwrap());
    assert_eq!(end["status"], "failed");
    assert_eq!(end["error"]["code"], "provider_auth");
}

#[tokio::test]
async fn a_reader_is_told_which_chunks_are_no_longer_kept() {
    let place = Place::new();
    place.ended("hello").await;
    let whole = read(&place, 0).await;
    let root = SessionId::new("s").unwrap();
    let streams = &place.runtime.backend().streams;
    streams.trim(&root, Sequence(3)).await.unwrap();
    let rest = read(&place, 1).await;
    let trimmed = "id: 3\nevent: trimmed\ndata: {\"upTo\":3}";
    let expected = [&[trimmed], &frames(&whole)[3..]].concat();
    assert_eq!(frames(&rest), expected);
}

#[tokio::test]
async fn a_session_that_never_ran_ends_at_once() {
    let place = Place::new();
    place.ended("hello").await;
    let body = json!({ "messageIndex": 0, "newSessionId": "copy" });
    place.post("/sessions/s/branch", body).await.ok();
    let answer = place.get("/sse?sessionId=copy").await;
    let expected = "event: end\ndata: {\"status\":\"completed\"}\n\n";
    assert_eq!(answer.text(), expected);
}

#[tokio::test]
async fn a_live_reader_gets_the_same_chunks_as_a_later_one() {
    let place = Place::new();
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "wait" });
    place.post("/start", body).await.ok();
    place.outside.reached().await;
    let server = Loopback::new(place.app.clone(), Limits::default()).await;
    let mut readers = Vec::new();
    for _ in 0..8 {
        let mut reader = server.get("/sse?sessionId=s").await;
        reader.until("tool_start").await;
        readers.push(reader);
    }
    place.outside.open();
    for reader in &mut readers {
        reader.until("event: end").await;
    }
    let later = read(&place, 0).await;
    for reader in readers {
        let live = unchunked(&reader.seen);
        assert_eq!(frames(&live), frames(&later));
    }
    server.stop().await.unwrap();
}

/// Decodes a response body in chunked encoding.
fn unchunked(seen: &str) -> String {
    let (_, mut rest) = seen.split_once("\r\n\r\n").unwrap();
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        let Some(piece) = after.get(..size) else {
            break;
        };
        body.push_str(piece);
        rest = after[size..].trim_start_matches("\r\n");
    }
    body
}

#[tokio::test]
async fn the_next_turn_can_be_read_from_the_end_of_the_last_one() {
    let place = Place::new();
    place.ended("hello").await;
    let first = read(&place, 0).await;
    let last = sequence(frames(&first)[frames(&first).len() - 2]);
    let body = json!({ "sessionId": "s", "mode": "with_message", "message": "wait" });
    place.post("/resume", body).await.ok();
    place.outside.reached().await;
    let path = format!("/sse?sessionId=s&fromSequence={last}");
    let asked = request(ALICE, "GET", &path, None);
    let live = place.app.clone().oneshot(asked).await.unwrap();
    place.outside.open();
    let second = Answer::of(live).await;
    let whole = read(&place, 0).await;
    let (first, second, whole) = (frames(&first), frames(second.text()), frames(&whole));
    assert_eq!([&first[..first.len() - 1], &second[..]].concat(), whole);
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_is_kept_alive_until_its_session_is_deleted() {
    let place = Place::new();
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "wait" });
    place.post("/start", body).await.ok();
    place.outside.reached().await;
    let asked = request(ALICE, "GET", "/sse?sessionId=s", None);
    let answer = place.app.clone().oneshot(asked).await.unwrap();
    let mut pieces = answer.into_body().into_data_stream();
    let mut idle = 0;
    while idle < 3 {
        let piece = pieces.next().await.unwrap().unwrap();
        idle += usize::from(&piece[..] == b": keep-alive\n\n");
    }
    let metrics = place.get("/metrics").await;
    assert!(metrics.text().contains("helix_sse_open_streams 1\n"));
    place.ask(ALICE, "DELETE", "/sessions/s", None).await;
    let mut last = Vec::new();
    while let Some(piece) = pieces.next().await {
        last = piece.unwrap().to_vec();
    }
    // There is no outcome of a run.
    assert_eq!(last, b"event: gone\ndata: {}\n\n");
}

#[tokio::test]
async fn a_slow_reader_uses_little_memory_and_a_disconnected_one_none() {
    let place = Place::new();
    place.ended("huge").await;
    let status = place.get("/status?sessionId=s").await.ok();
    assert!(status["streamSequence"].as_u64().unwrap() > 5_000);
    let asked = request(ALICE, "GET", "/sse?sessionId=s", None);
    let answer = place.app.clone().oneshot(asked).await.unwrap();
    let mut pieces = Body::into_data_stream(answer.into_body());
    assert!(pieces.next().await.is_some());
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let metrics = place.get("/metrics").await;
    let lines = &mut metrics.text().lines();
    let sent = lines.find_map(|line| line.strip_prefix("helix_sse_chunks_total "));
    let sent: u64 = sent.unwrap().parse().unwrap();
    assert!((1..1_500).contains(&sent), "{sent} chunks were made ready");
    drop(pieces);
    loop {
        let metrics = place.get("/metrics").await;
        if metrics.text().contains("helix_sse_open_streams 0\n") {
            return;
        }
        tokio::task::yield_now().await;
    }
}
