//! Appending to a stream: in order, numbered once, and only by a writer that is admitted.

use helix_agents_core::SessionId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::store::{Change, Fence, Precondition, StoreError};
use helix_agents_core::stream::{ChunkPayload, Sequence, StreamError, StreamStatus, StreamWriter};
use serde_json::json;

use super::Subject;
use super::builders::{accepted, child_of, chunk, commit, event, running, session, text};
use super::everything::{chunks, everything};
use super::streaming::{commit_chunk, numbers, stream, streaming, words};

/// Sequences begin at 1 and grow in the order of writing, through commits and deltas alike.
///
/// proves: STR-01
pub async fn sequences_begin_at_one_and_grow(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    assert_eq!(
        on.streams.info(&root).await.unwrap(),
        None,
        "nothing was written to it"
    );
    assert!(chunks(on, &root).await.is_empty());
    let mut last = vec![commit_chunk(on, &root, "a").await];
    last.push(stream(on, &writer, &["b", "c"]).await);
    let both = commit(on, &root)
        .say(event(on, &root, "d"))
        .say(event(on, &root, "e"));
    last.push(accepted(on, both).await.sequence);
    last.push(stream(on, &writer, &["f"]).await);
    for on in [on, on.elsewhere()] {
        let found = chunks(on, &root).await;
        assert_eq!(words(&found), ["a", "b", "c", "d", "e", "f"]);
        let numbers = numbers(&found);
        assert_eq!(numbers[0], 1, "the first chunk of a stream is number 1");
        assert!(
            numbers.is_sorted_by(|a, b| a < b),
            "sequences grow: {numbers:?}"
        );
        let said: Vec<_> = [0, 2, 4, 5].map(|at| found[at].sequence).into();
        assert_eq!(
            last, said,
            "writers are told the sequence of their last chunk"
        );
        let info = on.streams.info(&root).await.unwrap().unwrap();
        assert_eq!(
            (info.status, info.trimmed),
            (StreamStatus::Active, Sequence::START)
        );
        assert_eq!(info.last, found[5].sequence);
    }
    // A chunk comes back as it went in.
    let found = chunks(on, &root).await;
    assert_eq!(found[0].chunk, event(on, &root, "a"));
    assert_eq!(found[1].chunk, text(on, &root, "b"));
}

/// Nothing of a refused commit is seen, and it uses no sequence.
///
/// proves: STR-01
pub async fn nothing_is_seen_of_a_refused_commit(on: &Subject) {
    let (root, _) = streaming(on, "s").await;
    let refused = |on: &Subject| {
        commit(on, &root)
            .when(Precondition::Version(99))
            .say(event(on, &root, "never"))
            .stream(StreamStatus::Failed)
    };
    assert!(on.store.commit(refused(on)).await.is_err());
    assert_eq!(on.streams.info(&root).await.unwrap(), None);
    commit_chunk(on, &root, "a").await;
    let impossible = commit(on, &root)
        .say(event(on, &root, "never"))
        .then(Change::RewindState(99));
    assert!(on.store.commit(impossible).await.is_err());
    assert!(on.store.commit(refused(on)).await.is_err());
    let found = chunks(on, &root).await;
    assert_eq!(words(&found), ["a"]);
    let info = on.streams.info(&root).await.unwrap().unwrap();
    assert_eq!(
        (info.last, info.status),
        (found[0].sequence, StreamStatus::Active)
    );
}

/// A chunk is in the stream exactly when its commit is in the store, and not before.
///
/// proves: STR-01
pub async fn a_chunk_is_seen_with_its_commit_and_not_before(on: &Subject) {
    const COMMITS: u64 = 60;
    let (root, _) = streaming(on, "s").await;
    let first = on
        .store
        .load(root.as_root())
        .await
        .unwrap()
        .unwrap()
        .state
        .version;
    on.at_once(3, async |on, index| {
        if index == 0 {
            for _ in 0..COMMITS {
                let commit = commit(on, &root)
                    .then(Change::RaiseFence)
                    .say(event(on, &root, "raised"));
                accepted(on, commit).await;
            }
            return;
        }
        loop {
            // What is read first was written no later than what is read last.
            let before = on
                .store
                .load(root.as_root())
                .await
                .unwrap()
                .unwrap()
                .state
                .version
                - first;
            let seen = chunks(on, &root).await.len() as u64;
            let after = on
                .store
                .load(root.as_root())
                .await
                .unwrap()
                .unwrap()
                .state
                .version
                - first;
            assert!(
                on.streams_follow || seen >= before,
                "{before} commits are made, and {seen} chunks are seen"
            );
            assert!(
                seen <= after,
                "{seen} chunks are seen, and {after} commits are made"
            );
            if after == COMMITS {
                break;
            }
        }
    });
    assert_eq!(chunks(on, &root).await.len() as u64, COMMITS);
}

