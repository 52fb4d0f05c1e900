//! [`RedisStore`]: opening it, and the way of its operations to the servers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use helix_agents_core::runtime::Backend;
use helix_agents_core::stream::Sequence;
use helix_agents_core::time::Timestamp;
use redis::{Client, Value};

use crate::acknowledged::Acknowledged;
use crate::changes::Changes;
use crate::config::RedisConfig;
use crate::error::{Error, Result};
use crate::failure;
use crate::gates::Gates;
use crate::keys::{Keys, Shard};
use crate::nodes::Nodes;
use crate::opening;
use crate::remembered::Remembered;
use crate::reply::{self, Answers};
use crate::script::{Arguments, Prepared, Reads, Scripts, Transaction};
use crate::server_clock::ServerClock;
use crate::turns::Turns;

/// Sessions, streams and locks on a Redis server or cluster. Clones are the same store.
///
/// ```no_run
/// use helix_agents_core::store::SessionStore;
/// use helix_agents_store_redis::RedisStore;
///
/// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::open("redis://127.0.0.1:6379").await?;
/// println!("{} sessions", store.list(&Default::default()).await?.total);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: RedisConfig,
    pub(crate) keys: Keys,
    pub(crate) nodes: Nodes,
    pub(crate) scripts: Scripts,
    pub(crate) remembered: Remembered,
    pub(crate) changes: Changes,
    pub(crate) turns: Turns,
    /// What streams were told, where sessions are stored elsewhere.
    pub(crate) gates: Gates,
    /// The ends of such streams.
    pub(crate) acknowledged: Acknowledged,
    pub(crate) clock: ServerClock,
    /// A text that no other store has, and a counter: together they are never used twice.
    unique: (String, AtomicU64),
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("address", &self.inner.nodes.address())
            .field("config", &self.inner.config)
            .finish_non_exhaustive()
    }
}

impl From<RedisStore> for Backend {
    fn from(store: RedisStore) -> Self {
        Self::new(store.clone())
            .retained_by(store.clone())
            .checked_by(store)
    }
}

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It was made. The last sequence of its stream.
    Done(Sequence),
    /// Something that it compares has changed, and nothing was written.
    Changed,
}

impl RedisStore {
    /// Opens the store on a server or cluster, as [`RedisStore::open_with`] with the default configuration.
    ///
    /// # Errors
    /// [`Error`] says what is wrong with the address or the server.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, RedisConfig::new()).await
    }

    /// Opens the store on the server with this address: `redis://[USER:PASSWORD@]HOST:PORT[/DATABASE]`,
    /// `rediss://...` with TLS (feature `tls`), or `unix:PATH`. Several addresses with commas between them, or
    /// `?cluster=true`, are nodes of a cluster; one that answers is enough.
    ///
    /// The settings of the server are compared with the configuration. A server that may lose more than it may is
    /// refused.
    ///
    /// # Errors
    /// [`Error`] says what is wrong with the address or the server.
    pub async fn open_with(url: &str, mut config: RedisConfig) -> Result<Self> {
        let mut clients = Vec::new();
        for one in opening::addresses(url) {
            let (one, is_cluster) = opening::address(one.trim());
            config.cluster |= is_cluster;
            let client = Client::open(one.as_str());
            clients.push(client.map_err(|source| Error::BadUrl {
                url: opening::without_password(&one),
                source: source.into(),
            })?);
        }
        opening::check_prefix(&config.prefix)?;
        let keys = Keys::new(&config.prefix, config.shards);
        let nodes = Nodes::new(clients, &config, &keys);
        let told = opening::check_in_time(&nodes, &config, &keys).await?;
        let inner = Inner {
            remembered: Remembered::new(config.remembered_sessions, config.remembered_bytes),
            config,
            keys,
            nodes,
            scripts: Scripts::new(),
            changes: Changes::default(),
            turns: Turns::default(),
            gates: Gates::default(),
            acknowledged: Acknowledged::default(),
            clock: ServerClock::new(told),
            unique: (opening::random_text()?, AtomicU64::new(0)),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// The time by which leases, due work and the age of turns are judged.
    pub(crate) fn now(&self) -> Timestamp {
        match &self.inner.config.clock {
            Some(clock) => clock.now(),
            None => self.inner.clock.now(),
        }
    }

    /// The time of the server.
    pub(crate) fn server_time(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// A text that is used once, by this store and all others, also after a server has lost what it knew.
    pub(crate) fn unique(&self) -> String {
        let (store, count) = &self.inner.unique;
        format!("{store}.{:x}", count.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes a transaction, by one command.
    pub(crate) async fn write(&self, transaction: Transaction) -> failure::Result<Written> {
        let shard = transaction.shard;
        let scripts = &self.inner.scripts;
        let script = match transaction.makes_room {
            true => &scripts.write_although_full,
            false => &scripts.write,
        };
        let keys = [self.keys().meta(shard), self.keys().never(shard)];
        let asked = Instant::now();
        let answer = self
            .call(shard, script, &keys, &transaction.arguments())
            .await?;
        let mut answers = Answers::of(answer)?;
        let done = reply::number(answers.next()?)? == 1;
        self.hear(asked, &mut answers)?;
        let last = Sequence(reply::number(answers.next()?)?);
        Ok(if done {
            Written::Done(last)
        } else {
            Written::Changed
        })
    }

    fn hear(&self, asked: Instant, answers: &mut Answers) -> failure::Result<()> {
        let (seconds, micros) = (
            reply::number(answers.next()?)?,
            reply::number(answers.next()?)?,
        );
        let told = opening::instant(seconds, micros);
        self.inner.clock.hear(asked, told);
        Ok(())
    }

    /// Reads as of one instant.
    pub(crate) async fn read(&self, shard: Shard, reads: Reads) -> failure::Result<Answers> {
        let keys = [self.keys().meta(shard), self.keys().never(shard)];
        let answer = self
            .ask(shard, &self.inner.scripts.read, &keys, &reads.0)
            .await?;
        Answers::of(answer)
    }

    /// Calls a script that only reads: once more if the connection was lost.
    pub(crate) async fn ask(
        &self,
        shard: Shard,
        script: &Prepared,
        keys: &[String],
        arguments: &Arguments,
    ) -> failure::Result<Value> {
        match self.call(shard, script, keys, arguments).await {
            Err(failure::Failure::Server(error))
                if failure::is_lost(&error) && !error.is_timeout() =>
            {
                self.call(shard, script, keys, arguments).await
            }
            answer => answer,
        }
    }

    async fn call(
        &self,
        shard: Shard,
        script: &Prepared,
        keys: &[String],
        arguments: &Arguments,
    ) -> failure::Result<Value> {
        self.inner.nodes.call(shard, script, keys, arguments).await
    }
}
