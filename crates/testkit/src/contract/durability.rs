//! Writes that were acknowledged outlive the process that made them.
//!
//! Each case writes through a store, drops it, opens the same data again, and compares everything
//! that can be read. The cases are skipped for a store that declares itself not durable.

use helix_agents_core::store::{Change, Precondition};
use helix_agents_core::stream::{Sequence, StreamStatus, StreamWriter};

use super::Subject;
use super::builders::{accepted, changed, child_of, commit, created, event, running, sets};
use super::everything::everything;
use super::full_session::{changes_everything, full_session};
use super::streaming::{commit_chunk, stream, streaming};

/// Every commit and every batch of deltas that was acknowledged is found after reopening, whichever
/// of them was the last, and writing continues where it ended.
///
/// proves in part: STR-01
pub async fn every_acknowledged_write_is_found_after_reopening(on: &Subject) {
    let Some(open) = on.reopening() else { return };
    let store = open().await;
    let (id, fence) = full_session(&store, "root").await;
    let child = child_of(&store, &id, &id, "child").await;
    let writer = StreamWriter::new(id.clone(), id.clone(), fence);
    let last = stream(&store, &writer, &["a", "b"]).await;
    let all = [&id, &child];
    let before = everything(&store, &all).await;
    drop(store);

    let store = open().await;
    let found = everything(&store, &all).await;
    assert_eq!(found, before, "the last write was a batch of deltas");
    let set = commit(&store, &id)
        .when(Precondition::Fence(fence))
        .then(Change::WriteState(sets("mood", "reopened")))
        .say(event(&store, &id, "reopened"));
    let receipt = accepted(&store, set).await;
    assert_eq!(receipt.sequence, last.next(), "sequences continue");
    let before = everything(&store, &all).await;
    drop(store);

    let store = open().await;
    let found = everything(&store, &all).await;
    assert_eq!(found, before, "the last write was a commit");
    accepted(&store, changes_everything(&store, &id)).await;
    let before = everything(&store, &all).await;
    drop(store);

    let store = open().await;
    let found = everything(&store, &all).await;
    assert_eq!(found, before, "the last write changed every part");
    assert!(store.sessions().delete_session(&id).await.unwrap());
    drop(store);

    let store = open().await;
    for gone in all {
        let found = store.store.find(gone).await.unwrap();
        assert!(found.is_none(), "a deletion is durable: {found:?}");
    }
}

/// A session that is created after reopening begins above the fences of all that were deleted before,
/// so that a run of a deleted session cannot write to it.
pub async fn fences_of_deleted_sessions_stay_used_after_reopening(on: &Subject) {
    let Some(open) = on.reopening() else { return };
    let store = open().await;
    let id = created(&store, "root").await;
    for number in 0..5 {
        running(&store, &id, &format!("r-{number}")).await;
    }
    let old = running(&store, &id, "last").await.1;
    assert!(store.sessions().delete_session(&id).await.unwrap());
    drop(store);

    let store = open().await;
    created(&store, "root").await;
    let found = store.store.load(id.as_root()).await.unwrap().unwrap();
    assert!(
        found.fence > old,
        "a new session begins at {:?}, a deleted one of its name had {old:?}",
        found.fence
    );
    let late = commit(&store, &id).when(Precondition::Fence(old));
    let late = late.then(Change::WriteState(sets("late", true)));
    assert!(store.store.commit(late).await.is_err());
    changed(&store, &id, Change::RaiseFence).await;
}

/// A stream that begins after reopening has an incarnation that no deleted stream of its name had, so
/// that a cursor into the deleted one is recognised.
///
/// proves in part: STR-01
pub async fn incarnations_of_deleted_streams_stay_used_after_reopening(on: &Subject) {
    let Some(open) = on.reopening() else { return };
    let store = open().await;
    let (root, _) = streaming(&store, "root").await;
    commit_chunk(&store, &root, "one").await;
    let ended = commit(&store, &root).stream(StreamStatus::Ended);
    accepted(&store, ended).await;
    let old = store.streams.info(&root).await.unwrap().unwrap();
    drop(store);

    let store = open().await;
    let found = store.streams.info(&root).await.unwrap();
    assert_eq!(found, Some(old), "a stream is the same after reopening");
    assert!(store.sessions().delete_session(&root).await.unwrap());
    drop(store);

    let store = open().await;
    streaming(&store, "root").await;
    assert_eq!(commit_chunk(&store, &root, "one").await, Sequence(1));
    let new = store.streams.info(&root).await.unwrap().unwrap();
    assert_ne!(new.incarnation, old.incarnation);
}
