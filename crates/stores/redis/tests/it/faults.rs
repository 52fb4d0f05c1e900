//! Servers that die, lose answers, are full or cannot be reached.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::store::{
    Change, CheckWritable, Commit, NewSession, Page, Precondition, SessionStore, Sessions,
    StoreError,
};
use helix_agents_core::time::Timestamp;
use helix_agents_store_redis::{Durability, RedisConfig, RedisStore};
use helix_agents_test_servers::{Proxy, RedisSettings};
use helix_agents_testkit::VirtualClock;

use crate::stores::{block_on, command, open, private, quick};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

async fn created(store: &RedisStore, name: &str) -> SessionId {
    let clock = VirtualClock::new(NOW);
    let id = session(name);
    let sessions = Sessions::new(store, &clock);
    sessions
        .create_session(&id, NewSession::of("helper"))
        .await
        .unwrap();
    id
}

/// A commit that appends a message, if there are so many before it.
fn appending(id: &SessionId, text: &str, count: usize) -> Commit {
    Commit::new(id.clone(), NOW)
        .when(Precondition::MessageCount(count))
        .then(Change::AppendUser(UserMessage::new(text)))
}

async fn count(store: &RedisStore, id: &SessionId) -> usize {
    store
        .messages(id.as_root(), Page::ALL)
        .await
        .unwrap()
        .items
        .len()
}

fn is_unavailable<T: std::fmt::Debug>(result: &Result<T, StoreError>) {
    assert!(
        matches!(result, Err(StoreError::Unavailable { .. })),
        "{result:?}"
    );
}

/// The server is killed in the middle of commits, and started again: every acknowledged commit is there.
#[test]
fn acknowledged_commits_survive_the_death_of_the_server() {
    let Some(mut server) = private(RedisSettings::durable()) else {
        return;
    };
    let config = RedisConfig::new().durability(Durability::Always);
    let store = block_on(open(&server.url(), config));
    let id = block_on(created(&store, "order"));
    let mut made = 0;
    for round in 1..=3 {
        // A commit is under way when the server dies: the messages tell how many were made before.
        let (acknowledged, heard) = std::sync::mpsc::channel();
        let (theirs, name) = (store.clone(), id.clone());
        let writer = std::thread::spawn(move || {
            block_on(async {
                let mut count = made;
                loop {
                    let text = format!("message {count}");
                    match theirs.commit(appending(&name, &text, count)).await {
                        Ok(_) => count += 1,
                        Err(StoreError::Unavailable { .. }) => return count,
                        Err(other) => panic!("{other:?}"),
                    }
                    acknowledged.send(()).unwrap();
                }
            })
        });
        for _ in 0..40 * round {
            heard.recv().unwrap();
        }
        server.kill().unwrap();
        let acknowledged = writer.join().unwrap();
        server.start_again().unwrap();
        let found = block_on(async {
            // The connection was lost; the next operation makes another.
            let snapshot = store.load(id.as_root()).await.unwrap().unwrap();
            assert_eq!(snapshot.message_count, count(&store, &id).await);
            snapshot.message_count
        });
        // The last one was made or not: its answer was lost.
        assert!(
            found == acknowledged || found == acknowledged + 1,
            "{found}, {acknowledged}"
        );
        made = found;
    }
    assert!(made >= 240);
}

/// A commit whose answer is lost is made once, and said to be unavailable. The next operation works by itself.
#[test]
fn a_commit_whose_answer_is_lost_is_not_repeated() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    let proxy = Proxy::start(server.port()).unwrap();
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    block_on(async {
        let store = open(&url, quick("lost")).await;
        let id = created(&store, "order").await;
        for round in 0..5 {
            let text = format!("lost {round}");
            proxy.lose_answer_to(text.as_bytes());
            is_unavailable(&store.commit(appending(&id, &text, round)).await);
            assert_eq!(proxy.lost(), round + 1);
            assert_eq!(count(&store, &id).await, round + 1, "it was made once");
        }
        store.commit(appending(&id, "heard", 5)).await.unwrap();
    });
}

/// A commit that does not reach the server is not made. When the server is back, the next one is.
#[test]
fn a_commit_without_a_server_is_unavailable_until_it_is_back() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    let proxy = Proxy::start(server.port()).unwrap();
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    block_on(async {
        let store = open(&url, quick("gone")).await;
        let id = created(&store, "order").await;
        store.check_writable().await.unwrap();
        proxy.refuse(true);
        is_unavailable(&store.commit(appending(&id, "gone", 0)).await);
        is_unavailable(&store.load(id.as_root()).await);
        is_unavailable(&store.check_writable().await);
        proxy.refuse(false);
        store.check_writable().await.unwrap();
        assert_eq!(count(&store, &id).await, 0);
        store.commit(appending(&id, "back", 0)).await.unwrap();
        // A connection that is cut while nothing is under way disturbs no read.
        proxy.cut();
        assert_eq!(count(&store, &id).await, 1);
    });
}

