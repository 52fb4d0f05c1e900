//! Rewound sessions: checkpoints, answers and chunks that are removed from the end.

use helix_agents_core::SessionId;
use helix_agents_core::session::{CheckpointSource, ChildStatus, SubSessionRef};
use helix_agents_core::store::{AnsweredCall, Change, Field, Lookup, Page, StoreError};
use helix_agents_core::stream::{
    ChunkPayload, Sequence, StoredChunk, StreamItem, StreamRewind, StreamStatus,
};

use super::Subject;
use super::builders::{
    accepted, call, changed, checkpoint, checkpoint_of, child_of, chunk, commit, created, event,
    paired, running, started, text,
};
use super::everything::chunks;
use super::streaming::{commit_chunk, next, numbers, reader, rest, stream, streaming, words};

/// Dropping checkpoints removes those that were written after one, or all; the one that is kept is the latest
/// again, and a dropped one can be written anew.
///
/// proves: CKP-02
pub async fn checkpoints_after_one_are_dropped(on: &Subject) {
    let id = created(on, "s").await;
    let other = created(on, "other").await;
    let names = ["a", "b", "c", "d"];
    // Ids as they are generated within one millisecond: SQLite would store three of them at a time in one place.
    let numbers = (0..60).map(|n| n % 20 + 0x40 * (n / 20));
    let generated = numbers.map(|n| format!("cp-01a1e2dc7e617486a0672d26c8bef8{n:02x}"));
    let names: Vec<String> = names
        .map(String::from)
        .into_iter()
        .chain(generated)
        .collect();
    let write = async |id, name: &str| {
        let one = checkpoint_of(on, id, name);
        changed(on, id, Change::Checkpoint(one, CheckpointSource::Staging)).await;
    };
    for name in &names {
        write(&id, name).await;
    }
    write(&other, "theirs").await;
    let listed = async |on: &Subject| -> Vec<String> {
        let page = on.sessions().list_checkpoints(&id, Page::ALL).await;
        let items = page.unwrap().items.into_iter().rev();
        items.map(|one| one.id.to_string()).collect()
    };
    assert_eq!(listed(on).await, names);
    // Every other one is written again, so that the order is not that of the ids.
    let again: Vec<_> = names.iter().skip(4).step_by(2).cloned().collect();
    for name in &again {
        write(&id, name).await;
    }
    let kept: Vec<_> = listed(on).await[..names.len() - again.len()].to_vec();
    let last = checkpoint_of(on, &id, kept.last().unwrap());
    let drop = Change::DropCheckpointsAfter(Some(Box::new(last.clone())));
    changed(on, &id, drop).await;
    for on in [on, on.elsewhere()] {
        assert_eq!(listed(on).await, kept);
        for name in &names {
            let lookup = Lookup::One(checkpoint(name));
            let found = on.store.checkpoints(id.as_root(), lookup).await.unwrap();
            assert_eq!(
                found.items.len(),
                usize::from(kept.contains(name)),
                "{name}"
            );
        }
        let latest = on.sessions().get_latest_checkpoint(&id).await.unwrap();
        assert_eq!(latest.map(|one| one.id), Some(last.id.clone()));
    }
    let state = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(state.checkpointed_at, Some(last.timestamp));
    write(&id, &again[0]).await;
    assert_eq!(listed(on).await.last(), Some(&again[0]));

    changed(on, &id, Change::DropCheckpointsAfter(None)).await;
    assert_eq!(listed(on).await, [""; 0]);
    let state = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!((state.checkpoint_id, state.checkpointed_at), (None, None));
    let theirs = on.sessions().get_latest_checkpoint(&other).await.unwrap();
    assert!(theirs.is_some(), "other sessions keep theirs");
    let foreign = Change::DropCheckpointsAfter(theirs.map(Box::new));
    let refused = on.store.commit(commit(on, &id).then(foreign)).await;
    assert!(
        matches!(refused, Err(StoreError::Invalid { .. })),
        "{refused:?}"
    );
}

/// The record that a call was answered can be forgotten, and only for the calls that are named.
///
/// proves: CKP-02
pub async fn the_answers_to_rewound_calls_are_forgotten(on: &Subject) {
    let id = created(on, "s").await;
    for name in ["c1", "c2", "c3"] {
        let answered = Field::CompletedCall(AnsweredCall::new(call(name), on.now()));
        changed(on, &id, Change::Set(answered)).await;
    }
    let gone = vec![call("c1"), call("c3"), call("never")];
    changed(on, &id, Change::ForgetAnswered(gone)).await;
    for on in [on, on.elsewhere()] {
        let page = Lookup::Page(Page::ALL);
        let left = on.store.answered(id.as_root(), page).await.unwrap().items;
        assert_eq!(
            left.into_iter().map(|it| it.call).collect::<Vec<_>>(),
            [call("c2")]
        );
    }
}

