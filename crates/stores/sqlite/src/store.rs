//! [`SqliteStore`]: opening it, and the way of its reads and writes to the connections.

use std::fmt;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::runtime::Backend;
use helix_agents_core::stream::{Sequence, StoredChunk, StreamInfo};
use rusqlite::Connection;

use crate::change_notifier::{ChangeListener, ChangeNotifier, SessionHash};
use crate::config::SqliteConfig;
use crate::error::{Error, Result};
use crate::operation_error::OperationError;
use crate::readers::Readers;
use crate::shared_reads::{SharedReads, Turn};
use crate::wal::WriteAheadLog;
use crate::write_request::WriteFn;
use crate::writer::Writer;
use crate::{change_poller, connection, process};

/// The longest time for which closing a store waits for its own threads.
const CLOSING: Duration = Duration::from_secs(1);

/// Sessions, streams and locks in one SQLite file. Clones are the same store.
///
/// Reads from a file run on threads of the store, one for each connection that reads. A commit runs on
/// the thread of its caller if the connection that writes is free, and takes as long as the disk needs to
/// make it durable; otherwise it is queued, and no thread of the caller is blocked. In memory there is
/// nothing to wait for, and everything runs on the thread of the caller.
///
/// ```
/// use helix_agents_core::store::SessionStore;
/// use helix_agents_store_sqlite::SqliteStore;
///
/// # helix_agents_testkit::block_on(async {
/// // `SqliteStore::open("helix.db")` keeps them in a file.
/// let store = SqliteStore::in_memory().await?;
/// assert_eq!(store.list(&Default::default()).await?.total, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    config: Arc<SqliteConfig>,
    writer: Arc<Writer>,
    /// `None` in memory, where one connection reads and writes.
    readers: Option<Arc<Readers>>,
    notifier: Arc<ChangeNotifier>,
    shared: StreamReads,
    /// Disconnected when the poller has ended; empty in memory, where there is none.
    poller: OnceLock<Mutex<Receiver<()>>>,
}

/// Reads of streams that are shared by all callers that ask for them at the same time.
#[derive(Debug, Default)]
pub(crate) struct StreamReads {
    pub(crate) infos: SharedReads<SessionId, Option<StreamInfo>>,
    pub(crate) chunks: SharedReads<(SessionId, Sequence, usize), Vec<StoredChunk>>,
}

impl Drop for Inner {
    /// Waits for a read under way and for the poller: the connection that is closed last copies the log
    /// into the file and removes it, and a process that ends first would leave it.
    fn drop(&mut self) {
        self.notifier.close();
        if let Some(readers) = &self.readers {
            readers.close(CLOSING);
        }
        if let Some(poller) = self.poller.take() {
            let poller = poller.into_inner().unwrap_or_else(PoisonError::into_inner);
            // Nothing is sent: the channel is disconnected when the thread has ended.
            let _ = poller.recv_timeout(CLOSING);
        }
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.inner.path)
            .field("config", &self.inner.config)
            .finish_non_exhaustive()
    }
}

impl From<SqliteStore> for Backend {
    fn from(store: SqliteStore) -> Self {
        Self::new(store.clone())
            .held_by(SqliteStore::holder())
            .retained_by(store.clone())
            .checked_by(store)
    }
}

