//! Lost connections and servers that die: a commit is made once or not at all, and nothing has to be repaired by hand.

use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::store::{CheckWritable, Page, SessionStore, StoreError};
use helix_agents_core::stream::{Sequence, StreamManager};
use helix_agents_store_postgres::PostgresStore;
use helix_agents_test_servers::{PostgresServer, PostgresSettings, Proxy};

use crate::builders::{count, create, delta, id, on, says};
use crate::server::{config, open, schema, send, try_open, url, with_server};

/// Nothing takes as long.
const LONG: Duration = Duration::from_secs(60);

pub(crate) fn port() -> u16 {
    let url = url().unwrap();
    let after_host = url.rsplit_once(':').unwrap().1;
    after_host.split_once('/').unwrap().0.parse().unwrap()
}

fn through(proxy: &Proxy) -> String {
    format!(
        "postgres://helix@127.0.0.1:{}/postgres?sslmode=disable",
        proxy.port()
    )
}

fn is_unavailable<T: std::fmt::Debug>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unavailable { .. }))
}

/// proves in part: STO-01
#[test]
fn a_commit_whose_answer_is_lost_is_made_once_and_never_repeated() {
    with_server(async {
        let name = schema();
        let proxy = Proxy::start(port()).unwrap();
        let store = try_open(&through(&proxy), config(&name)).await.unwrap();
        create(&store, "s").await;
        store.commit(says("s", "first")).await.unwrap();
        proxy.lose_answer_to(b"this one is lost");
        let lost = store.commit(says("s", "this one is lost")).await;
        assert!(is_unavailable(&lost), "{lost:?}");
        assert_eq!(proxy.lost(), 1);
        // The answer is lost after the server had sent it.
        let other = open(config(&name)).await;
        assert_eq!(count(&other, "s").await, 2);
        // The next operations need nothing.
        store.commit(says("s", "third")).await.unwrap();
        assert_eq!(count(&store, "s").await, 3);
    });
}

/// Waits until the answer to a request is held.
async fn is_held(proxy: &Proxy) {
    while proxy.held() == 0 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    with_server(async {
        let name = schema();
        let proxy = Proxy::start(port()).unwrap();
        let settings = config(&name).notifications(false).connections(1);
        let settings = settings.response_timeout(Duration::from_secs(1));
        let store = try_open(&through(&proxy), settings).await.unwrap();
        create(&store, "s").await;
        store.commit(says("s", "first")).await.unwrap();
        proxy.hold_answer_to(b"this one is held");
        let held = tokio::time::timeout(LONG, store.commit(says("s", "this one is held")));
        let held = held.await.unwrap();
        assert!(is_unavailable(&held), "{held:?}");
        // It was made, and its connection is not used again.
        let other = open(config(&name)).await;
        assert_eq!(count(&other, "s").await, 2);
        store.commit(says("s", "third")).await.unwrap();
        assert_eq!(count(&store, "s").await, 3);
    });
}

/// A process stands still in a transaction that has locked the stream. Others wait for it, and not until it goes on.
#[test]
fn a_process_that_stands_still_in_a_transaction_keeps_others_for_a_while_only() {
    with_server(async {
        let name = schema();
        let proxy = Proxy::start(port()).unwrap();
        let settings = config(&name).notifications(false);
        let settings = settings.prepared_statements(false).response_timeout(LONG);
        let still = try_open(&through(&proxy), settings).await.unwrap();
        let root = create(&still, "s").await;
        let said = on("s").say(delta(&root, "a"));
        still.commit(said).await.unwrap();
        proxy.hold_answer_to(b"SET condensed");
        let condensing = tokio::spawn({
            let (still, root) = (still.clone(), root.clone());
            async move { still.condense(&root, Sequence(1)).await }
        });
        is_held(&proxy).await;
        let other = open(config(&name)).await;
        let said = other.commit(on("s").say(delta(&root, "b")));
        tokio::time::timeout(LONG, said).await.unwrap().unwrap();
        // When it goes on it finds that its transaction was undone.
        proxy.cut();
        condensing.await.unwrap().unwrap_err();
        other.condense(&root, Sequence(2)).await.unwrap();
    });
}

#[test]
fn a_read_whose_connection_is_lost_is_made_again() {
    with_server(async {
        let name = schema();
        let proxy = Proxy::start(port()).unwrap();
        let store = try_open(&through(&proxy), config(&name)).await.unwrap();
        let session = create(&store, "s").await;
        for _ in 0..5 {
            proxy.cut();
            assert!(store.load(session.as_root()).await.unwrap().is_some());
        }
    });
}

#[test]
fn an_unreachable_server_is_unavailable_until_it_is_there_again() {
    with_server(async {
        let proxy = Proxy::start(port()).unwrap();
        let store = try_open(&through(&proxy), config(&schema())).await.unwrap();
        let session = create(&store, "s").await;
        store.check_writable().await.unwrap();
        proxy.refuse(true);
        let found = store.load(session.as_root()).await;
        assert!(is_unavailable(&found), "{found:?}");
        assert!(is_unavailable(&store.check_writable().await));
        let made = store.commit(says("s", "a")).await;
        assert!(is_unavailable(&made), "{made:?}");
        proxy.refuse(false);
        store.check_writable().await.unwrap();
        store.commit(says("s", "b")).await.unwrap();
        assert_eq!(count(&store, "s").await, 1);
    });
}

