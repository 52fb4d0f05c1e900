//! Readers: from any sequence, at any time, without loss and without repetition.

use std::pin::pin;

use futures_util::future::poll_immediate;
use helix_agents_core::stream::{Sequence, StreamInfo, StreamItem, StreamStatus};

use super::Subject;
use super::builders::{accepted, commit, text};
use super::everything::chunks;
use super::runner::in_time;
use super::streaming::{GOES_ON, next, reader, rest, streaming, turn};

/// A reader that resumes after a sequence gets exactly the chunks after it, from every sequence and
/// in any process.
///
/// proves: STR-01
pub async fn a_reader_resumes_at_every_sequence(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    turn(on, &writer, 12, StreamStatus::Ended).await;
    let all = chunks(on, &root).await;
    assert_eq!(all.len(), 12);
    for on in [on, on.elsewhere()] {
        for after in 0..=all[11].sequence.0 {
            let seen = rest(&mut reader(on, &root, Sequence(after))).await;
            let wanted: Vec<_> = all
                .iter()
                .filter(|one| one.sequence.0 > after)
                .cloned()
                .collect();
            assert_eq!(seen, (wanted, StreamStatus::Ended), "resumed after {after}");
        }
        for limit in [0, 1, 5, 12, 99] {
            let part = on
                .streams
                .read(&root, all[3].sequence, limit)
                .await
                .unwrap();
            let wanted: Vec<_> = all[4..].iter().take(limit).cloned().collect();
            assert_eq!(part, wanted);
        }
    }
}

/// A reader may start before anything is written, while it is written, and after the end.
///
/// proves: STR-02
pub async fn readers_before_during_and_after_see_the_same(on: &Subject) {
    const LENGTH: usize = 120;
    let (root, writer) = streaming(on, "s").await;
    let seen = on.at_once(6, async |on, index| {
        if index == 0 {
            turn(on, &writer, LENGTH, StreamStatus::Ended).await;
        }
        let mut reader = reader(on, &root, Sequence::START);
        rest(&mut reader).await
    });
    let all = chunks(on, &root).await;
    assert_eq!(all.len(), LENGTH);
    for (index, seen) in seen.into_iter().enumerate() {
        assert_eq!(seen, (all.clone(), StreamStatus::Ended), "reader {index}");
    }
}

/// A waiting reader is woken by a chunk and by the end; dropping it loses nothing.
///
/// proves: STR-02
pub async fn a_waiting_reader_is_woken(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    let mut reader = reader(on, &root, Sequence::START);
    for piece in ["a", "b", "c"] {
        {
            let mut waits = pin!(reader.next());
            assert!(
                poll_immediate(waits.as_mut()).await.is_none(),
                "nothing is there yet"
            );
            let delta = vec![text(on, &root, piece)];
            on.elsewhere()
                .streams
                .append_deltas(&writer, delta)
                .await
                .unwrap();
            if piece != "b" {
                let item = in_time(GOES_ON, waits).await.unwrap();
                assert!(matches!(item, Some(StreamItem::Chunk(_))), "{item:?}");
                continue;
            }
        }
        // The one that waited is gone; the reader asks again and gets it all the same.
        let item = next(&mut reader).await;
        assert!(matches!(&item, Some(StreamItem::Chunk(_))), "{item:?}");
    }
    let mut waits = pin!(reader.next());
    assert!(poll_immediate(waits.as_mut()).await.is_none());
    let ended = commit(on, &root).stream(StreamStatus::Ended);
    accepted(on.elsewhere(), ended).await;
    let item = in_time("the end wakes readers", waits).await.unwrap();
    assert_eq!(item, Some(StreamItem::End(StreamStatus::Ended)));
}

/// A slow reader gets all of a long stream, even long after it was written.
///
/// proves: STR-02
pub async fn a_slow_reader_loses_nothing(on: &Subject) {
    const LENGTH: usize = 700;
    let (root, writer) = streaming(on, "s").await;
    let mut slow = reader(on, &root, Sequence::START);
    let first = vec![text(on, &root, "0")];
    on.streams.append_deltas(&writer, first).await.unwrap();
    let mut seen = vec![match next(&mut slow).await {
        Some(StreamItem::Chunk(stored)) => stored,
        other => panic!("the first chunk, not {other:?}"),
    }];
    for batch in 0..LENGTH / 50 {
        let deltas = (0..50).map(|index| text(on, &root, &format!("{batch}.{index}")));
        on.streams
            .append_deltas(&writer, deltas.collect())
            .await
            .unwrap();
        // One step while fifty are written.
        if let Some(StreamItem::Chunk(stored)) = next(&mut slow).await {
            seen.push(stored);
        }
    }
    accepted(on, commit(on, &root).stream(StreamStatus::Ended)).await;
    let (more, _) = rest(&mut slow).await;
    seen.extend(more);
    assert_eq!(seen.len(), LENGTH + 1);
    assert_eq!(seen, chunks(on, &root).await);
}

/// Waiting for a change returns at once if there was one, including a change of status.
///
/// proves: STR-02
pub async fn a_change_is_noticed(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    let delta = || vec![text(on, &root, "a")];
    let nothing = on.streams.info(&root).await.unwrap();
    on.streams.append_deltas(&writer, delta()).await.unwrap();
    let known = on.streams.info(&root).await.unwrap().unwrap();
    let noticed = "a change that is there already is noticed at once";
    let paused = StreamStatus::Paused;
    let other = StreamInfo {
        incarnation: known.incarnation,
        status: paused,
        last: known.last,
        trimmed: known.trimmed,
        condensed: Sequence::START,
    };
    for before in [nothing, Some(other)] {
        in_time(noticed, on.streams.changed(&root, before))
            .await
            .unwrap();
    }
    let mut waits = pin!(on.streams.changed(&root, Some(known)));
    let early = poll_immediate(waits.as_mut()).await;
    on.elsewhere()
        .streams
        .append_deltas(&writer, delta())
        .await
        .unwrap();
    // It may return early, and must not return late.
    if early.is_none() {
        in_time("a chunk that is written elsewhere is noticed", waits)
            .await
            .unwrap();
    }
}