/// The references to the children of rewound calls are removed, and only those; the children stay.
///
/// proves in part: SUB-05
pub async fn the_children_of_rewound_calls_are_unlinked(on: &Subject) {
    let id = created(on, "s").await;
    for (child, of) in [("one", "c1"), ("other", "c2"), ("third", "c3")] {
        let child = SessionId::new(child).unwrap();
        let link = SubSessionRef::new(child, "helper", call(of), on.now());
        changed(on, &id, Change::Child(Box::new(link))).await;
    }
    let gone = vec![call("c1"), call("c3"), call("never")];
    changed(on, &id, Change::Unlink(gone)).await;
    // What becomes of a child is noted where it is linked, and links it nowhere.
    for (child, of) in [("one", "c1"), ("other", "c2")] {
        let child = SessionId::new(child).unwrap();
        let mut link = SubSessionRef::new(child, "helper", call(of), on.now());
        link.status = ChildStatus::Completed;
        changed(on, &id, Change::UpdateChild(Box::new(link))).await;
    }
    for on in [on, on.elsewhere()] {
        let left = on.store.extras(id.as_root()).await.unwrap().children;
        let left = left.iter().map(|it| (it.session_id.as_str(), it.status));
        let left: Vec<_> = left.collect();
        assert_eq!(left, [("other", ChildStatus::Completed)]);
    }
}

/// The start of a turn is recorded as of the commit that starts it, whatever was written since the session was
/// read; that of a run within a turn is taken as it is.
pub async fn a_run_records_the_session_before_its_turn(on: &Subject) {
    use helix_agents_core::message::UserMessage;
    use helix_agents_core::session::{RunTrigger, TurnStart};
    let id = created(on, "s").await;
    changed(on, &id, Change::AppendStep(paired(&["c1"]))).await;
    let before = changed(on, &id, Change::WriteState(super::builders::sets("a", 1))).await;
    let mut run = started(on, &id, "first");
    run.messages = 2;
    run.turn_start = Some(TurnStart::after(7));
    let begins = commit(on, &id)
        .then(Change::AppendUser(UserMessage::new("one")))
        .then(Change::AppendUser(UserMessage::new("two")))
        .then(Change::StartRun(Box::new(run)));
    accepted(on, begins).await;
    let start = async || {
        let found = on.elsewhere().store.load(id.as_root()).await.unwrap();
        found.unwrap().run.unwrap().turn_start.unwrap()
    };
    let first = start().await;
    assert_eq!((first.messages, first.user_messages), (2, 2));
    assert_eq!(
        (first.state_version, first.state_after),
        (before.state_version, before.state_version)
    );
    assert_eq!(first.sequence, 7);
    changed(on, &id, Change::AppendStep(paired(&["c2"]))).await;
    let mut again = started(on, &id, "again");
    again.trigger = RunTrigger::Retry;
    again.turn_start = Some(first);
    changed(on, &id, Change::StartRun(Box::new(again))).await;
    assert_eq!(start().await, first);
}

/// A rewound stream loses the chunks after a sequence, also in the middle of a batch. What follows has sequences
/// that were never used.
///
/// proves: STR-03
pub async fn a_rewound_stream_uses_no_sequence_again(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    stream(on, &writer, &["a", "b", "c", "d"]).await;
    commit_chunk(on, &root, "e").await;
    stream(on, &writer, &["f", "g"]).await;
    for (to, kept) in [(6, "abcdef"), (5, "abcde"), (4, "abcd"), (2, "ab"), (0, "")] {
        let last = on.streams.info(&root).await.unwrap().unwrap().last;
        let rewound = commit(on, &root)
            .rewind_stream(StreamRewind::to(Sequence(to)))
            .say(event(on, &root, "new"));
        let receipt = accepted(on, rewound).await;
        assert_eq!(receipt.sequence, last.next());
        for on in [on, on.elsewhere()] {
            let found = chunks(on, &root).await;
            assert_eq!(words(&found).concat(), format!("{kept}new"));
            assert_eq!(found.last().unwrap().sequence, last.next());
            let info = on.streams.info(&root).await.unwrap().unwrap();
            assert_eq!((info.last, info.trimmed), (last.next(), Sequence::START));
        }
        // Without chunks of its own, it changes no number.
        let rewound = commit(on, &root).rewind_stream(StreamRewind::to(Sequence(to)));
        assert_eq!(accepted(on, rewound).await.sequence, last.next());
        for on in [on, on.elsewhere()] {
            let info = on.streams.info(&root).await.unwrap().unwrap();
            assert_eq!(info.last, last.next());
            assert_eq!(words(&chunks(on, &root).await).concat(), kept);
        }
    }
    // Deltas that were kept are still deltas, and those of a commit are not.
    stream(on, &writer, &["x", "y"]).await;
    let kept = commit_chunk(on, &root, "z").await;
    let end = stream(on, &writer, &["w"]).await;
    let rewound = commit(on, &root).rewind_stream(StreamRewind::to(kept));
    accepted(on, rewound).await;
    let sorry = event(on, &root, "sorry");
    let told = on
        .streams
        .discard_deltas(&writer, Sequence::START, sorry)
        .await;
    assert_eq!(told.unwrap(), end.next());
    assert_eq!(words(&chunks(on, &root).await), ["z", "sorry"]);
}