#[test]
fn a_database_that_became_read_only_is_unavailable_and_recovers() {
    with_server(async {
        let server = PostgresServer::start(PostgresSettings::quick()).unwrap();
        let store = try_open(&server.url(), config("helix").connections(1))
            .await
            .unwrap();
        create(&store, "s").await;
        let set = async |value: &str| {
            let sql = format!(
                "ALTER DATABASE postgres SET default_transaction_read_only = {value}; \
                 SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE application_name = 'helix-agents'"
            );
            // It can be written itself.
            let writable = "options=-c%20default_transaction_read_only%3Doff";
            send(&format!("{}?{writable}", server.url()), &sql).await;
        };
        set("on").await;
        let checked = eventually(async || store.check_writable().await.is_err()).await;
        assert!(checked, "a database that is read-only cannot be written");
        assert!(is_unavailable(&store.check_writable().await));
        set("off").await;
        let checked = eventually(async || store.check_writable().await.is_ok()).await;
        assert!(checked, "it recovers by itself");
        let written = eventually(async || store.commit(says("s", "a")).await.is_ok()).await;
        assert!(written);
    });
}

/// Whether something becomes true after a few attempts: a connection that was ended is noticed by using it.
async fn eventually(mut is_so: impl AsyncFnMut() -> bool) -> bool {
    for _ in 0..10 {
        if is_so().await {
            return true;
        }
    }
    false
}

/// A server that is stopped at once, again and again, while sessions are written.
#[test]
fn a_server_that_dies_during_commits_loses_nothing_that_was_acknowledged() {
    with_server(async {
        let mut server = PostgresServer::start(PostgresSettings::durable()).unwrap();
        let store = try_open(&server.url(), config("helix")).await.unwrap();
        let sessions: Vec<String> = (0..3).map(|number| format!("s-{number}")).collect();
        for session in &sessions {
            create(&store, session).await;
        }
        let mut before = 0;
        for round in 0..3 {
            let (stop, stopped) = tokio::sync::watch::channel(false);
            let (made, mut progress) = tokio::sync::mpsc::unbounded_channel();
            let writers: Vec<_> = sessions
                .iter()
                .map(|session| {
                    let (store, session) = (store.clone(), session.clone());
                    let (stopped, made) = (stopped.clone(), made.clone());
                    tokio::spawn(write(store, session, round, stopped, made))
                })
                .collect();
            for _ in 0..30 {
                progress.recv().await.unwrap();
            }
            let stopping = tokio::task::spawn_blocking(move || {
                server.stop_immediately().unwrap();
                server
            });
            server = stopping.await.unwrap();
            stop.send(true).unwrap();
            let mut outcomes = Vec::new();
            for writer in writers {
                outcomes.push(writer.await.unwrap());
            }
            let starting = tokio::task::spawn_blocking(move || {
                server.start_again().unwrap();
                server
            });
            server = starting.await.unwrap();
            for (session, (acknowledged, unknown)) in sessions.iter().zip(&outcomes) {
                let texts = texts(&store, session).await;
                let of_round = |text: &&String| text.starts_with(&format!("{round}:"));
                let found: Vec<_> = texts.iter().filter(of_round).collect();
                let mut once = found.clone();
                once.dedup();
                assert_eq!(found, once, "each commit is made once");
                let mut wanted: Vec<&String> = acknowledged.iter().collect();
                if found.len() > wanted.len() {
                    wanted.extend(unknown.iter());
                }
                assert_eq!(found, wanted, "all that was acknowledged, in its order");
                before += found.len();
            }
        }
        assert!(before >= 90, "{before} commits");
    });
}

/// Writes to a session until the store fails or it is told to stop. Returns what was acknowledged, and what was not.
async fn write(
    store: PostgresStore,
    session: String,
    round: usize,
    stopped: tokio::sync::watch::Receiver<bool>,
    made: tokio::sync::mpsc::UnboundedSender<()>,
) -> (Vec<String>, Option<String>) {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let text = format!("{round}:{number}");
        match store.commit(says(&session, &text)).await {
            Ok(_) => acknowledged.push(text),
            Err(StoreError::Unavailable { .. }) => return (acknowledged, Some(text)),
            Err(other) => panic!("{other:?}"),
        }
        let _ = made.send(());
        if *stopped.borrow() {
            break;
        }
    }
    (acknowledged, None)
}

async fn texts(store: &PostgresStore, session: &str) -> Vec<String> {
    let session: SessionId = id(session);
    let page = store.messages(session.as_root(), Page::ALL).await.unwrap();
    let texts = page.items.iter().map(|message| match message {
        helix_agents_core::message::Message::User(user) => user.content.clone(),
        other => panic!("{other:?}"),
    });
    texts.collect()
}

#[test]
fn an_operation_whose_caller_is_gone_is_finished() {
    with_server(async {
        let store = open(config(&schema())).await;
        create(&store, "s").await;
        for number in 0..20 {
            let commit = store.commit(says("s", &number.to_string()));
            // It is begun and dropped.
            let _ = tokio::time::timeout(Duration::ZERO, commit).await;
        }
        store.commit(says("s", "last")).await.unwrap();
        assert_eq!(count(&store, "s").await, 21);
    });
}
