//! Errors of opening a store, and migrations.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use helix_agents_core::store::SessionStore;
use helix_agents_store_postgres::{Error, PostgresConfig, PostgresStore};
use helix_agents_test_servers::{PostgresServer, PostgresSettings};

use crate::builders::{count, create, says};
use crate::server::{config, open, runtime, schema, send, try_open, url, with_server};

/// Opens a URL that cannot be opened, with the default configuration, and says how long it took.
fn refused(url: &str) -> (Error, Duration) {
    let begun = Instant::now();
    let opening =
        async { tokio::time::timeout(Duration::from_secs(5), PostgresStore::connect(url)).await };
    let opened = runtime().block_on(opening);
    let error = opened
        .unwrap_or_else(|_| panic!("no answer within 5 s"))
        .unwrap_err();
    (error, begun.elapsed())
}

#[test]
fn a_server_that_is_not_there_is_named_without_the_password() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("postgres://helix:secret@127.0.0.1:{port}/agents");
    let (error, _) = refused(&url);
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let text = format!("{error} {error:?}");
    assert!(text.contains(&format!(
        "127.0.0.1:{port}/agents cannot be reached; check that"
    )));
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn a_server_that_does_not_answer_is_given_up_within_five_seconds() {
    // Connections wait in the queue of the listener, which nobody serves.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (error, took) = refused(&format!("postgres://helix@127.0.0.1:{port}/agents"));
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_database_that_is_not_there_is_denied() {
    let Some(url) = url() else { return };
    let (server, _) = url.rsplit_once('/').unwrap();
    let (error, _) = refused(&format!("{server}/missing"));
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
}

#[test]
fn without_a_runtime_the_error_says_so() {
    let opening = PostgresStore::connect("postgres://helix@127.0.0.1/agents");
    let error = helix_agents_testkit::block_on(opening).unwrap_err();
    assert!(matches!(error, Error::NoRuntime), "{error:?}");
}

/// proves: STO-12
#[test]
fn a_newer_schema_is_refused_with_both_versions() {
    with_server(async {
        let name = schema();
        drop(open(config(&name)).await);
        send(
            &url().unwrap(),
            &format!("INSERT INTO {name}.schema_version VALUES (99)"),
        )
        .await;
        let error = try_open(&url().unwrap(), config(&name)).await.unwrap_err();
        assert!(
            matches!(error, Error::SchemaTooNew { found: 99, .. }),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(
            text.contains("has version 99, this program knows up to 1; upgrade"),
            "{text}"
        );
    });
}

/// proves: STO-12
#[test]
fn without_migration_a_missing_schema_is_refused_and_one_that_is_up_to_date_is_opened() {
    with_server(async {
        let name = schema();
        let opening = async || try_open(&url().unwrap(), config(&name).migrate(false)).await;
        let error = opening().await.unwrap_err();
        assert!(
            matches!(error, Error::SchemaTooOld { found: 0, .. }),
            "{error:?}"
        );
        drop(open(config(&name)).await);
        let store = opening().await.unwrap();
        create(&store, "s").await;
    });
}

/// proves: STO-12
#[test]
fn many_processes_may_open_a_new_schema_at_once() {
    with_server(async {
        let name = schema();
        let opening = (0..6).map(|_| tokio::spawn(open(config(&name))));
        let opening: Vec<_> = opening.collect();
        for (number, opened) in opening.into_iter().enumerate() {
            create(&opened.await.unwrap(), &format!("s-{number}")).await;
        }
        let store = open(config(&name)).await;
        assert_eq!(store.list(&Default::default()).await.unwrap().total, 6);
    });
}

/// Its readers would wait for chunks that are elsewhere.
#[test]
fn a_schema_whose_streams_are_elsewhere_is_refused_without_an_outbox() {
    with_server(async {
        let name = schema();
        drop(open(config(&name)).await);
        for _ in 0..2 {
            drop(open(config(&name).with_outbox()).await);
        }
        for migrate in [true, false] {
            let without = config(&name).migrate(migrate);
            let error = try_open(&url().unwrap(), without).await.unwrap_err();
            assert!(
                matches!(&error, Error::StreamsElsewhere { schema } if *schema == name),
                "{error:?}"
            );
            assert!(error.to_string().contains("`[stream]`"), "{error}");
        }
        drop(open(config(&name).with_outbox()).await);
    });
}

#[test]
fn schemas_share_nothing_and_a_bad_name_is_refused() {
    with_server(async {
        let (one, other) = (open(config(&schema())).await, open(config(&schema())).await);
        create(&one, "s").await;
        assert_eq!(other.list(&Default::default()).await.unwrap().total, 0);
        let error = try_open(&url().unwrap(), PostgresConfig::new().schema("a;b")).await;
        assert!(matches!(error, Err(Error::BadSchema { .. })), "{error:?}");
    });
}

/// As behind a pooler, which gives each transaction another connection.
#[test]
fn it_works_without_prepared_statements() {
    with_server(async {
        let store = open(config(&schema()).prepared_statements(false)).await;
        create(&store, "s").await;
        for text in ["a", "b", "c"] {
            store.commit(says("s", text)).await.unwrap();
        }
        assert_eq!(count(&store, "s").await, 3);
    });
}

#[test]
fn a_unix_socket_is_an_address() {
    with_server(async {
        let server = PostgresServer::start(PostgresSettings::quick()).unwrap();
        let store = try_open(&server.socket_url(), config("sockets"))
            .await
            .unwrap();
        create(&store, "s").await;
        assert_eq!(store.list(&Default::default()).await.unwrap().total, 1);
    });
}