/// Only the session's current fence may write or discard deltas.
///
/// proves: STR-01
pub async fn a_superseded_writer_is_refused(on: &Subject) {
    let (root, old) = streaming(on, "s").await;
    stream(on, &old, &["a"]).await;
    let (_, fence) = running(on.elsewhere(), &root, "next").await;
    let before = chunks(on, &root).await;
    let info = on.streams.info(&root).await.unwrap();
    for wrong in [old.fence, Fence(fence.0 + 1), Fence(0)] {
        let writer = StreamWriter::new(root.clone(), root.clone(), wrong);
        let late = on
            .streams
            .append_deltas(&writer, vec![text(on, &root, "late")])
            .await;
        assert!(
            matches!(&late, Err(StreamError::Superseded { session }) if *session == root),
            "{late:?}"
        );
        let sorry = event(on, &root, "late");
        let late = on
            .streams
            .discard_deltas(&writer, Sequence::START, sorry)
            .await;
        assert!(
            matches!(late, Err(StreamError::Superseded { .. })),
            "{late:?}"
        );
    }
    assert_eq!(chunks(on, &root).await, before);
    assert_eq!(on.streams.info(&root).await.unwrap(), info);
    stream(
        on,
        &StreamWriter::new(root.clone(), root.clone(), fence),
        &["b"],
    )
    .await;
    let nobody = StreamWriter::new(session("t"), session("t"), Fence(0));
    let lost = on
        .streams
        .append_deltas(&nobody, vec![text(on, &root, "lost")])
        .await;
    assert!(
        matches!(lost, Err(StreamError::Store(StoreError::NotFound { .. }))),
        "{lost:?}"
    );
}

/// A chunk that is too large is refused with its whole batch, before it gets a sequence.
///
/// proves: STR-01
pub async fn an_oversized_chunk_is_refused_before_it_gets_a_number(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    let last = stream(on, &writer, &["a"]).await;
    let limit = on.streams.limits().max_chunk_bytes;
    let batch = vec![
        text(on, &root, "small"),
        text(on, &root, &"x".repeat(limit + 1)),
    ];
    let refused = on.streams.append_deltas(&writer, batch).await;
    let Err(StreamError::ChunkTooLarge { bytes, limit: told }) = refused else {
        panic!("a chunk of more than {limit} bytes is refused, not {refused:?}");
    };
    assert!(bytes > limit && told == limit);
    assert_eq!(
        words(&chunks(on, &root).await),
        ["a"],
        "a batch is appended all or none"
    );
    assert_eq!(on.streams.info(&root).await.unwrap().unwrap().last, last);
    assert_eq!(
        stream(on, &writer, &["b"]).await,
        last.next(),
        "no number was spent"
    );
    let large = "ü".repeat(100 * 1024);
    stream(on, &writer, &[&large, ""]).await;
    assert_eq!(words(&chunks(on, &root).await), ["a", "b", &large, ""]);
}

