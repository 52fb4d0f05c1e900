//! The configuration of a store.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::stream::{DELTA_WINDOW, StreamLimits};
use helix_agents_core::time::Clock;

/// The configuration with which a store is opened.
///
/// ```
/// use std::time::Duration;
/// use helix_agents_store_postgres::PostgresConfig;
///
/// let config = PostgresConfig::new()
///     .schema("support")
///     .connections(32)
///     .keep_deltas(Duration::from_secs(60 * 60));
/// ```
#[derive(Debug, Clone)]
pub struct PostgresConfig {
    pub(crate) schema: String,
    pub(crate) connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) limits: StreamLimits,
    pub(crate) keep_deltas: Option<Duration>,
    pub(crate) remembered: usize,
    pub(crate) migrate: bool,
    pub(crate) prepares: bool,
    pub(crate) notifies: bool,
    pub(crate) listen_url: Option<String>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) outbox: bool,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            schema: "helix".to_owned(),
            connections: 16,
            connect_timeout: Duration::from_secs(4),
            response_timeout: Duration::from_secs(10),
            poll_interval: Duration::from_millis(100),
            limits: StreamLimits::default(),
            keep_deltas: Some(DELTA_WINDOW),
            remembered: 4096,
            migrate: true,
            prepares: true,
            notifies: true,
            listen_url: None,
            clock: None,
            outbox: false,
        }
    }
}

impl PostgresConfig {
    /// The schema `helix`, at most 16 connections, the deltas of a turn kept for 10 minutes after its end, the schema
    /// brought up to date, notifications.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the schema of the tables; `helix` by default. Stores in different schemas share nothing.
    #[must_use]
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Sets the most connections for reads and writes; at least one, 16 by default. Up to two more are used for
    /// notifications.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// Sets how long an operation waits for a connection before it fails as unavailable, and how long opening a store
    /// may take; 4 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long an operation waits for an answer of the server before it fails as unavailable and its connection is
    /// closed; 10 s by default. A write that was not answered may have been made.
    #[must_use]
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// Sets how often a process in which somebody waits looks for changes that no notification told it; every 100 ms
    /// by default. A stop must be noticed within 250 ms, so do not choose more than 200 ms.
    #[must_use]
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Sets the maximum size of a chunk, in bytes; 16 MiB by default. All processes must use the same.
    #[must_use]
    pub fn max_chunk_bytes(mut self, bytes: usize) -> Self {
        self.limits = StreamLimits::new(bytes);
        self
    }

    /// Sets how long the deltas of a turn are kept after its end; 10 minutes by default. After that, readers
    /// get each reply as a whole, made from the messages. They are removed by its
    /// [`Retention`](helix_agents_core::stream::Retention), which a runtime's sweeper calls. Other chunks,
    /// like those of tools, stay with their session.
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

    /// Sets of how many sessions the store remembers the header, so that a commit needs no read; 4096 by default.
    #[must_use]
    pub fn remembered_sessions(mut self, sessions: usize) -> Self {
        self.remembered = sessions;
        self
    }

    /// Whether opening creates the schema or brings it up to date. When it does not, a database with an older schema,
    /// or with none, is refused.
    #[must_use]
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// Whether statements are prepared once for each connection; yes by default. Switch it off behind a pooler that
    /// gives each transaction another connection, such as pgbouncer with `pool_mode = transaction`.
    #[must_use]
    pub fn prepared_statements(mut self, prepares: bool) -> Self {
        self.prepares = prepares;
        self
    }

    /// Whether processes tell each other of changes with `LISTEN` and `NOTIFY`; yes by default. Without, they notice
    /// them when they poll.
    #[must_use]
    pub fn notifications(mut self, notifies: bool) -> Self {
        self.notifies = notifies;
        self
    }

    /// Sets the URL of the connections for notifications, where the other one leads to a pooler: `LISTEN` needs a
    /// connection of its own to the server.
    #[must_use]
    pub fn listen_url(mut self, url: impl Into<String>) -> Self {
        self.listen_url = Some(url.into());
        self
    }

    /// Sets the clock by which leases, due work and the age of chunks are judged. Without one it is that of the
    /// database, which is the same for all processes; give another in tests that move the time.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Leaves the chunks of commits in an outbox, as a part of the commit, for streams that are kept elsewhere:
    /// the store is then an [`Outbox`](helix_agents_core::stream::Outbox), for
    /// [`Backend::streaming_to`](helix_agents_core::runtime::Backend::streaming_to). By itself it shows no streams then.
    /// From then on the schema is refused without an outbox
    /// ([`Error::StreamsElsewhere`](crate::Error::StreamsElsewhere)).
    ///
    /// Streams that such sessions had in this database are not moved: replies are still in the messages, and
    /// sequences go on above those of the old streams.
    ///
    /// ```no_run
    /// use helix_agents_core::runtime::Backend;
    /// use helix_agents_store_postgres::{PostgresConfig, PostgresStore};
    /// # use helix_agents_core::memory::MemoryLog;
    ///
    /// # async fn open() -> Result<Backend, Box<dyn std::error::Error>> {
    /// let config = PostgresConfig::new().with_outbox();
    /// let store = PostgresStore::connect_with("postgres://helix@db/agents", config).await?;
    /// # let streams = MemoryLog::new();
    /// // `streams` is a `RedisStreams` of the crate `helix-agents-store-redis`.
    /// let backend = Backend::from(store.clone()).streaming_to(store, streams);
    /// # Ok(backend)
    /// # }
    /// ```
    #[must_use]
    pub fn with_outbox(mut self) -> Self {
        self.outbox = true;
        self
    }
}
