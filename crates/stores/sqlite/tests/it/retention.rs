use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::store::{Change, Commit, SessionStore};
use helix_agents_core::stream::{
    Chunk, ChunkPayload, Retention, Sequence, StreamManager, StreamStatus,
};
use helix_agents_core::time::{Clock, Timestamp};
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

fn set(clock: &VirtualClock, now: Timestamp) {
    clock.advance(now.since(clock.now()));
}

/// A chunk that is not in the messages.
fn event(session: &SessionId, name: &str) -> Chunk {
    let mut chunk = delta(session, "");
    chunk.payload = ChunkPayload::Custom {
        event_name: name.to_owned(),
        data: serde_json::Value::Null,
    };
    chunk
}

/// A turn of a text, and an event that stays.
async fn turn(store: &SqliteStore, minute: u64) {
    let session: SessionId = id("s");
    let commit = |status| Commit::new(session.clone(), at(minute)).stream(status);
    let start = commit(StreamStatus::Active).say(delta(&session, "text"));
    store.commit(start).await.unwrap();
    let end = commit(StreamStatus::Ended).say(event(&session, "end"));
    store.commit(end).await.unwrap();
}

async fn opened(folder: &Folder, clock: &Arc<VirtualClock>) -> SqliteStore {
    let config = SqliteConfig::new().keep_deltas(HOUR).clock(clock.clone());
    let store = SqliteStore::open_with(folder.file("helix.db"), config)
        .await
        .unwrap();
    create(&store, "s").await;
    store
}

async fn stored_sequences(store: &SqliteStore) -> Vec<u64> {
    let chunks = StreamManager::read(store, &id("s"), Sequence::START, usize::MAX).await;
    chunks.unwrap().iter().map(|one| one.sequence.0).collect()
}

/// Each turn has a window of its own, also in a session that is busy all the time.
#[test]
fn deltas_of_a_turn_are_removed_when_its_window_is_over() {
    let folder = Folder::new();
    block_on(async {
        let clock = clock();
        let store = opened(&folder, &clock).await;
        let condense = async |limit| store.condense_old_turns(at(9_999), limit).await.unwrap();
        for minute in [0, 50, 61] {
            set(&clock, at(minute));
            turn(&store, minute).await;
        }
        let begins = Commit::new(id("s"), at(61)).stream(StreamStatus::Active);
        store.commit(begins).await.unwrap();
        assert_eq!(condense(9).await, 1, "by the store's clock");
        assert_eq!(stored_sequences(&store).await, [2, 3, 4, 5, 6]);
        assert_eq!(condense(9).await, 0);
        let info = store.info(&id("s")).await.unwrap().unwrap();
        assert_eq!((info.last, info.condensed), (Sequence(6), Sequence(2)));
        set(&clock, at(121));
        assert_eq!(condense(1).await, 1);
        assert_eq!(stored_sequences(&store).await, [2, 4, 5, 6]);
        assert_eq!(condense(1).await, 1);
        assert_eq!(stored_sequences(&store).await, [2, 4, 6]);
        assert_eq!(condense(1).await, 0);
        let receipt = store.commit(on("s").then(Change::ClearStop)).await.unwrap();
        assert_eq!(receipt.sequence, Sequence(6), "sequences continue");
    });
}

#[test]
fn a_turn_that_waits_keeps_its_deltas() {
    let folder = Folder::new();
    block_on(async {
        let clock = clock();
        let store = opened(&folder, &clock).await;
        let says = |minute, status| Commit::new(id("s"), at(minute)).stream(status);
        let said = says(1, StreamStatus::Paused).say(delta(&id("s"), "text"));
        store.commit(said).await.unwrap();
        clock.advance(HOUR * 99);
        let condensed = store.condense_old_turns(at(0), 10).await.unwrap();
        assert_eq!((condensed, stored_sequences(&store).await.len()), (0, 1));
        store
            .commit(says(9_000, StreamStatus::Failed))
            .await
            .unwrap();
        set(&clock, at(9_060));
        let condensed = store.condense_old_turns(at(0), 10).await.unwrap();
        assert_eq!((condensed, stored_sequences(&store).await.len()), (1, 0));
    });
}

/// A stream that was deleted, or made anew under its name, is not touched by the end of an old turn.
#[test]
fn the_end_of_a_turn_of_a_deleted_stream_is_forgotten() {
    let folder = Folder::new();
    block_on(async {
        let clock = clock();
        let store = opened(&folder, &clock).await;
        turn(&store, 0).await;
        store.commit(on("s").then(Change::Delete)).await.unwrap();
        create(&store, "s").await;
        turn(&store, 50).await;
        set(&clock, at(61));
        assert_eq!(store.condense_old_turns(at(0), 10).await.unwrap(), 1);
        assert_eq!(stored_sequences(&store).await, [1, 2]);
        assert_eq!(store.condense_old_turns(at(0), 10).await.unwrap(), 0);
    });
}

/// A turn of many rows is condensed in several transactions. What a killed process left of it is removed
/// with the next attempt.
#[test]
fn a_long_turn_is_condensed_in_parts() {
    let folder = Folder::new();
    block_on(async {
        let clock = clock();
        let store = opened(&folder, &clock).await;
        let session: SessionId = id("s");
        for number in 0..700 {
            let says = Commit::new(session.clone(), at(0)).say(delta(&session, "text"));
            let says = match number % 100 {
                0 => says.say(event(&session, "stays")),
                _ => says,
            };
            store.commit(says).await.unwrap();
        }
        turn(&store, 0).await;
        let kept: Vec<u64> = (0..7)
            .map(|hundred| hundred * 101 + 2)
            .chain([709])
            .collect();
        let path = folder.file("helix.db");
        let file = rusqlite::Connection::open(path).unwrap();
        // As if a process had been killed right after it began.
        file.execute("UPDATE stream SET condensed = 709", [])
            .unwrap();
        drop(store);
        let store = opened_again(&folder, &clock).await;
        set(&clock, at(60));
        assert_eq!(store.condense_old_turns(at(0), 10).await.unwrap(), 1);
        assert_eq!(stored_sequences(&store).await, kept);
    });
}

async fn opened_again(folder: &Folder, clock: &Arc<VirtualClock>) -> SqliteStore {
    let config = SqliteConfig::new().keep_deltas(HOUR).clock(clock.clone());
    let store = SqliteStore::open_with(folder.file("helix.db"), config);
    store.await.unwrap()
}