impl SqliteStore {
    /// Opens a file, which is created when it does not exist, and brings its schema up to date.
    ///
    /// # Errors
    /// [`Error`] describes the problem with the path or the file. The file is not changed.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, SqliteConfig::new()).await
    }

    /// Opens a file with this configuration.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub async fn open_with(path: impl AsRef<Path>, config: SqliteConfig) -> Result<Self> {
        let path = path.as_ref();
        let connection = connection::writer(path, &config)?;
        let readers = Arc::new(Readers::open(path, &config)?);
        let store = Self::new(path.to_owned(), config, connection, Some(readers));
        let Inner {
            notifier, writer, ..
        } = &*store.inner;
        let poller = change_poller::start(notifier, writer).map_err(|source| Error::Open {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        store.inner.poller.get_or_init(|| Mutex::new(poller));
        Ok(store)
    }

    /// Opens the store that a URL names: `sqlite:PATH`, `sqlite://PATH`, or `sqlite::memory:`.
    ///
    /// # Errors
    /// [`Error::BadUrl`], and as [`SqliteStore::open`].
    pub async fn from_url(url: &str) -> Result<Self> {
        let path = url.strip_prefix("sqlite:").map(|rest| {
            // `sqlite:///abs` and `sqlite://rel` are how others write it.
            rest.strip_prefix("//").unwrap_or(rest)
        });
        match path {
            Some(":memory:") => Self::in_memory().await,
            Some(path) if !path.is_empty() => Self::open(path).await,
            _ => Err(Error::BadUrl {
                url: url.to_owned(),
            }),
        }
    }

    /// Makes a store in memory. Its content is gone when the last clone is dropped.
    ///
    /// # Errors
    /// When there is no memory.
    pub async fn in_memory() -> Result<Self> {
        Self::in_memory_with(SqliteConfig::new()).await
    }

    /// Makes a store in memory with this configuration.
    ///
    /// # Errors
    /// When there is no memory.
    pub async fn in_memory_with(config: SqliteConfig) -> Result<Self> {
        let connection = connection::memory(&config)?;
        Ok(Self::new(":memory:".into(), config, connection, None))
    }

    fn new(
        path: PathBuf,
        config: SqliteConfig,
        connection: Connection,
        readers: Option<Arc<Readers>>,
    ) -> Self {
        let notifier = Arc::new(ChangeNotifier::default());
        let patience = config.busy_timeout;
        let log = match &readers {
            Some(readers) => WriteAheadLog::of(&path, Arc::clone(readers)),
            None => WriteAheadLog::none(),
        };
        let inner = Inner {
            path,
            config: Arc::new(config),
            writer: Writer::new(connection, Arc::clone(&notifier), patience, log),
            readers,
            notifier,
            shared: StreamReads::default(),
            poller: OnceLock::new(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The name under which this process takes locks; runtimes take leases under it, each with `:` and
    /// a number of its own. When the process has ended, other processes on this host see that at
    /// once, and need not wait until its leases lapse.
    #[must_use]
    pub fn holder() -> &'static str {
        process::holder()
    }

    pub(crate) fn config(&self) -> &Arc<SqliteConfig> {
        &self.inner.config
    }

    /// Runs `work` in a transaction that writes, for `root`, and notifies the listeners of
    /// `changed_sessions`.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        root: Option<&SessionId>,
        changed_sessions: Vec<SessionHash>,
        work: impl WriteFn<T> + 'static,
    ) -> Result<T, OperationError> {
        self.inner.writer.write(root, changed_sessions, work).await
    }

    /// Reads as of one instant. The function may be run on another thread.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Connection) -> Result<T, OperationError> + Send + 'static,
    ) -> Result<T, OperationError> {
        let Some(readers) = &self.inner.readers else {
            return self.inner.writer.read(read).await;
        };
        let writer = Arc::downgrade(&self.inner.writer);
        let after = move || {
            if let Some(writer) = writer.upgrade() {
                writer.release_readers();
            }
        };
        readers.read(read, after).await
    }

    /// The same read, made once for all callers that ask for it before it begins.
    pub(crate) async fn read_shared<K, T>(
        &self,
        reads: impl Fn(&StreamReads) -> &SharedReads<K, T>,
        key: K,
        read: impl Fn(&Connection) -> Result<T, OperationError> + Clone + Send + 'static,
    ) -> Result<T, OperationError>
    where
        K: Clone + Eq + Hash + Send + 'static,
        T: Clone + Send + 'static,
    {
        // In memory a read does not wait, and ends before another caller could share it.
        if self.inner.readers.is_none() {
            return self.read(read).await;
        }
        loop {
            match reads(&self.inner.shared).ask(&key) {
                Turn::Lead(leading) => return self.read(leading.sharing(read.clone())).await,
                Turn::Follow(answer) => {
                    if let Some(found) = answer.await? {
                        return Ok(found);
                    }
                }
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn readers(&self) -> Option<&Readers> {
        self.inner.readers.as_deref()
    }

    /// Adds a listener for changes of a session, by this process or another.
    pub(crate) fn listen(&self, session: SessionHash) -> ChangeListener {
        self.inner.notifier.listen(session)
    }
}
