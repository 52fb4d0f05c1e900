use std::sync::Arc;

use helix_agents_core::store::{Change, Commit, SessionStore};
use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload, Sequence, StreamManager};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;

use crate::builders::{NOW, count, create, id, on};
use crate::folder::Folder;

const AUTHORS: &str = "SELECT count(*) FROM origin";

/// A chunk of the session "s" or of one under it.
fn chunk(agent: &str, session: &str, run: &str, step: u32) -> Chunk {
    let base = ChunkOrigin::new(id(agent), "adder", id(session), id(run), step);
    let payload = ChunkPayload::StepCommitted { message_count: 1 };
    Chunk::new(Arc::new(base), NOW, payload)
}

async fn say(store: &SqliteStore, chunks: &[Chunk]) {
    let say = |commit: Commit, chunk: &Chunk| commit.say(chunk.clone());
    store
        .commit(chunks.iter().fold(on("s"), say))
        .await
        .unwrap();
}

async fn read(store: &SqliteStore) -> Vec<Chunk> {
    let chunks = StreamManager::read(store, &id("s"), Sequence::START, 999).await;
    chunks.unwrap().into_iter().map(|one| one.chunk).collect()
}

#[test]
fn every_author_of_a_stream_is_stored_once_and_read_back() {
    let folder = Folder::new();
    let file = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&file).await.unwrap();
        create(&store, "s").await;
        let batch = [
            chunk("s", "s", "r1", 1),
            chunk("agent", "s", "r1", 2),
            chunk("child", "child", "r2", 1),
            chunk("s", "s", "r1", 3),
        ];
        say(&store, &batch).await;
        say(&store, &batch).await;
        drop(store);
        let store = SqliteStore::open(&file).await.unwrap();
        say(&store, &batch).await;
        assert_eq!(
            read(&store).await,
            [batch.clone(), batch.clone(), batch].concat()
        );
        assert_eq!(count(&file, AUTHORS), 3);
    });
}

#[test]
fn an_author_of_long_ago_is_known_or_gets_another_number() {
    let folder = Folder::new();
    let file = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&file).await.unwrap();
        create(&store, "s").await;
        let runs: Vec<Chunk> = (0..20)
            .map(|run| chunk("s", "s", &format!("r{run}"), 1))
            .collect();
        let (one_by_one, at_once) = (runs.chunks(1), runs.chunks(20));
        for batch in one_by_one.chain(at_once) {
            say(&store, batch).await;
        }
        assert_eq!(read(&store).await, [runs.clone(), runs].concat());
    });
}

#[test]
fn authors_are_removed_with_the_chunks_of_their_stream() {
    let folder = Folder::new();
    let file = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&file).await.unwrap();
        create(&store, "s").await;
        let [one, two] = ["r1", "r2"].map(|run| chunk("s", "s", run, 1));
        say(&store, std::slice::from_ref(&one)).await;
        say(&store, std::slice::from_ref(&two)).await;
        store.trim(&id("s"), Sequence(1)).await.unwrap();
        assert_eq!(read(&store).await, std::slice::from_ref(&two));
        store.trim(&id("s"), Sequence(2)).await.unwrap();
        assert_eq!(count(&file, AUTHORS), 0);
        say(&store, &[two.clone(), one.clone()]).await;
        assert_eq!(read(&store).await, [two, one]);
        store.commit(on("s").then(Change::Delete)).await.unwrap();
        assert_eq!(count(&file, AUTHORS), 0);
    });
}
