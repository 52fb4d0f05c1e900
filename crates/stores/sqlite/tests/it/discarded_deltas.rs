use helix_agents_core::SessionId;
use helix_agents_core::store::{Change, Fence, SessionStore};
use helix_agents_core::stream::{Chunk, ChunkPayload, Sequence, StreamManager, StreamWriter};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;

use crate::builders::{count, create, delta, id, on};
use crate::folder::Folder;

/// Some batches have deltas of two sessions; the rest of one keeps its sequences, in one row.
#[test]
fn the_rest_of_a_batch_keeps_its_sequences() {
    let folder = Folder::new();
    let file = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&file).await.unwrap();
        let own = create(&store, "s").await;
        store
            .commit(on("s").then(Change::RaiseFence))
            .await
            .unwrap();
        let other: SessionId = id("other");
        let batch: Vec<Chunk> = [&other, &own, &own, &other, &own, &other]
            .into_iter()
            .enumerate()
            .map(|(n, session)| delta(session, &n.to_string()))
            .collect();
        let writer = StreamWriter::new(own.clone(), own.clone(), Fence(1));
        store.append_deltas(&writer, batch.clone()).await.unwrap();
        let mut say = delta(&own, "");
        say.payload = ChunkPayload::StepDiscarded {
            reason: "again".to_owned(),
        };
        let discard = store.discard_deltas(&writer, Sequence::START, say.clone());
        assert_eq!(discard.await.unwrap(), Sequence(7));
        let read = StreamManager::read(&store, &own, Sequence::START, 99).await;
        let found: Vec<(u64, Chunk)> = read
            .unwrap()
            .into_iter()
            .map(|one| (one.sequence.0, one.chunk))
            .collect();
        let expected = [
            (1, batch[0].clone()),
            (4, batch[3].clone()),
            (6, batch[5].clone()),
            (7, say),
        ];
        assert_eq!(found, expected);
        let after = StreamManager::read(&store, &own, Sequence(4), 1).await;
        assert_eq!(after.unwrap()[0].sequence, Sequence(6));
        assert_eq!(count(&file, "SELECT count(*) FROM chunk"), 2);
    });
}
