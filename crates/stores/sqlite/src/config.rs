//! The configuration of a store.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use helix_agents_core::stream::DELTA_WINDOW;
use helix_agents_core::time::{Clock, Timestamp};

/// The durability of a commit: which failures it survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Synchronous {
    /// A commit survives the end of the process. A loss of power may take the last commits with it,
    /// and never damages the file.
    Normal,
    /// A commit survives a loss of power.
    #[default]
    Full,
    /// As `Full`; the folder of the file is synced, too.
    Extra,
}

impl Synchronous {
    pub(crate) fn pragma(self) -> &'static str {
        match self {
            Self::Normal => "NORMAL",
            Self::Full => "FULL",
            Self::Extra => "EXTRA",
        }
    }
}

/// The configuration with which a store is opened.
///
/// ```
/// use std::time::Duration;
/// use helix_agents_store_sqlite::{SqliteConfig, Synchronous};
///
/// let config = SqliteConfig::new()
///     .synchronous(Synchronous::Normal)
///     .keep_deltas(Duration::from_secs(60 * 60));
/// ```
#[derive(Debug, Clone)]
pub struct SqliteConfig {
    pub(crate) synchronous: Synchronous,
    pub(crate) busy_timeout: Duration,
    pub(crate) readers: usize,
    pub(crate) keep_deltas: Option<Duration>,
    pub(crate) migrate: bool,
    pub(crate) max_pages: Option<u32>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
}

impl Default for SqliteConfig {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::Full,
            busy_timeout: Duration::from_secs(5),
            readers: 4,
            keep_deltas: Some(DELTA_WINDOW),
            migrate: true,
            max_pages: None,
            clock: None,
        }
    }
}

impl SqliteConfig {
    /// Full durability, four reader connections, the deltas of a turn kept for 10 minutes after its end, the
    /// schema brought up to date.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the durability of a commit. All processes that use a file should use the same setting.
    #[must_use]
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Sets how long a write waits for another process that writes, before it fails as unavailable; 5 s by
    /// default.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Sets the number of connections that read, and so the number of reads at once; at least one, four by
    /// default.
    #[must_use]
    pub fn readers(mut self, connections: usize) -> Self {
        self.readers = connections.max(1);
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

    /// Whether opening brings the schema up to date. When it does not, a file with an older schema,
    /// a new one included, is refused.
    #[must_use]
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// The most pages of 4 KiB that the file may have. Commits that need more fail as on a full
    /// disk.
    #[must_use]
    pub fn max_pages(mut self, pages: u32) -> Self {
        self.max_pages = Some(pages);
        self
    }

    /// The clock by which leases, due work and the age of chunks are judged. Without one it is the
    /// wall clock of this host, which is the same for all processes that use the file; give another
    /// in tests that move the time.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The time by which this store judges leases, due work and the age of chunks.
    pub(crate) fn now(&self) -> Timestamp {
        if let Some(clock) = &self.clock {
            return clock.now();
        }
        let date = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = date.unwrap_or_default().as_millis();
        Timestamp::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }
}
