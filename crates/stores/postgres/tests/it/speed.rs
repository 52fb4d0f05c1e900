//! The time of a commit on a durable server, beside the same statements written by hand. Run it optimized:
//!
//! ```sh
//! HELIX_STEPS=1000 with-servers cargo test --release -p helix-agents-store-postgres speed -- --nocapture
//! ```

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use helix_agents_core::store::{Change, Page, SessionStore};
use helix_agents_store_postgres::PostgresConfig;
use helix_agents_test_servers::{PostgresServer, PostgresSettings};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use crate::builders::{create, on, run, step};
use crate::server::{try_open, with_server};

fn steps() -> usize {
    let steps = std::env::var("HELIX_STEPS").ok();
    steps.and_then(|steps| steps.parse().ok()).unwrap_or(20)
}

/// A loop without a framework: its tables, and prepared statements.
struct Bare {
    client: Client,
    header: Statement,
    stream: Statement,
    chunk: Statement,
    message: Statement,
    checkpoint: Statement,
}

impl Bare {
    async fn open(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let tables = "CREATE SCHEMA bare; SET search_path = bare; \
            CREATE TABLE session (key bigint PRIMARY KEY, version bigint, header bytea, open_step bytea) \
              WITH (fillfactor = 50); \
            CREATE TABLE stream (key bigint PRIMARY KEY, last bigint) WITH (fillfactor = 50); \
            CREATE TABLE chunk (stream bigint, last bigint, data bytea, PRIMARY KEY (stream, last)); \
            CREATE TABLE message (session bigint, at bigint, data bytea, PRIMARY KEY (session, at)); \
            CREATE TABLE checkpoint (session bigint, id bytea, n bigint, data bytea, \
              PRIMARY KEY (session, id)); \
            CREATE INDEX ON checkpoint (session, n); \
            INSERT INTO session VALUES (1, 0, '', NULL); INSERT INTO stream VALUES (1, 0);";
        client.batch_execute(tables).await.unwrap();
        let prepare = async |sql: &str| client.prepare(sql).await.unwrap();
        Self {
            header: prepare(
                "UPDATE session SET version = $1::bigint, header = $2, open_step = $3 \
                 WHERE key = 1 AND version = $1::bigint - 1",
            )
            .await,
            stream: prepare("UPDATE stream SET last = $1 WHERE key = 1").await,
            chunk: prepare("INSERT INTO chunk VALUES (1, $1, $2)").await,
            message: prepare("INSERT INTO message VALUES (1, $1, $2)").await,
            checkpoint: prepare("INSERT INTO checkpoint VALUES (1, $1, $2, $3)").await,
            client,
        }
    }

    /// The two commits of a step, each sent as a whole: everything is in flight before the first answer.
    async fn step(&self, number: i64) {
        let header = vec![b'x'; 700];
        let (text, id) = (vec![b'x'; 500], format!("cp-{number:036}").into_bytes());
        let (none, some) = (None::<Vec<u8>>, Some(text.clone()));
        for (version, open, settles) in [(2 * number - 1, &some, false), (2 * number, &none, true)]
        {
            let mut statements: Vec<(&Statement, Vec<&(dyn ToSql + Sync)>)> = vec![
                (&self.header, vec![&version, &header, open]),
                (&self.stream, vec![&version]),
                (&self.chunk, vec![&version, &text]),
            ];
            if settles {
                statements.push((&self.message, vec![&version, &text]));
                statements.push((&self.checkpoint, vec![&id, &version, &text]));
            }
            let sent = statements
                .iter()
                .map(|(statement, values)| self.client.execute(*statement, values));
            let (begun, sent, made) = tokio::join!(
                self.client.batch_execute("BEGIN"),
                try_join_all(sent),
                self.client.batch_execute("COMMIT"),
            );
            begun.unwrap();
            sent.unwrap();
            made.unwrap();
        }
    }
}

#[test]
fn commits_per_second_of_one_session_and_of_many() {
    with_server(async {
        let server = PostgresServer::start(PostgresSettings::durable()).unwrap();
        let store = try_open(&server.url(), PostgresConfig::new())
            .await
            .unwrap();
        let bare = Bare::open(&server.url()).await;
        let steps = steps();
        let session = create(&store, "s").await;
        let start = on("s").then(Change::StartRun(Box::new(run(&session))));
        store.commit(start).await.unwrap();
        // In turns, so that both have the same machine.
        let (mut ours, mut theirs) = (Duration::ZERO, Duration::ZERO);
        let part = (steps / 10).max(1);
        let mut number = 0;
        while number < steps {
            let begun = Instant::now();
            for at in number + 1..=number + part {
                bare.step(i64::try_from(at).unwrap()).await;
            }
            theirs += begun.elapsed();
            let begun = Instant::now();
            for at in number + 1..=number + part {
                for commit in step(&session, at) {
                    store.commit(commit).await.unwrap();
                }
            }
            ours += begun.elapsed();
            number += part;
        }
        let commits = u32::try_from(2 * number).unwrap();
        eprintln!(
            "one session, {commits} commits: {:?} each, by hand {:?}, ratio {:.2}",
            ours / commits,
            theirs / commits,
            ours.as_secs_f64() / theirs.as_secs_f64()
        );
        let messages = store
            .messages(session.as_root(), Page::first(1))
            .await
            .unwrap();
        assert_eq!(
            messages.total,
            2 * number,
            "a call and its result for each step"
        );

        let begun = Instant::now();
        let writers = (0..16).map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let name = format!("many-{writer}");
                let session = create(&store, &name).await;
                let start = on(&name).then(Change::StartRun(Box::new(run(&session))));
                store.commit(start).await.unwrap();
                for number in 1..=part {
                    for commit in step(&session, number) {
                        store.commit(commit).await.unwrap();
                    }
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        for writer in writers {
            writer.await.unwrap();
        }
        let per_second = 16.0 * 2.0 * (part + 1) as f64 / begun.elapsed().as_secs_f64();
        eprintln!("16 sessions at once: {per_second:.0} commits per second");
    });
}
