use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::state::{StateOp, StepWrites};
use helix_agents_core::store::{Change, Lookup, Page, Receipt, SessionStore, StoreError};
use helix_agents_core::stream::{Sequence, StreamManager, StreamStatus};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;
use serde_json::json;

use crate::builders::{count, create, delta, id, on, run, step};
use crate::folder::Folder;

async fn opened(folder: &Folder) -> SqliteStore {
    SqliteStore::open(folder.file("helix.db")).await.unwrap()
}

/// Makes a step that writes a row of every kind that is cached.
async fn take_step(store: &SqliteStore, session: &SessionId, number: usize) -> Receipt {
    let [reply, settled] = step(session, number);
    let reply = reply.say(delta(session, "asks"));
    store.commit(reply).await.unwrap();
    let run = Change::Run(Box::new(run(session)));
    let settled = settled.then(run).say(delta(session, "settles"));
    store.commit(settled).await.unwrap()
}

/// Checks the content of a session after this number of steps.
async fn check(store: &SqliteStore, session: &SessionId, steps: usize) {
    let messages = store.messages(session.as_root(), Page::ALL).await.unwrap();
    assert_eq!(messages.items.len(), 2 * steps);
    let usage = store.usage(session.as_root(), Page::ALL).await.unwrap();
    assert_eq!((usage.total, usage.items.len()), (2 * steps, 2 * steps));
    let runs = store
        .runs(session.as_root(), Lookup::Page(Page::ALL))
        .await
        .unwrap();
    assert_eq!(runs.total, 1);
    let points = store
        .checkpoints(session.as_root(), Lookup::Page(Page::ALL))
        .await;
    assert_eq!(points.unwrap().total, steps);
    let chunks = StreamManager::read(store, session, Sequence::START, 999).await;
    let numbers = chunks.unwrap().into_iter().map(|chunk| chunk.sequence.0);
    let expected: Vec<u64> = (1..).take(2 * steps).collect();
    assert_eq!(numbers.collect::<Vec<_>>(), expected);
}

#[test]
fn two_writers_of_one_file_see_what_the_other_wrote() {
    let folder = Folder::new();
    block_on(async {
        let (a, b) = (opened(&folder).await, opened(&folder).await);
        let session = create(&a, "s").await;
        // From time to time one writes twice, and uses its cache.
        for (number, store) in [&a, &a, &b, &b, &b, &a, &b, &a, &a].into_iter().enumerate() {
            let receipt = take_step(store, &session, number).await;
            let now = &receipt.sessions[&session];
            assert_eq!(now.message_count, 2 * (number + 1));
            let version = u64::try_from(2 * (number + 1) + 1).unwrap();
            assert_eq!(now.version, version);
            assert_eq!(receipt.sequence, Sequence(version - 1));
        }
        check(&a, &session, 9).await;
        check(&b, &session, 9).await;
    });
}

#[test]
fn a_session_that_another_writer_replaced_is_read_again() {
    let folder = Folder::new();
    block_on(async {
        let (a, b) = (opened(&folder).await, opened(&folder).await);
        let session = create(&a, "s").await;
        take_step(&a, &session, 0).await;
        let gone = on("s").then(Change::Delete);
        b.commit(gone).await.unwrap();
        create(&b, "s").await;
        let receipt = take_step(&a, &session, 1).await;
        assert_eq!(receipt.sessions[&session].version, 3);
        check(&b, &session, 1).await;
    });
}

#[test]
fn undone_writes_are_not_cached() {
    let folder = Folder::new();
    block_on(async {
        let store = opened(&folder).await;
        let session = create(&store, "s").await;
        take_step(&store, &session, 0).await;
        let text = Change::SetState(Arc::new(json!({ "text": "x" })));
        store.commit(on("s").then(text)).await.unwrap();
        let no_list = StateOp::Append {
            path: "/text".parse().unwrap(),
            value: json!(1),
        };
        let [reply, settled] = step(&session, 1);
        let mut undone = settled.say(delta(&session, "undone"));
        undone.changes.extend(reply.changes);
        let run = Change::Run(Box::new(run(&session)));
        let writes = Change::WriteState(StepWrites::from(vec![no_list]));
        let refused = store.commit(undone.then(run).then(writes)).await;
        assert!(matches!(refused, Err(StoreError::State { .. })));
        take_step(&store, &session, 1).await;
        check(&store, &session, 2).await;
    });
}

#[test]
fn a_stream_continues_after_its_last_batch_even_if_its_row_is_older() {
    let folder = Folder::new();
    let file = folder.file("helix.db");
    let info = async |store: &SqliteStore| {
        let info = store.info(&id("s")).await.unwrap().unwrap();
        (info.last.0, info.trimmed.0, info.status)
    };
    let active = StreamStatus::Active;
    block_on(async {
        let store = opened(&folder).await;
        let session = create(&store, "s").await;
        take_step(&store, &session, 0).await;
        drop(store);
        // While the stream is active, its row is not written.
        assert_eq!(count(&file, "SELECT last FROM stream"), 0);

        let store = opened(&folder).await;
        assert_eq!(info(&store).await, (2, 0, active));
        assert_eq!(take_step(&store, &session, 1).await.sequence, Sequence(4));
        store.trim(&session, Sequence(u64::MAX)).await.unwrap();
        drop(store);

        let store = opened(&folder).await;
        assert_eq!(info(&store).await, (4, 4, active));
        assert_eq!(take_step(&store, &session, 2).await.sequence, Sequence(6));
        let end = on("s").stream(StreamStatus::Ended);
        assert_eq!(store.commit(end).await.unwrap().sequence, Sequence(6));
        drop(store);
        // Streams to be trimmed are found by their row.
        assert_eq!(count(&file, "SELECT last FROM stream"), 6);
    });
}
