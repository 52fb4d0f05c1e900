//! PostgreSQL with its own settings of durability, and the rows of a step written to it by hand.

use std::future::poll_fn;
use std::sync::Arc;

use futures_util::future::try_join_all;
use helix_agents_store_postgres::{PostgresConfig, PostgresStore};
use helix_agents_test_servers::{PostgresServer, PostgresSettings};
use tokio::sync::Notify;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

use crate::sqlite::Outcome;
use crate::step_rows::StepRows;

use super::{ByHand, Figures, Kind};

pub(super) struct Postgres;

impl Kind for Postgres {
    const NAME: &'static str = "postgres";
    const FIGURES: Figures = Figures {
        step: "durable step on PostgreSQL, times by hand",
        one_store: "PostgreSQL, 8 connections of a store, times one",
        eight_stores: "PostgreSQL, 8 stores, times one",
        deltas: "deltas read through PostgreSQL, times by hand",
        bytes: "bytes a late step keeps on PostgreSQL, times an early one",
    };
    type Server = PostgresServer;
    type Store = PostgresStore;
    type ByHand = Bare;

    /// `fsync`, `full_page_writes` and `synchronous_commit` are on.
    fn start() -> Outcome<(PostgresServer, String)> {
        let server = PostgresServer::start(PostgresSettings::durable())?;
        let url = server.url();
        Ok((server, url))
    }

    async fn open(url: &str, name: &str, connections: usize) -> Outcome<PostgresStore> {
        let config = PostgresConfig::new().schema(name).connections(connections);
        Ok(PostgresStore::connect_with(url, config).await?)
    }

    /// The bytes of each table with its indexes, once what is not used any more was cleared away.
    async fn bytes(url: &str, name: &str) -> Outcome<Vec<(String, f64)>> {
        let client = connect(url, Arc::default()).await?;
        client.batch_execute("VACUUM").await?;
        let sql = "SELECT c.relname::text, pg_total_relation_size(c.oid)::float8 FROM pg_class c \
             JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'";
        let rows = client.query(sql, &[&name]).await?;
        let rows = rows
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        rows.collect()
    }
}

/// Connects; what others notify rings.
async fn connect(url: &str, notified: Arc<Notify>) -> Outcome<Client> {
    let (client, mut connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if matches!(message, AsyncMessage::Notification(_)) {
                notified.notify_one();
            }
        }
    });
    Ok(client)
}

/// A loop without a framework: its tables, and prepared statements.
pub(super) struct Bare {
    client: Client,
    session: i64,
    notified: Arc<Notify>,
    listens: bool,
    reply: Statement,
    settle: Statement,
    chunk: Statement,
    message: Statement,
    checkpoint: Statement,
    usage: Statement,
    run: Statement,
    notify: Statement,
    batches: Statement,
}

const TABLES: &str = "CREATE SCHEMA IF NOT EXISTS bare; SET search_path = bare; \
    CREATE TABLE IF NOT EXISTS session (key bigint PRIMARY KEY, version bigint NOT NULL, data text NOT NULL, \
      open_step text) WITH (fillfactor = 50); \
    CREATE TABLE IF NOT EXISTS chunk (session bigint, last bigint, data text, PRIMARY KEY (session, last)); \
    CREATE TABLE IF NOT EXISTS message (session bigint, at bigint, data text, PRIMARY KEY (session, at)); \
    CREATE TABLE IF NOT EXISTS checkpoint (session bigint, id text, n bigint, messages bigint, time bigint, \
      PRIMARY KEY (session, n)); \
    CREATE TABLE IF NOT EXISTS usage (session bigint, n bigint, data text, PRIMARY KEY (session, n)); \
    CREATE TABLE IF NOT EXISTS run (session bigint PRIMARY KEY, data text NOT NULL) WITH (fillfactor = 50);";

