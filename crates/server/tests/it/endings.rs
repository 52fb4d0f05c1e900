//! Tests of the end of a stream while it is read.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::Response;
use futures_util::{Stream, StreamExt};
use helix_agents_core::runtime::Runtime;
use helix_agents_core::session::{RunRecord, RunTrigger, SessionState};
use helix_agents_core::store::{Change, Commit, SessionStore};
use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload, StreamStatus};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{AgentId, RunId, SessionId, UserId};
use serde_json::json;
use tower::ServiceExt;

use crate::interleaved_store::InterleavedStore;
use crate::kit::{ALICE, Answer, NOW, Place, request};

fn session() -> SessionId {
    SessionId::new("s").unwrap()
}

fn commit() -> Commit {
    Commit::new(session(), Timestamp::from_millis(NOW))
}

fn chunk(name: &str) -> Chunk {
    let (agent, run) = (AgentId::new("s").unwrap(), RunId::new("run-2").unwrap());
    let base = ChunkOrigin::new(agent, "desk", session(), run, 1);
    let payload = ChunkPayload::Custom {
        event_name: name.to_owned(),
        data: json!(name),
    };
    Chunk::new(Arc::new(base), Timestamp::from_millis(NOW), payload)
}

/// Requests the stream. It is not read before the body is polled.
async fn open_stream(place: &Place) -> Response<Body> {
    let asked = request(ALICE, "GET", "/sse?sessionId=s", None);
    place.app.clone().oneshot(asked).await.unwrap()
}

/// Chunks written between the last read and the end are sent before the end.
#[tokio::test]
async fn chunks_written_just_before_the_end_are_sent() {
    let store = InterleavedStore::new();
    let place = Place::over(store.clone());
    place.ended("hello").await;
    let response = open_stream(&place).await;
    store.then(commit().say(chunk("at the last moment")));
    let text = Answer::of(response).await.text().to_owned();
    assert!(store.has_happened());
    let (said, end) = text.rsplit_once("event: end").unwrap();
    assert!(said.contains("at the last moment"), "{text}");
    assert!(!said.contains("event: end") && end.contains("completed"));
}

/// A run that starts between the last read and the end is read too, even before its first chunk.
#[tokio::test]
async fn a_run_that_starts_just_before_the_end_is_read_too() {
    let store = InterleavedStore::new();
    let place = Place::over(store.clone());
    place.ended("hello").await;
    let mut pieces = open_stream(&place).await.into_body().into_data_stream();
    store.then(commit().stream(StreamStatus::Active));
    let mut text = String::new();
    // The first turn is one piece.
    text.push_str(&next(&mut pieces).await.unwrap());
    while !store.has_happened() {
        tokio::task::yield_now().await;
    }
    assert!(!text.contains("event: end"), "{text}");
    let later = commit().say(chunk("later")).stream(StreamStatus::Ended);
    store.commit(later).await.unwrap();
    while let Some(piece) = next(&mut pieces).await {
        text.push_str(&piece);
    }
    let (said, _) = text.rsplit_once("event: end").unwrap();
    assert!(said.contains("later"), "{text}");
    assert!(!said.contains("event: end"), "{text}");
}

/// A session that is deleted and created again between the last read and the end has its own
/// outcome, which is not sent to the reader of the first one.
#[tokio::test]
async fn the_outcome_of_a_recreated_session_is_not_sent_to_an_old_reader() {
    for has_stream in [true, false] {
        let store = InterleavedStore::new();
        let place = Place::over(store.clone());
        place.ended("hello").await;
        let response = open_stream(&place).await;
        let anew = SessionState::new(session(), "desk", Timestamp::from_millis(NOW));
        let mut anew = commit()
            .then(Change::Delete)
            .then(Change::Create(Box::new(anew)));
        if has_stream {
            anew = anew.say(chunk("theirs")).stream(StreamStatus::Ended);
        }
        store.first(anew);
        let text = Answer::of(response).await.text().to_owned();
        assert!(text.contains("Hello"), "{text}");
        assert!(text.contains("event: gone"), "{text}");
        assert!(
            !text.contains("event: end") && !text.contains("theirs"),
            "{text}"
        );
    }
}

async fn next(
    pieces: &mut (impl Stream<Item = Result<Bytes, axum::Error>> + Unpin),
) -> Option<String> {
    let piece = pieces.next().await?;
    Some(String::from_utf8(piece.unwrap().to_vec()).unwrap())
}

/// A session without chunks has no stream that could report its end, so the server checks whether
/// the session still exists.
#[tokio::test(start_paused = true)]
async fn the_reader_of_a_session_without_chunks_ends_with_its_deletion() {
    let place = Place::new();
    let store = Arc::clone(&place.runtime.backend().store);
    let now = Timestamp::from_millis(NOW);
    let mut silent = SessionState::new(session(), "desk", now);
    silent.user_id = Some(UserId::new("alice").unwrap());
    let (run, trigger) = (RunId::new("run-1").unwrap(), RunTrigger::Execute);
    let run = RunRecord::started(run, session(), trigger, "elsewhere", now);
    let begun = commit()
        .then(Change::Create(Box::new(silent)))
        .then(Change::StartRun(Box::new(run)));
    store.commit(begun).await.unwrap();
    let response = open_stream(&place).await;
    assert!(!response.headers().contains_key("x-helix-stream"));
    let mut pieces = response.into_body().into_data_stream();
    assert_eq!(pieces.next().await.unwrap().unwrap(), ": keep-alive\n\n");
    store.commit(commit().then(Change::Delete)).await.unwrap();
    for _ in 0..3 {
        if pieces.next().await.is_none_or(|piece| piece.is_err()) {
            return;
        }
    }
    panic!("the stream is kept alive although its session was deleted");
}
