use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::future::join_all;
use helix_agents_core::session::SessionStatus;
use helix_agents_core::state::{StateOp, StepWrites};
use helix_agents_core::store::{Change, Page, Precondition, SessionStore, StoreError};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;
use serde_json::json;

use crate::builders::{append_user, create, creating, on, session_id};
use crate::folder::Folder;

fn push(path: &str) -> Change {
    let op = StateOp::Append {
        path: path.parse().unwrap(),
        value: json!(1),
    };
    Change::WriteState(StepWrites::from(vec![op]))
}

/// Makes a commit that by its number is refused by a precondition, refused by its state, or accepted.
async fn mixed(store: &SqliteStore, number: usize) -> Result<(), StoreError> {
    let session = format!("s{number}");
    let commit = match number % 3 {
        0 => on(&session).then(append_user("kept")).then(push("/list")),
        // The change before the refused one is undone.
        1 => on(&session).then(append_user("lost")).then(push("/text")),
        _ => on(&session)
            .when(Precondition::Status(vec![SessionStatus::Failed]))
            .then(append_user("lost")),
    };
    store.commit(commit).await.map(drop)
}

async fn check(store: &SqliteStore, number: usize, outcome: &Result<(), StoreError>) {
    let session = session_id(&format!("s{number}"));
    let messages = store.messages(session.as_root(), Page::ALL).await.unwrap();
    let snapshot = store.load(session.as_root()).await.unwrap().unwrap();
    let (expected_messages, version) = match (number % 3, outcome) {
        (0, Ok(())) => (1, 2),
        (1, Err(StoreError::State { .. })) | (2, Err(StoreError::Refused { .. })) => (0, 1),
        other => panic!("{other:?}"),
    };
    assert_eq!(messages.total, expected_messages);
    assert_eq!(snapshot.state.version, version);
    assert_eq!(snapshot.state_version, version);
}

async fn create_sessions(store: &SqliteStore, count: usize) {
    join_all((0..count).map(async |number| {
        let mut commit = creating(&format!("s{number}"));
        let state = Arc::new(json!({ "text": "x", "list": [] }));
        if let Some((_, Change::Create(session))) = commit.changes.first_mut() {
            session.custom_state = state;
        }
        store.commit(commit).await.unwrap();
    }))
    .await;
}

#[test]
fn a_refusal_in_a_group_affects_no_other_commit_on_one_thread() {
    let folder = Folder::new();
    block_on(async {
        let store = SqliteStore::open(folder.file("helix.db")).await.unwrap();
        create_sessions(&store, 300).await;
        let outcomes = join_all((0..300).map(|number| mixed(&store, number))).await;
        for (number, outcome) in outcomes.iter().enumerate() {
            check(&store, number, outcome).await;
        }
    });
}

#[test]
fn a_refusal_in_a_group_affects_no_other_commit_on_many_threads() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    let (one, other) = block_on(async {
        let one = SqliteStore::open(&path).await.unwrap();
        create_sessions(&one, 60).await;
        (one, SqliteStore::open(&path).await.unwrap())
    });
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..60)
            .map(|number| {
                let store = if number % 2 == 0 { &one } else { &other };
                scope.spawn(move || block_on(mixed(store, number)))
            })
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    block_on(async {
        for (number, outcome) in outcomes.iter().enumerate() {
            check(&one, number, outcome).await;
        }
    });
}

#[test]
fn a_queued_commit_whose_caller_has_left_is_not_made() {
    let folder = Folder::new();
    block_on(async {
        let store = SqliteStore::open(folder.file("helix.db")).await.unwrap();
        create(&store, "a").await;
        create(&store, "b").await;
        {
            // Right after a commit of another session, a commit first waits for more.
            store.commit(on("a").then(append_user("x"))).await.unwrap();
            let mut dropped = pin!(store.commit(on("b").then(append_user("y"))));
            let poll = dropped
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(poll, Poll::Pending));
        }
        store.commit(on("a").then(append_user("z"))).await.unwrap();
        let total = async |session| {
            let messages = store
                .messages(session_id(session).as_root(), Page::ALL)
                .await
                .unwrap();
            messages.total
        };
        assert_eq!((total("a").await, total("b").await), (2, 0));
    });
}