/// A commit with a chunk that is too large is refused whole: no part of it is written. A chunk that
/// was shortened to fit is written, and names what was left out.
///
/// proves: STR-01
pub async fn a_commit_with_an_oversized_chunk_is_refused_whole(on: &Subject) {
    let (root, _) = streaming(on, "s").await;
    let last = commit_chunk(on, &root, "a").await;
    let before = everything(on, &[&root]).await;
    let limits = on.streams.limits();
    let large = json!({ "large": "x".repeat(limits.max_chunk_bytes) });
    let too_large = || {
        let large = large.clone();
        let large = chunk(on, &root, ChunkPayload::Output { output: large });
        commit(on, &root)
            .then(Change::AppendUser(UserMessage::new("never")))
            .then(Change::RaiseFence)
            .say(event(on, &root, "never"))
            .say(large)
            .stream(StreamStatus::Ended)
    };
    let refused = on.store.commit(too_large()).await;
    let Err(StoreError::ChunkTooLarge {
        session,
        bytes,
        limit,
    }) = refused
    else {
        panic!("a chunk that the stream does not take is refused, not {refused:?}");
    };
    assert_eq!((session, limit), (root.clone(), limits.max_chunk_bytes));
    assert!(bytes > limit);
    assert_eq!(everything(on, &[&root]).await, before);

    let fitting = too_large().fitting(limits);
    assert_eq!(accepted(on, fitting).await.sequence.0, last.0 + 2);
    let found = chunks(on.elsewhere(), &root).await;
    let ChunkPayload::Output { output } = &found[2].chunk.payload else {
        panic!("an output stays an output: {found:?}");
    };
    let text = output.as_str().unwrap();
    assert!(
        text.starts_with(r#"{"large":"xx"#) && text.contains("left out"),
        "{text}"
    );
}

/// The stream of a root that does not exist cannot be written: neither by deltas, nor by a commit,
/// nor by a child that outlived its root. The attempt creates nothing.
///
/// proves: STR-01
pub async fn the_stream_of_a_deleted_root_cannot_be_written(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    let child = child_of(on, &root, &root, "child").await;
    let (_, fence) = running(on, &child, "run").await;
    let orphan = StreamWriter::new(root.clone(), child.clone(), fence);
    stream(on, &writer, &["a"]).await;
    stream(on, &orphan, &["b"]).await;
    // The root alone: a child that is not known to its parent yet stays behind.
    accepted(on, commit(on, &root).then(Change::Delete)).await;
    let before = everything(on, &[&root, &child]).await;
    for on in [on, on.elsewhere()] {
        for late in [&writer, &orphan] {
            let deltas = vec![text(on, &late.session, "late")];
            let refused = on.streams.append_deltas(late, deltas).await;
            is_not_found(&refused, &root);
            let sorry = event(on, &late.session, "late");
            let refused = on.streams.discard_deltas(late, Sequence::START, sorry);
            is_not_found(&refused.await, &root);
        }
        let said = commit(on, &root).say(event(on, &root, "late"));
        is_not_found(&on.store.commit(said).await.map_err(Into::into), &root);
        let ended = commit(on, &root)
            .when_in(child.clone(), Precondition::Fence(fence))
            .then_in(child.clone(), Change::RaiseFence)
            .stream(StreamStatus::Ended);
        is_not_found(&on.store.commit(ended).await.map_err(Into::into), &root);
        assert_eq!(on.streams.info(&root).await.unwrap(), None);
        assert_eq!(everything(on, &[&root, &child]).await, before);
    }
}

fn is_not_found<T: std::fmt::Debug>(refused: &Result<T, StreamError>, root: &SessionId) {
    let Err(StreamError::Store(StoreError::NotFound { session })) = refused else {
        panic!("the root is gone, and then it is not {refused:?}");
    };
    assert_eq!(session, root);
}

/// A session writes to the stream of its own root, and to no other.
///
/// proves: STR-01
pub async fn a_session_writes_to_the_stream_of_its_root_only(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    let (other, _) = streaming(on, "other").await;
    let astray = StreamWriter::new(other.clone(), root.clone(), writer.fence);
    let refused = on
        .streams
        .append_deltas(&astray, vec![text(on, &root, "astray")])
        .await;
    assert!(
        matches!(&refused, Err(StreamError::Store(StoreError::NotFound { session })) if *session == root),
        "{refused:?}"
    );
    let sorry = event(on, &root, "astray");
    let refused = on
        .streams
        .discard_deltas(&astray, Sequence::START, sorry)
        .await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(on.streams.info(&other).await.unwrap(), None);
}

/// Concurrent writers lose nothing, and the chunks of each stay in order.
///
/// proves: STR-01
pub async fn concurrent_writers_lose_nothing(on: &Subject) {
    const WRITERS: usize = 6;
    const EACH: usize = 15;
    let (root, _) = streaming(on, "s").await;
    let mut writers = Vec::new();
    for index in 0..WRITERS {
        let child = child_of(on, &root, &root, &format!("child-{index}")).await;
        let (_, fence) = running(on, &child, "run").await;
        writers.push(StreamWriter::new(root.clone(), child, fence));
    }
    on.at_once(WRITERS, async |on, index| {
        for piece in 0..EACH {
            let (first, second) = (format!("{index}:{piece}:a"), format!("{index}:{piece}:b"));
            if piece % 3 == 0 {
                let both = commit(on, &root)
                    .say(event(on, &root, &first))
                    .say(event(on, &root, &second));
                accepted(on, both).await;
            } else {
                stream(on, &writers[index], &[&first, &second]).await;
            }
        }
    });
    let found = chunks(on, &root).await;
    assert_eq!(found.len(), WRITERS * EACH * 2);
    assert!(
        numbers(&found).is_sorted_by(|a, b| a < b),
        "each number is used once"
    );
    for index in 0..WRITERS {
        let prefix = format!("{index}:");
        let mine: Vec<_> = words(&found)
            .into_iter()
            .filter(|word| word.starts_with(&prefix))
            .collect();
        let wanted: Vec<_> = (0..EACH)
            .flat_map(|piece| ["a", "b"].map(|half| format!("{index}:{piece}:{half}")))
            .collect();
        assert_eq!(mine, wanted, "what one writer wrote stays in its order");
    }
}
