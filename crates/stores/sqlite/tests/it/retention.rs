use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::store::{Change, Commit, SessionStore};
use helix_agents_core::stream::{Retention, Sequence, StreamManager, StreamStatus};
use helix_agents_core::time::Timestamp;
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore};
use helix_agents_testkit::{VirtualClock, block_on};

use crate::builders::{NOW, create, delta, id, on};
use crate::folder::Folder;

const HOUR: Duration = Duration::from_secs(3600);

fn clock() -> Arc<VirtualClock> {
    Arc::new(VirtualClock::new(NOW))
}

fn at(minutes: u64) -> Timestamp {
    NOW.saturating_add(Duration::from_secs(60 * minutes))
}

async fn turn(store: &SqliteStore, minute: u64) {
    let session = id("s");
    let said = |text: &str| {
        let mut chunk = delta(&session, text);
        chunk.timestamp = at(minute);
        chunk
    };
    let commit = |status| Commit::new(session.clone(), at(minute)).stream(status);
    let start = commit(StreamStatus::Active).say(said("start"));
    store.commit(start).await.unwrap();
    let end = commit(StreamStatus::Ended).say(said("end"));
    store.commit(end).await.unwrap();
}

async fn opened(folder: &Folder, clock: &Arc<VirtualClock>) -> SqliteStore {
    let config = SqliteConfig::new().keep_chunks(HOUR).clock(clock.clone());
    let store = SqliteStore::open_with(folder.file("helix.db"), config)
        .await
        .unwrap();
    create(&store, "s").await;
    store
}

async fn stored_sequences(store: &SqliteStore) -> Vec<u64> {
    let chunks = StreamManager::read(store, &id("s"), Sequence::START, 99).await;
    chunks.unwrap().iter().map(|one| one.sequence.0).collect()
}

#[test]
fn old_chunks_are_removed_when_the_next_turn_begins() {
    let folder = Folder::new();
    block_on(async {
        let store = opened(&folder, &clock()).await;
        turn(&store, 0).await;
        turn(&store, 50).await;
        assert_eq!(stored_sequences(&store).await, [1, 2, 3, 4]);
        turn(&store, 61).await;
        assert_eq!(stored_sequences(&store).await, [3, 4, 5, 6]);
        let info = store.info(&id("s")).await.unwrap().unwrap();
        assert_eq!((info.last, info.trimmed), (Sequence(6), Sequence(2)));
    });
}

#[test]
fn a_turn_that_was_paused_keeps_its_chunks() {
    let folder = Folder::new();
    block_on(async {
        let clock = clock();
        let store = opened(&folder, &clock).await;
        turn(&store, 0).await;
        let set = |minute, status| Commit::new(id("s"), at(minute)).stream(status);
        for (minute, status) in [(1, StreamStatus::Paused), (500, StreamStatus::Active)] {
            store.commit(set(minute, status)).await.unwrap();
        }
        assert_eq!(
            stored_sequences(&store).await,
            [1, 2],
            "the same turn continues"
        );
        store.commit(set(501, StreamStatus::Paused)).await.unwrap();
        clock.advance(HOUR * 99);
        let removed = store.remove_old_chunks(at(5_000), 10).await.unwrap();
        assert_eq!((removed, stored_sequences(&store).await.len()), (0, 2));
    });
}

#[test]
fn chunks_of_turns_that_ended_long_ago_are_removed_on_request() {
    let folder = Folder::new();
    block_on(async {
        let clock = clock();
        let store = opened(&folder, &clock).await;
        turn(&store, 0).await;
        let remove = async |at| store.remove_old_chunks(at, 10).await.unwrap();
        clock.advance(HOUR);
        assert_eq!(remove(at(999)).await, 0, "the store's clock counts");
        clock.advance(Duration::from_secs(60));
        assert_eq!(remove(NOW).await, 1);
        assert_eq!(remove(NOW).await, 0);
        assert_eq!(stored_sequences(&store).await, [] as [u64; 0]);
        let receipt = store.commit(on("s").then(Change::ClearStop)).await.unwrap();
        assert_eq!(receipt.sequence, Sequence(2), "sequences continue");
    });
}