/// A refused commit rewinds nothing.
///
/// proves: STR-03
pub async fn a_refused_commit_rewinds_nothing(on: &Subject) {
    use helix_agents_core::store::Precondition;
    let (root, writer) = streaming(on, "s").await;
    stream(on, &writer, &["a", "b"]).await;
    let refused = commit(on, &root)
        .when(Precondition::Version(999))
        .rewind_stream(StreamRewind::to(Sequence::START));
    assert!(on.store.commit(refused).await.is_err());
    let refused = commit(on, &root)
        .then(Change::RewindState(999))
        .rewind_stream(StreamRewind::to(Sequence::START));
    assert!(on.store.commit(refused).await.is_err());
    assert_eq!(words(&chunks(on, &root).await), ["a", "b"]);
}

/// The rewind of a child removes its own chunks only.
///
/// proves: STR-03
pub async fn a_child_rewinds_its_own_chunks_only(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    let child = child_of(on, &root, &root, "child").await;
    running(on, &child, "child-run").await;
    stream(on, &writer, &["a"]).await;
    let mixed = commit(on, &root)
        .say(event(on, &child, "b"))
        .say(event(on, &root, "c"))
        .say(event(on, &child, "d"));
    accepted(on, mixed).await;
    stream(on, &writer, &["e"]).await;
    let rewind = StreamRewind::to(Sequence(2)).of_session(child.clone());
    accepted(on, commit(on, &root).rewind_stream(rewind)).await;
    for on in [on, on.elsewhere()] {
        let found = chunks(on, &root).await;
        assert_eq!(words(&found), ["a", "b", "c", "e"]);
        assert_eq!(numbers(&found), [1, 2, 3, 5]);
    }
}

fn resync(on: &Subject, root: &SessionId) -> helix_agents_core::stream::Chunk {
    let reason = "the session was rewound".to_owned();
    chunk(on, root, ChunkPayload::StreamResync { reason })
}

fn said(chunks: &[StoredChunk]) -> Vec<String> {
    let said = chunks.iter().map(|stored| match &stored.chunk.payload {
        ChunkPayload::TextDelta { delta } => delta.clone(),
        ChunkPayload::Custom { event_name, .. } => event_name.clone(),
        ChunkPayload::StreamResync { .. } => "resync".to_owned(),
        other => format!("{other:?}"),
    });
    said.collect()
}

/// A live reader that has read what is rewound is told before it gets anything else; one that begins later never
/// sees it, from whichever sequence.
///
/// proves: STR-03, STR-04
pub async fn readers_of_a_rewound_stream_are_told(on: &Subject) {
    let (root, writer) = streaming(on, "s").await;
    stream(on, &writer, &["a", "b"]).await;
    commit_chunk(on, &root, "kept").await;
    stream(on, &writer, &["c", "d"]).await;
    let failed = commit(on, &root).say(event(on, &root, "failed"));
    accepted(on, failed.stream(StreamStatus::Failed)).await;
    let mut live = Vec::new();
    for count in 0..=6 {
        let mut one = reader(on, &root, Sequence::START);
        for _ in 0..count {
            next(&mut one).await;
        }
        live.push(one.cursor());
    }
    let mut waiting = reader(on.elsewhere(), &root, Sequence(6));
    let Some(StreamItem::End(StreamStatus::Failed)) = next(&mut waiting).await else {
        panic!("the turn has failed");
    };
    let rewound = commit(on, &root)
        .rewind_stream(StreamRewind::to(Sequence(3)))
        .say(resync(on, &root))
        .stream(StreamStatus::Active);
    accepted(on, rewound).await;
    on.streams
        .append_deltas(&writer, vec![text(on, &root, "new")])
        .await
        .unwrap();
    let ended = commit(on, &root).say(event(on, &root, "done"));
    accepted(on, ended.stream(StreamStatus::Ended)).await;
    for on in [on, on.elsewhere()] {
        for cursor in &live {
            let (seen, status) = rest(&mut reader(on, &root, *cursor)).await;
            assert_eq!(status, StreamStatus::Ended);
            let kept = ["a", "b", "kept"];
            let before = usize::try_from(cursor.0).unwrap().min(kept.len());
            let wanted = [&kept[before..], &["resync", "new", "done"]].concat();
            assert_eq!(said(&seen), wanted, "from {cursor}");
        }
    }
}