/// A server that has forgotten the scripts is told them again.
#[test]
fn forgotten_scripts_are_sent_again() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let store = open(&server.url(), quick("flush")).await;
        let id = created(&store, "order").await;
        for round in 0..3 {
            command(&server.url(), &["SCRIPT", "FLUSH"]).await;
            store.commit(appending(&id, "again", round)).await.unwrap();
        }
        assert_eq!(count(&store, &id).await, 3);
    });
}

/// A commit that finds no memory is refused whole. Reading and deleting still work, and make room.
#[test]
fn a_full_server_refuses_commits_whole() {
    let Some(server) = private(RedisSettings::quick().set("maxmemory", "64mb")) else {
        return;
    };
    block_on(async {
        let url = server.url();
        let store = open(&url, quick("full")).await;
        let id = created(&store, "order").await;
        let large = created(&store, "large").await;
        store
            .commit(appending(&large, &"x".repeat(1 << 20), 0))
            .await
            .unwrap();
        store.commit(appending(&id, "before", 0)).await.unwrap();
        let before = store.load(id.as_root()).await.unwrap();
        command(&url, &["CONFIG", "SET", "maxmemory", "1mb"]).await;
        let refused = store.commit(appending(&id, "too much", 1)).await;
        assert!(
            matches!(refused, Err(StoreError::Full { .. })),
            "{refused:?}"
        );
        assert!(matches!(
            store.check_writable().await,
            Err(StoreError::Full { .. })
        ));
        assert_eq!(store.load(id.as_root()).await.unwrap(), before);
        assert_eq!(count(&store, &id).await, 1);
        let clock = VirtualClock::new(NOW);
        let sessions = Sessions::new(&store, &clock);
        assert!(sessions.delete_session(&large).await.unwrap());
        command(&url, &["CONFIG", "SET", "maxmemory", "64mb"]).await;
        store.check_writable().await.unwrap();
        store.commit(appending(&id, "after", 1)).await.unwrap();
    });
}

/// A server that lost its data is not written to as if it had it: what is remembered is compared.
#[test]
fn what_is_remembered_is_not_believed() {
    let Some(mut server) = private(RedisSettings::quick()) else {
        return;
    };
    let store = block_on(open(&server.url(), quick("memory")));
    let id = block_on(created(&store, "order"));
    block_on(store.commit(appending(&id, "gone", 0))).unwrap();
    server.kill().unwrap();
    server.start_again().unwrap();
    block_on(async {
        // The connection is lost with the server: one attempt may tell so.
        let mut result = store.commit(appending(&id, "later", 1)).await;
        if matches!(result, Err(StoreError::Unavailable { .. })) {
            result = store.commit(appending(&id, "later", 1)).await;
        }
        assert!(
            matches!(result, Err(StoreError::NotFound { .. })),
            "{result:?}"
        );
        assert_eq!(store.load(id.as_root()).await.unwrap(), None);
        // Another session of that name is another one.
        created(&store, "order").await;
        assert_eq!(count(&store, &id).await, 0);
    });
}

/// A read-only server is unavailable, and works again when it may be written to.
#[test]
fn a_read_only_server_is_unavailable() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    let Some(other) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let url = server.url();
        let store = Arc::new(open(&url, quick("replica")).await);
        let id = created(&store, "order").await;
        let port = other.port().to_string();
        command(&url, &["REPLICAOF", "127.0.0.1", &port]).await;
        is_unavailable(&store.commit(appending(&id, "no", 0)).await);
        is_unavailable(&store.check_writable().await);
        command(&url, &["REPLICAOF", "NO", "ONE"]).await;
        store.check_writable().await.unwrap();
    });
}

/// A server that takes no more connections is unavailable, and works again when it does: nothing was asked of it.
#[test]
fn a_server_without_a_free_connection_is_unavailable() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let store = open(&server.url(), quick("crowded")).await;
        let id = created(&store, "order").await;
        let client = redis::Client::open(server.url()).unwrap();
        let mut other = client.get_multiplexed_async_connection().await.unwrap();
        let mut send = async |words: &[&str]| {
            let mut command = redis::Cmd::new();
            command.arg(words);
            let _: redis::Value = command.query_async(&mut other).await.unwrap();
        };
        send(&["CONFIG", "SET", "maxclients", "1"]).await;
        send(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        for round in 0..3 {
            is_unavailable(&store.commit(appending(&id, "refused", round)).await);
        }
        send(&["CONFIG", "SET", "maxclients", "100"]).await;
        store.commit(appending(&id, "made", 0)).await.unwrap();
        assert_eq!(count(&store, &id).await, 1);
    });
}
