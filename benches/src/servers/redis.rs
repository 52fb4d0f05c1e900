//! Redis with every answered commit on the disk, and the values of a step written to it by hand.

use std::collections::BTreeMap;

use helix_agents_store_redis::{RedisConfig, RedisStore};
use helix_agents_test_servers::{RedisServer, RedisSettings};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline, Value, cmd, from_redis_value, pipe};

use crate::sqlite::Outcome;
use crate::step_rows::StepRows;

use super::{ByHand, Figures, Kind};

pub(super) struct Redis;

impl Kind for Redis {
    const NAME: &'static str = "redis";
    const FIGURES: Figures = Figures {
        step: "durable step on Redis, times by hand",
        one_store: "Redis, 8 sessions of a store, times one",
        eight_stores: "Redis, 8 connections, times one",
        deltas: "deltas read through Redis, times by hand",
        bytes: "bytes a late step keeps on Redis, times an early one",
    };
    type Server = RedisServer;
    type Store = RedisStore;
    type ByHand = Bare;

    /// `appendonly yes`, `appendfsync always`.
    fn start() -> Outcome<(RedisServer, String)> {
        let server = RedisServer::start(RedisSettings::durable())?;
        let url = server.url();
        Ok((server, url))
    }

    /// A store has one connection, which its operations share.
    async fn open(url: &str, name: &str, _: usize) -> Outcome<RedisStore> {
        Ok(RedisStore::open_with(url, RedisConfig::new().prefix(name)).await?)
    }

    /// The memory of the keys of each kind.
    async fn bytes(url: &str, name: &str) -> Outcome<Vec<(String, f64)>> {
        let mut connection = connect(url).await?;
        let keys: Vec<String> = cmd("KEYS")
            .arg(format!("{{{name}:*"))
            .query_async(&mut connection)
            .await?;
        let mut sizes: BTreeMap<String, f64> = BTreeMap::new();
        for key in keys {
            let size: f64 = cmd("MEMORY")
                .arg(("USAGE", &key, "SAMPLES", 0))
                .query_async(&mut connection)
                .await?;
            let kind = key.split(':').nth(2).unwrap_or_default();
            *sizes.entry(kind.to_owned()).or_default() += size;
        }
        Ok(sizes.into_iter().collect())
    }
}

/// Connects; an answer may take as long as it takes.
async fn connect(url: &str) -> Outcome<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let client = Client::open(url)?;
    Ok(client
        .get_multiplexed_async_connection_with_config(&config)
        .await?)
}

/// A loop without a framework: its keys.
pub(super) struct Bare {
    connection: MultiplexedConnection,
    session: String,
    stream: String,
}

impl Bare {
    fn key(&self, kind: &str) -> String {
        format!("{}:{kind}", self.session)
    }

    /// Makes a commit: `MULTI`, the commands and `EXEC`, sent as a whole.
    async fn commit(&self, commands: &Pipeline) -> Outcome<()> {
        let mut connection = self.connection.clone();
        Ok(commands.exec_async(&mut connection).await?)
    }

    fn chunk(&self, commands: &mut Pipeline, last: usize, data: &str) {
        commands
            .cmd("XADD")
            .arg((&self.stream, format!("{last}-0"), "d", data));
    }
}

impl ByHand for Bare {
    async fn open(url: &str, session: i64) -> Outcome<Self> {
        Ok(Self {
            connection: connect(url).await?,
            session: format!("bare:{session}"),
            stream: format!("bare:{session}:stream"),
        })
    }

    async fn step(&self, n: usize, rows: StepRows) -> Outcome<()> {
        let [head, open, documents] = ["head", "open", "documents"].map(|kind| self.key(kind));
        let (checkpoint, time) = (&rows.checkpoint, "1700000000000");
        let mut reply = pipe();
        reply.atomic();
        reply.hset(&head, "data", &rows.session);
        reply.hincr(&head, "version", 1);
        reply.set(&open, &rows.open_step);
        self.chunk(&mut reply, 20 * n, &rows.reply_chunks);
        self.commit(&reply).await?;

        let mut settle = pipe();
        settle.atomic();
        settle.hset(&head, "data", &rows.session);
        settle.hincr(&head, "version", 1);
        settle.del(&open);
        settle.zadd(self.key("messages"), &rows.entry, 2 * n);
        let about = format!("{}:{time}", 2 * n);
        settle.hset(&documents, checkpoint, about);
        settle.zadd(self.key("checkpoints"), checkpoint, n);
        settle.rpush(self.key("usage"), rows.usage);
        settle.hset(&documents, "run-1", &rows.run);
        self.chunk(&mut settle, 20 * n + 10, &rows.result_chunks);
        self.commit(&settle).await
    }

    async fn append(&self, last: usize, batch: &[String]) -> Outcome<()> {
        let mut commands = pipe();
        commands.atomic();
        self.chunk(&mut commands, last, &serde_json::to_string(batch)?);
        self.commit(&commands).await
    }

    async fn batches_after(&mut self, last: usize) -> Outcome<Vec<(usize, Vec<String>)>> {
        let answer: Value = cmd("XREAD")
            .arg(("BLOCK", 10_000, "COUNT", 256, "STREAMS"))
            .arg((&self.stream, format!("{last}-0")))
            .query_async(&mut self.connection)
            .await?;
        // A list of streams; of each its name and its entries; of each its id, and the names and values of fields.
        let entries = item(item(answer, 0)?, 1)?;
        let Value::Array(entries) = entries else {
            return Err("no entries".into());
        };
        let batches = entries.into_iter().map(|entry| {
            let id: String = from_redis_value(item(entry.clone(), 0)?)?;
            let data: String = from_redis_value(item(item(entry, 1)?, 1)?)?;
            let last = id.split('-').next().unwrap_or_default().parse()?;
            Ok((last, serde_json::from_str(&data)?))
        });
        batches.collect()
    }
}

/// An item of an array.
fn item(value: Value, place: usize) -> Outcome<Value> {
    match value {
        Value::Array(mut items) if place < items.len() => Ok(items.swap_remove(place)),
        other => Err(format!("no item {place} in {other:?}").into()),
    }
}
