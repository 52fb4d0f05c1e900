//! The configuration of a store.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::stream::{DELTA_WINDOW, StreamLimits};
use helix_agents_core::time::Clock;

/// What a server must promise of a commit that it has acknowledged.
///
/// Opening compares it with the settings of the server and refuses one that promises less. A server with replicas
/// copies commits to them afterwards: a failover to one may lose the last acknowledged commits, whatever is chosen
/// here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// Any server will do. A commit may be lost when the server ends.
    Memory,
    /// A commit survives the end of the server. A loss of power may take the commits of the last second or two:
    /// `appendonly yes` and `appendfsync everysec`.
    EverySecond,
    /// A commit survives a loss of power: `appendonly yes` and `appendfsync always`.
    #[default]
    Always,
}

/// The configuration with which a store is opened, or [`RedisStreams`](crate::RedisStreams) for sessions that are
/// stored elsewhere.
///
/// ```
/// use std::time::Duration;
/// use helix_agents_store_redis::{Durability, RedisConfig};
///
/// let config = RedisConfig::new()
///     .prefix("shop")
///     .durability(Durability::EverySecond)
///     .connect_timeout(Duration::from_secs(2));
/// ```
#[derive(Debug, Clone)]
pub struct RedisConfig {
    pub(crate) prefix: String,
    pub(crate) shards: u16,
    pub(crate) durability: Durability,
    pub(crate) trusts: bool,
    pub(crate) cluster: bool,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) limits: StreamLimits,
    pub(crate) keep_deltas: Option<Duration>,
    pub(crate) remembered_sessions: usize,
    pub(crate) remembered_bytes: usize,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// Whether sessions are stored elsewhere.
    pub(crate) streams_only: bool,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            prefix: "helix".to_owned(),
            shards: 64,
            durability: Durability::default(),
            trusts: false,
            cluster: false,
            connect_timeout: Duration::from_secs(4),
            response_timeout: Duration::from_secs(10),
            limits: StreamLimits::default(),
            keep_deltas: Some(DELTA_WINDOW),
            remembered_sessions: 4096,
            remembered_bytes: 16 * 1024 * 1024,
            clock: None,
            streams_only: false,
        }
    }
}

impl RedisConfig {
    /// Every acknowledged commit on the disk of the server, keys that begin with `{helix:`, the deltas of a turn
    /// kept for 10 minutes after its end.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the beginning of all keys, `helix` by default. Stores with different prefixes share nothing.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the number of parts into which the store is divided, 64 by default; at least one. A cluster distributes
    /// them over its nodes. It cannot be changed later.
    #[must_use]
    pub fn shards(mut self, shards: u16) -> Self {
        self.shards = shards.max(1);
        self
    }

    /// Sets what the server must promise of a commit, [`Durability::Always`] by default.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Opens a server that does not tell its settings, as managed ones do. What it promises, and that it evicts
    /// nothing (`maxmemory-policy noeviction`), is then up to whoever runs it.
    #[must_use]
    pub fn trust_server(mut self) -> Self {
        self.trusts = true;
        self
    }

    /// Opens a cluster. So does an address with several nodes, or with `cluster=true`.
    #[must_use]
    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self
    }

    /// Sets how long connecting to a server may take, 4 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long an answer of the server may take, 10 s by default. A commit without an answer may have been
    /// made.
    #[must_use]
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// Sets the limits of streams, chunks of 16 MiB by default.
    #[must_use]
    pub fn stream_limits(mut self, limits: StreamLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long the deltas of a turn are kept after its end; 10 minutes by default. After that, readers get
    /// each reply as a whole, made from the messages.
    #[must_use]
    pub fn keep_deltas(mut self, window: Duration) -> Self {
        self.keep_deltas = Some(window);
        self
    }

    /// Keeps the deltas of past turns as long as their session.
    #[must_use]
    pub fn keep_all_deltas(mut self) -> Self {
        self.keep_deltas = None;
        self
    }

    /// Sets how many sessions, and about how many bytes of them, are remembered to judge commits without reading
    /// first; 4096 and 16 MiB by default.
    #[must_use]
    pub fn remember(mut self, sessions: usize, bytes: usize) -> Self {
        self.remembered_sessions = sessions;
        self.remembered_bytes = bytes;
        self
    }

    /// Sets the clock by which leases, due work and the age of turns are judged. Without one it is the clock of
    /// the server; give another in tests that move the time.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }
}
