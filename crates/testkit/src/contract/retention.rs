//! Removal of chunks: deltas of discarded attempts, and old chunks.

use std::collections::BTreeMap;

use helix_agents_core::stream::{Sequence, StreamWriter};

use super::Subject;
use super::builders::{child_of, event, running};
use super::everything::chunks;
use super::streaming::{commit_chunk, stream, streaming, words};

/// A sequence is never used again, even if its chunk is removed.
///
/// proves: STR-01
pub async fn a_sequence_is_never_used_twice(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    let mut seen = BTreeMap::new();
    let mut look = async || {
        for stored in chunks(on, &root).await {
            let first = seen.entry(stored.sequence).or_insert(stored.clone());
            assert_eq!(*first, stored, "a sequence names one chunk for ever");
        }
        seen.len()
    };
    for round in 0..3 {
        let start = commit_chunk(on, &root, &format!("begin {round}")).await;
        stream(on, &writer, &[&format!("x {round}"), &format!("y {round}")]).await;
        assert_eq!(look().await, round * 4 + 3, "new chunks have new sequences");
        let sorry = event(on, &root, &format!("sorry {round}"));
        let told = on
            .streams
            .discard_deltas(&writer, start, sorry)
            .await
            .unwrap();
        assert_eq!(look().await, round * 4 + 4, "new chunks have new sequences");
        if round == 1 {
            // All chunks are removed, and the sequences still continue.
            on.streams.trim(&root, told).await.unwrap();
            assert!(chunks(on, &root).await.is_empty());
            let info = on.streams.info(&root).await.unwrap().unwrap();
            assert_eq!((info.last, info.trimmed), (told, told));
        }
    }
}

/// Discarding an attempt removes its deltas and keeps the chunks of commits.
///
/// proves: STR-03
pub async fn discarded_deltas_are_removed_and_commits_stay(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    stream(on, &writer, &["kept"]).await;
    let start = commit_chunk(on, &root, "begin").await;
    stream(on, &writer, &["b", "c"]).await;
    commit_chunk(on, &root, "middle").await;
    let newest = stream(on, &writer, &["d"]).await;
    let sorry = event(on, &root, "discarded");
    let told = on
        .streams
        .discard_deltas(&writer, start, sorry)
        .await
        .unwrap();
    assert!(
        told > newest,
        "the chunk that announces it has a sequence of its own"
    );
    for on in [on, on.elsewhere()] {
        let found = chunks(on, &root).await;
        assert_eq!(words(&found), ["kept", "begin", "middle", "discarded"]);
        assert_eq!(found[3].sequence, told);
        let info = on.streams.info(&root).await.unwrap().unwrap();
        assert_eq!((info.last, info.trimmed), (told, Sequence::START));
    }
    // The announcement stays when the next attempt is discarded, and so does the named delta.
    let kept = stream(on, &writer, &["e"]).await;
    stream(on, &writer, &["f"]).await;
    let sorry = event(on, &root, "again");
    on.streams
        .discard_deltas(&writer, kept, sorry)
        .await
        .unwrap();
    let found = chunks(on, &root).await;
    let mut wanted = vec!["kept", "begin", "middle", "discarded", "e", "again"];
    assert_eq!(words(&found), wanted);
    // Readers are told even if nothing is left to be thrown away.
    let sorry = event(on, &root, "nothing");
    on.streams
        .discard_deltas(&writer, kept, sorry)
        .await
        .unwrap();
    wanted.push("nothing");
    assert_eq!(words(&chunks(on, &root).await), wanted);
}

/// A session discards its own deltas, not those of other sessions in the same stream.
///
/// proves: STR-03
pub async fn a_session_discards_its_own_deltas_only(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    let child = child_of(on, &root, &root, "child").await;
    let (_, fence) = running(on, &child, "run").await;
    let helper = StreamWriter::new(root.clone(), child, fence);
    stream(on, &writer, &["mine"]).await;
    stream(on, &helper, &["theirs"]).await;
    stream(on, &writer, &["mine"]).await;
    let sorry = event(on, &root, "discarded");
    on.streams
        .discard_deltas(&writer, Sequence::START, sorry)
        .await
        .unwrap();
    assert_eq!(words(&chunks(on, &root).await), ["theirs", "discarded"]);
}

/// Deltas that were appended together can be discarded from any position on; the remaining ones are
/// still deltas, and are discarded with the next discarded attempt.
pub async fn a_batch_is_discarded_in_parts(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    let last = stream(on, &writer, &["a", "b", "c", "d"]).await;
    let discard = async |after, name| {
        let sorry = event(on, &root, name);
        let told = on.streams.discard_deltas(&writer, after, sorry).await;
        told.unwrap();
        chunks(on.elsewhere(), &root).await
    };
    let second = Sequence(last.0 - 2);
    let found = discard(second, "half").await;
    assert_eq!(words(&found), ["a", "b", "half"]);
    assert_eq!(found[1].sequence, second);
    let found = discard(Sequence(last.0 - 3), "most").await;
    assert_eq!(words(&found), ["a", "half", "most"]);
    let found = discard(Sequence::START, "all").await;
    assert_eq!(words(&found), ["half", "most", "all"]);
}

/// Chunks that were appended together can be trimmed up to any position.
pub async fn a_batch_is_trimmed_in_parts(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    stream(on, &writer, &["a", "b", "c"]).await;
    let all = chunks(on, &root).await;
    for kept in 1..=all.len() {
        on.streams
            .trim(&root, all[kept - 1].sequence)
            .await
            .unwrap();
        assert_eq!(chunks(on.elsewhere(), &root).await, all[kept..]);
    }
}

/// Retention removes the oldest chunks; the others keep their sequences.
///
/// proves: STR-01
pub async fn trimming_removes_the_oldest_and_renumbers_nothing(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    stream(on, &writer, &["a", "b"]).await;
    commit_chunk(on, &root, "c").await;
    stream(on, &writer, &["d"]).await;
    let all = chunks(on, &root).await;
    on.streams.trim(&root, all[1].sequence).await.unwrap();
    assert_eq!(chunks(on.elsewhere(), &root).await, all[2..]);
    let info = on.streams.info(&root).await.unwrap().unwrap();
    assert_eq!(
        (info.trimmed, info.last),
        (all[1].sequence, all[3].sequence)
    );
    // Less than before takes nothing back; more than there is takes what there is.
    on.streams.trim(&root, all[0].sequence).await.unwrap();
    assert_eq!(on.streams.info(&root).await.unwrap(), Some(info));
    on.streams.trim(&root, Sequence(999)).await.unwrap();
    let info = on.streams.info(&root).await.unwrap().unwrap();
    assert_eq!(
        (info.trimmed, info.last),
        (all[3].sequence, all[3].sequence)
    );
    commit_chunk(on, &root, "e").await;
    assert_eq!(words(&chunks(on, &root).await), ["e"]);
}
