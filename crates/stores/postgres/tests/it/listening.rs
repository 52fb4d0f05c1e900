//! Notifications that cannot be had: nobody is kept by them, and nothing is asked because of them.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use helix_agents_core::store::SessionStore;
use helix_agents_core::stream::StreamManager;
use helix_agents_store_postgres::PostgresConfig;
use helix_agents_test_servers::Proxy;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::builders::{create, delta, id, on};
use crate::counting_proxy::CountingProxy;
use crate::faults::port;
use crate::server::{config, open, schema, try_open, with_server};

/// Nothing takes as long.
const LONG: Duration = Duration::from_secs(30);

/// What becomes of a connection.
#[derive(Clone, Copy)]
enum Fate {
    /// It is closed at once.
    Closed,
    /// It stays open, and nothing is answered.
    Silent,
}

/// A server that is none. Returns its URL, and tells of each connection.
fn none(fate: Fate) -> (String, UnboundedReceiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (accepted, connections) = unbounded_channel();
    let silent = |mut connection: TcpStream| {
        std::thread::spawn(move || while let Ok(1..) = connection.read(&mut [0; 1024]) {});
    };
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            match fate {
                Fate::Closed => drop(connection),
                Fate::Silent => silent(connection),
            }
            let _ = accepted.send(());
        }
    });
    let url = format!("postgres://helix@127.0.0.1:{port}/postgres?sslmode=disable");
    (url, connections)
}

async fn next(connections: &mut UnboundedReceiver<()>) {
    let next = tokio::time::timeout(LONG, connections.recv());
    let next = next.await;
    next.unwrap_or_else(|_| panic!("no other attempt")).unwrap();
}

/// Who waits is woken by notifications alone.
fn seldom(name: &str) -> PostgresConfig {
    config(name).poll_interval(Duration::from_secs(600))
}

#[test]
fn those_who_wait_do_not_look_when_notifications_cannot_be_had() {
    with_server(async {
        let (nowhere, mut connections) = none(Fate::Closed);
        let proxy = CountingProxy::start(port());
        let settings = seldom(&schema()).listen_url(nowhere);
        let store = try_open(&proxy.url(), settings).await.unwrap();
        let root = create(&store, "s").await;
        let known = store.info(&root).await.unwrap();
        let waiting = tokio::spawn({
            let (store, root) = (store.clone(), root.clone());
            async move { store.changed(&root, known).await }
        });
        next(&mut connections).await;
        next(&mut connections).await;
        let asked = proxy.asked();
        for _ in 0..4 {
            next(&mut connections).await;
        }
        assert_eq!(proxy.asked(), asked, "they wait");
        // What happens here is told without a server.
        store.commit(on("s").say(delta(&root, "a"))).await.unwrap();
        tokio::time::timeout(LONG, waiting)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    });
}

#[test]
fn a_connection_for_notifications_that_is_not_answered_is_given_up() {
    with_server(async {
        let (nowhere, mut connections) = none(Fate::Silent);
        let settings = seldom(&schema()).connect_timeout(Duration::from_secs(3));
        let store = open(settings.listen_url(nowhere)).await;
        let root = create(&store, "s").await;
        // Nobody waits, so these connections are for sending.
        for text in ["a", "b"] {
            store.commit(on("s").say(delta(&root, text))).await.unwrap();
            next(&mut connections).await;
        }
        let known = store.info(&root).await.unwrap();
        let waiting = store.changed(&root, known);
        let attempts = async {
            for _ in 0..2 {
                next(&mut connections).await;
            }
        };
        tokio::select! {
            changed = waiting => panic!("{changed:?}"),
            () = attempts => {}
        }
    });
}

#[test]
fn a_listening_that_is_not_answered_is_begun_again() {
    with_server(async {
        let proxy = Proxy::start(port()).unwrap();
        let url = format!(
            "postgres://helix@127.0.0.1:{}/postgres?sslmode=disable",
            proxy.port()
        );
        let name = schema();
        let here = open(seldom(&name)).await;
        let settings = seldom(&name).response_timeout(Duration::from_secs(1));
        let there = open(settings.listen_url(url)).await;
        let root = create(&here, "s").await;
        proxy.hold_answer_to(b"LISTEN ");
        let known = there.info(&root).await.unwrap();
        let waiting = tokio::spawn(async move { there.changed(&id("s"), known).await });
        while proxy.held() == 0 {
            tokio::task::yield_now().await;
        }
        let said = here.commit(on("s").say(delta(&root, "a")));
        said.await.unwrap();
        let woken = tokio::time::timeout(LONG, waiting);
        let woken = woken.await;
        let woken = woken.unwrap_or_else(|_| panic!("it does not listen again"));
        woken.unwrap().unwrap();
    });
}
