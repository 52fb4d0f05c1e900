//! The end of streams, and what readers are told about it and about removed chunks.

use std::pin::pin;

use futures_util::future::poll_immediate;
use helix_agents_core::stream::{Sequence, StreamItem, StreamStatus, StreamWriter};

use super::Subject;
use super::builders::{accepted, commit, created, event, running, text};
use super::everything::chunks;
use super::runner::in_time;
use super::streaming::{next, reader, rest, streaming, turn};

const REMOVED: &str = "a reader must learn that its stream was removed";

/// Readers see each way in which a stream can end, and a paused stream continues.
///
/// proves in part: STR-04
pub async fn a_stream_ends_fails_or_pauses_and_continues(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    let mut from = Sequence::START;
    for status in [
        StreamStatus::Paused,
        StreamStatus::Failed,
        StreamStatus::Ended,
    ] {
        turn(on, &writer, 3, status).await;
        let info = on.elsewhere().streams.info(&root).await.unwrap().unwrap();
        assert_eq!(info.status, status);
        let mut one = reader(on.elsewhere(), &root, from);
        let (seen, end) = rest(&mut one).await;
        assert_eq!(
            (seen.len(), end),
            (3, status),
            "from where the last turn ended"
        );
        from = one.cursor();
        let again = rest(&mut reader(on, &root, from)).await;
        assert_eq!(
            again,
            (Vec::new(), status),
            "who has all of it is told the end alone"
        );
        accepted(on, commit(on, &root).stream(StreamStatus::Active)).await;
        let mut waits = reader(on, &root, from);
        let early = poll_immediate(pin!(waits.next())).await;
        assert!(
            early.is_none(),
            "it is active again, so its reader waits: {early:?}"
        );
    }
}

/// A reader of a stream that is removed does not wait for more, whatever its position.
pub async fn a_reader_of_a_removed_stream_ends(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    turn(on, &writer, 3, StreamStatus::Active).await;
    let mut live = reader(on.elsewhere(), &root, Sequence::START);
    for _ in 0..3 {
        next(&mut live).await;
    }
    let mut waiting = pin!(live.next());
    assert!(poll_immediate(waiting.as_mut()).await.is_none(), "it waits");
    on.sessions().delete_session(&root).await.unwrap();
    let item = in_time(REMOVED, waiting).await.unwrap();
    assert_eq!(item, Some(StreamItem::Gone { now: None }));
    let mut late = reader(on, &root, Sequence(2));
    let item = in_time(REMOVED, late.next()).await.unwrap();
    assert_eq!(item, Some(StreamItem::Gone { now: None }));
    assert_eq!(in_time(REMOVED, late.next()).await.unwrap(), None);
}

/// Chunks that are written with the end, or just before it, are seen before the end.
///
/// proves: STR-03
/// proves in part: STR-04
pub async fn chunks_before_the_end_are_seen_before_it(on: &Subject) {
    for round in 0..20 {
        let root = created(on, &format!("s-{round}")).await;
        let (_, fence) = running(on, &root, "run").await;
        let writer = StreamWriter::new(root.clone(), root.clone(), fence);
        let seen = on.at_once(2, async |on, index| {
            if index == 0 {
                turn(on, &writer, 5, StreamStatus::Ended).await;
                return 5;
            }
            let mut reader = reader(on, &root, Sequence::START);
            rest(&mut reader).await.0.len()
        });
        assert_eq!(seen, [5, 5]);
    }
}

/// A reader that asks for chunks that retention removed is told once, and then gets the
/// remaining ones.
///
/// proves: STR-01
pub async fn a_reader_is_told_which_chunks_were_removed(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    turn(on, &writer, 8, StreamStatus::Ended).await;
    let all = chunks(on, &root).await;
    let mut early = reader(on, &root, Sequence::START);
    assert!(matches!(next(&mut early).await, Some(StreamItem::Chunk(_))));
    let up_to = all[4].sequence;
    on.elsewhere().streams.trim(&root, up_to).await.unwrap();
    for after in [Sequence::START, all[2].sequence] {
        let mut reader = reader(on, &root, after);
        assert_eq!(next(&mut reader).await, Some(StreamItem::Trimmed { up_to }));
        assert_eq!(rest(&mut reader).await.0, all[5..]);
    }
    let (seen, _) = rest(&mut reader(on, &root, up_to)).await;
    assert_eq!(seen, all[5..], "who has it already misses nothing");
    on.streams.trim(&root, all[7].sequence).await.unwrap();
    let mut late = reader(on, &root, all[6].sequence);
    let up_to = all[7].sequence;
    assert_eq!(next(&mut late).await, Some(StreamItem::Trimmed { up_to }));
    assert_eq!(
        next(&mut late).await,
        Some(StreamItem::End(StreamStatus::Ended))
    );
}

/// When an attempt is discarded, live readers continue and later readers never see it.
///
/// proves: STR-03
pub async fn live_readers_continue_after_a_discarded_attempt(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    let mut live = reader(on.elsewhere(), &root, Sequence::START);
    let said = accepted(on, commit(on, &root).say(event(on, &root, "begin"))).await;
    let deltas = (0..9).map(|index| text(on, &root, &format!("wrong {index}")));
    on.streams
        .append_deltas(&writer, deltas.collect())
        .await
        .unwrap();
    for _ in 0..4 {
        let item = next(&mut live).await;
        assert!(matches!(item, Some(StreamItem::Chunk(_))), "{item:?}");
    }
    let sorry = event(on, &root, "discarded");
    let told = on
        .streams
        .discard_deltas(&writer, said.sequence, sorry)
        .await
        .unwrap();
    turn(on, &writer, 3, StreamStatus::Ended).await;

    let (after, _) = rest(&mut reader(on, &root, Sequence::START)).await;
    assert_eq!(after.len(), 5, "a later reader sees nothing of the attempt");
    assert_eq!(after[1].sequence, told);
    let (seen, _) = rest(&mut live).await;
    let since: Vec<_> = seen
        .iter()
        .filter(|one| one.sequence >= told)
        .cloned()
        .collect();
    assert_eq!(since, after[1..], "a live reader is told, and continues");
    for cursor in said.sequence.0..told.0 {
        let (seen, _) = rest(&mut reader(on, &root, Sequence(cursor))).await;
        assert_eq!(seen, after[1..], "also from {cursor}, a place that is gone");
    }
}
