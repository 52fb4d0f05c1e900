//! A stream that is created again under its name is another stream, and readers are told.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::future::poll_immediate;
use helix_agents_core::SessionId;
use helix_agents_core::session::SessionState;
use helix_agents_core::store::Change;
use helix_agents_core::stream::{Incarnation, Sequence, StreamItem, StreamStatus};

use super::Subject;
use super::builders::{accepted, commit, event};
use super::everything::chunks;
use super::runner::in_time;
use super::streaming::{commit_chunk, next, reader, rest, stream, streaming, turn, words};

const TOLD: &str = "a reader must learn that another stream has the name of its own";

async fn incarnation(on: &Subject, root: &SessionId) -> Incarnation {
    let info = on.streams.info(root).await.unwrap();
    info.expect("something was written to it").incarnation
}

async fn deleted(on: &Subject, root: &SessionId) {
    assert!(on.sessions().delete_session(root).await.unwrap());
}

/// A stream keeps its incarnation while it exists, and no other stream of its name ever has it.
///
/// proves: STR-01
pub async fn an_incarnation_is_never_used_twice(on: &Subject) {
    let mut seen = BTreeSet::new();
    for round in 0..6 {
        let (root, writer) = streaming(on, "s").await;
        // A stream begins with a delta, or with a commit.
        match round % 2 {
            0 => stream(on, &writer, &["a"]).await,
            _ => commit_chunk(on, &root, "a").await,
        };
        let now = incarnation(on, &root).await;
        assert!(seen.insert(now), "{now} was used before: {seen:?}");
        turn(on, &writer, 5, StreamStatus::Ended).await;
        let last = on.streams.info(&root).await.unwrap().unwrap().last;
        on.streams.trim(&root, last).await.unwrap();
        accepted(on, commit(on, &root).then(Change::RaiseFence)).await;
        accepted(on, commit(on, &root).stream(StreamStatus::Active)).await;
        assert_eq!(incarnation(on, &root).await, now);
        assert_eq!(incarnation(on.elsewhere(), &root).await, now);
        if round == 2 {
            // Deleted and made again in one commit, which begins the new stream.
            let again = SessionState::new(root.clone(), "agent", on.now());
            let again = commit(on, &root)
                .then(Change::Delete)
                .then(Change::Create(Box::new(again)))
                .say(event(on, &root, "again"));
            assert_eq!(accepted(on, again).await.sequence, Sequence(1));
            let now = incarnation(on, &root).await;
            assert!(seen.insert(now), "{now} was used before: {seen:?}");
            assert_eq!(words(&chunks(on, &root).await), ["again"]);
        }
        deleted(on.elsewhere(), &root).await;
    }
}

/// A reader that waits on a stream that is deleted and created again is told, and gets nothing of
/// the new stream, whether that is shorter, as long, or longer.
///
/// proves: STR-02
pub async fn a_live_reader_is_not_spliced_onto_another_stream(on: &Subject) {
    for length in [1, 3, 7] {
        let name = format!("s-{length}");
        let (root, writer) = streaming(on, &name).await;
        turn(on, &writer, 3, StreamStatus::Active).await;
        let mut live = reader(on.elsewhere(), &root, Sequence::START);
        for _ in 0..3 {
            let item = next(&mut live).await;
            assert!(matches!(item, Some(StreamItem::Chunk(_))), "{item:?}");
        }
        assert_eq!(live.incarnation(), Some(incarnation(on, &root).await));
        deleted(on, &root).await;
        let (_, writer) = streaming(on, &name).await;
        turn(on, &writer, length, StreamStatus::Active).await;
        let now = Some(incarnation(on, &root).await);
        let told = in_time(TOLD, live.next()).await.unwrap();
        assert_eq!(told, Some(StreamItem::Gone { now }));
        assert_eq!(in_time(TOLD, live.next()).await.unwrap(), None);
    }
}

/// A reader that is waiting when its stream is replaced is woken.
///
/// proves: STR-02
pub async fn a_waiting_reader_hears_that_its_stream_was_replaced(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    turn(on, &writer, 3, StreamStatus::Active).await;
    let mut live = reader(on, &root, Sequence(3));
    let mut waits = pin!(live.next());
    assert!(poll_immediate(waits.as_mut()).await.is_none(), "it waits");
    let on = on.elsewhere();
    let again = SessionState::new(root.clone(), "agent", on.now());
    let mut again = commit(on, &root)
        .then(Change::Delete)
        .then(Change::Create(Box::new(again)));
    for name in ["x", "y", "z"] {
        again = again.say(event(on, &root, name));
    }
    // As many chunks as before, at once: only the incarnation tells.
    accepted(on, again.stream(StreamStatus::Active)).await;
    let now = Some(incarnation(on, &root).await);
    let told = in_time(TOLD, waits).await.unwrap();
    assert_eq!(told, Some(StreamItem::Gone { now }));
}

/// A reader that resumes names the incarnation it knew, and is told when that stream was deleted. A
/// sequence that the stream never had is recognised without it.
///
/// proves: STR-01
pub async fn a_reader_with_a_cursor_into_a_deleted_stream_is_told(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    turn(on, &writer, 8, StreamStatus::Ended).await;
    let old = incarnation(on, &root).await;
    let mut again = reader(on, &root, Sequence(5)).of(old);
    assert_eq!(rest(&mut again).await.0.len(), 3, "it is still there");
    deleted(on, &root).await;
    let gone = StreamItem::Gone { now: None };
    let mut late = reader(on, &root, Sequence::START).of(old);
    assert_eq!(next(&mut late).await, Some(gone), "also at the start");

    let (_, writer) = streaming(on, "s").await;
    turn(on, &writer, 4, StreamStatus::Active).await;
    let new = incarnation(on, &root).await;
    let now = Some(new);
    for on in [on, on.elsewhere()] {
        for after in [0, 2, 4, 8] {
            let mut late = reader(on, &root, Sequence(after)).of(old);
            let told = next(&mut late).await;
            assert_eq!(told, Some(StreamItem::Gone { now }), "after {after}");
            assert_eq!(next(&mut late).await, None);
        }
        let mut nameless = reader(on, &root, Sequence(5));
        let told = next(&mut nameless).await;
        assert_eq!(told, Some(StreamItem::Gone { now }), "past the end");
        let mut known = reader(on, &root, Sequence(3)).of(new);
        assert!(matches!(next(&mut known).await, Some(StreamItem::Chunk(_))));
    }
}