impl ByHand for Bare {
    async fn open(url: &str, session: i64) -> Outcome<Self> {
        let notified = Arc::<Notify>::default();
        let client = connect(url, Arc::clone(&notified)).await?;
        client.batch_execute(TABLES).await?;
        let begin = "INSERT INTO session VALUES ($1, 0, '{}') ON CONFLICT DO NOTHING";
        client.execute(begin, &[&session]).await?;
        let reply =
            "UPDATE session SET version = version + 1, data = $2, open_step = $3 WHERE key = $1";
        let settle =
            "UPDATE session SET version = version + 1, data = $2, open_step = NULL WHERE key = $1";
        let chunk = "INSERT INTO chunk VALUES ($1, $2, $3)";
        let message = "INSERT INTO message VALUES ($1, $2, $3)";
        let checkpoint = "INSERT INTO checkpoint VALUES ($1, $2, $3, $4, 1700000000000)";
        let usage = "INSERT INTO usage VALUES ($1, $2, $3)";
        let run = "INSERT INTO run VALUES ($1, $2) \
             ON CONFLICT (session) DO UPDATE SET data = excluded.data";
        let notify = "SELECT pg_notify('bare', '')";
        let batches = "SELECT last, data FROM chunk WHERE session = $1 AND last > $2 ORDER BY last";
        Ok(Self {
            reply: client.prepare(reply).await?,
            settle: client.prepare(settle).await?,
            chunk: client.prepare(chunk).await?,
            message: client.prepare(message).await?,
            checkpoint: client.prepare(checkpoint).await?,
            usage: client.prepare(usage).await?,
            run: client.prepare(run).await?,
            notify: client.prepare(notify).await?,
            batches: client.prepare(batches).await?,
            client,
            session,
            notified,
            listens: false,
        })
    }

    async fn step(&self, n: usize, rows: StepRows) -> Outcome<()> {
        let (session, n) = (&self.session, i64::try_from(n)?);
        let [reply, settled, messages] = [20 * n, 20 * n + 10, 2 * n];
        self.commit([
            (&self.reply, vec![session, &rows.session, &rows.open_step]),
            (&self.chunk, vec![session, &reply, &rows.reply_chunks]),
        ])
        .await?;
        self.commit([
            (&self.settle, vec![session, &rows.session]),
            (&self.message, vec![session, &messages, &rows.entry]),
            (
                &self.checkpoint,
                vec![session, &rows.checkpoint, &n, &messages],
            ),
            (&self.usage, vec![session, &n, &rows.usage]),
            (&self.run, vec![session, &rows.run]),
            (&self.chunk, vec![session, &settled, &rows.result_chunks]),
        ])
        .await
    }

    async fn append(&self, last: usize, batch: &[String]) -> Outcome<()> {
        let (last, data) = (i64::try_from(last)?, serde_json::to_string(batch)?);
        self.commit([
            (&self.chunk, vec![&self.session, &last, &data]),
            (&self.notify, vec![]),
        ])
        .await
    }

    async fn batches_after(&mut self, last: usize) -> Outcome<Vec<(usize, Vec<String>)>> {
        if !self.listens {
            self.client.batch_execute("LISTEN bare").await?;
            self.listens = true;
        }
        let last = i64::try_from(last)?;
        loop {
            let rows = self
                .client
                .query(&self.batches, &[&self.session, &last])
                .await?;
            if rows.is_empty() {
                self.notified.notified().await;
                continue;
            }
            let batches = rows.iter().map(|row| {
                let last = usize::try_from(row.try_get::<_, i64>(0)?)?;
                Ok((last, serde_json::from_str(row.try_get(1)?)?))
            });
            return batches.collect();
        }
    }
}

impl Bare {
    /// Makes a commit, sent as a whole: everything is under way before the first answer.
    async fn commit<const N: usize>(
        &self,
        statements: [(&Statement, Vec<&(dyn ToSql + Sync)>); N],
    ) -> Outcome<()> {
        let sent = statements
            .iter()
            .map(|(statement, values)| self.client.execute(*statement, values));
        let sent = try_join_all(sent);
        let (begun, sent, made) = tokio::join!(
            self.client.batch_execute("BEGIN"),
            sent,
            self.client.batch_execute("COMMIT"),
        );
        begun?;
        sent?;
        Ok(made?)
    }
}
