use futures_util::future::join_all;
use helix_agents_core::store::{CheckWritable, Page, SessionStore, StoreError};
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore};
use helix_agents_testkit::block_on;

use crate::builders::{append_user, create, on, session_id};
use crate::folder::Folder;

/// A text that differs for each number.
fn text(number: usize) -> String {
    (0..400).map(|word| format!("{number}-{word} ")).collect()
}

#[test]
fn a_commit_on_a_full_disk_fails_and_leaves_the_session_intact() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    let written = block_on(async {
        let small = SqliteConfig::new().max_pages(80);
        let store = SqliteStore::open_with(&path, small).await.unwrap();
        let session = create(&store, "s").await;
        store.check_writable().await.unwrap();
        let mut written = 0;
        let error = loop {
            match store
                .commit(on("s").then(append_user(&text(written))))
                .await
            {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
        let error = store.check_writable().await.unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
        let snapshot = store.load(session.as_root()).await.unwrap().unwrap();
        assert_eq!(snapshot.message_count, written);
        let messages = store.messages(session.as_root(), Page::ALL).await.unwrap();
        assert_eq!(messages.items.len(), written);
        written
    });
    assert!(written > 5, "there was room for {written}");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let receipt = store
            .commit(on("s").then(append_user("more")))
            .await
            .unwrap();
        assert_eq!(receipt.sessions["s"].message_count, written + 1);
    });
}

#[test]
fn commits_of_a_group_that_fit_on_a_full_disk_succeed() {
    let folder = Folder::new();
    block_on(async {
        let small = SqliteConfig::new().max_pages(120);
        let store = SqliteStore::open_with(folder.file("helix.db"), small)
            .await
            .unwrap();
        for number in 0..20 {
            create(&store, &format!("s{number}")).await;
        }
        let outcomes = join_all((0..20).map(async |number| {
            let long = "x".repeat(if number == 10 { 1_000_000 } else { 10 });
            let session = format!("s{number}");
            store.commit(on(&session).then(append_user(&long))).await
        }))
        .await;
        for (number, outcome) in outcomes.into_iter().enumerate() {
            let messages = store
                .messages(session_id(&format!("s{number}")).as_root(), Page::ALL)
                .await;
            match outcome {
                Ok(_) => assert_eq!((number != 10, messages.unwrap().total), (true, 1)),
                Err(error) => {
                    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
                    assert_eq!((number, messages.unwrap().total), (10, 0));
                }
            }
        }
    });
}

#[test]
fn a_file_that_another_process_has_locked_is_unavailable() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    block_on(async {
        let hasty = SqliteConfig::new().busy_timeout(std::time::Duration::from_millis(30));
        let store = SqliteStore::open_with(&path, hasty).await.unwrap();
        create(&store, "s").await;
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let error = store
            .commit(on("s").then(append_user("x")))
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        let error = store.check_writable().await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        other.execute_batch("COMMIT").unwrap();
        store.commit(on("s").then(append_user("x"))).await.unwrap();
    });
}
