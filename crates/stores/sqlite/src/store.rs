//! The store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::runtime::Backend;
use rusqlite::Connection;

use crate::change_notifier::{Bells, Listening, Mark};
use crate::config::SqliteConfig;
use crate::error::{Error, Result};
use crate::operation_error::Fail;
use crate::readers::Readers;
use crate::wal::Log;
use crate::write_request::Work;
use crate::writer::Writer;
use crate::{change_poller, connection, process};

/// Sessions, streams and locks in one SQLite file. Clones are the same store.
///
/// Reads from a file happen on threads of the store's own, as many as it has connections that read. A
/// commit that nobody is in the way of happens on the thread that asks for it, and takes as long as the
/// disk needs to make it durable; one that has to wait for somebody waits elsewhere. So a task that
/// reads or writes keeps no other from going on. In memory there is nothing to wait for: everything
/// happens where it is asked for.
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    config: Arc<SqliteConfig>,
    writer: Arc<Writer>,
    /// None in memory, where there is one connection for everything.
    readers: Option<Arc<Readers>>,
    bells: Arc<Bells>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.bells.close();
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
    /// [`Error`] says what is wrong with the path or the file. The file is as it was then.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, SqliteConfig::new()).await
    }

    /// Opens a file in another than the usual way.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub async fn open_with(path: impl AsRef<Path>, config: SqliteConfig) -> Result<Self> {
        let path = path.as_ref();
        let connection = connection::writer(path, &config)?;
        let readers = Arc::new(Readers::open(path, &config)?);
        let store = Self::new(path.to_owned(), config, connection, Some(readers));
        let Inner { bells, writer, .. } = &*store.inner;
        change_poller::start(bells, writer).map_err(|source| Error::Open {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        Ok(store)
    }

    /// Opens what a URL names: `sqlite:PATH`, `sqlite://PATH`, or `sqlite::memory:`.
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

    /// A store in memory, which ends with its last clone.
    ///
    /// # Errors
    /// When there is no memory.
    pub async fn in_memory() -> Result<Self> {
        Self::in_memory_with(SqliteConfig::new()).await
    }

    /// A store in memory in another than the usual way.
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
        let bells = Arc::new(Bells::default());
        let patience = config.busy_timeout;
        let log = match &readers {
            Some(readers) => Log::of(&path, Arc::clone(readers)),
            None => Log::none(),
        };
        let inner = Inner {
            path,
            config: Arc::new(config),
            writer: Writer::new(connection, Arc::clone(&bells), patience, log),
            readers,
            bells,
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

    /// Does something in a transaction that writes. `root` tells who does it, `touched` whose
    /// listeners are told.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        root: Option<&SessionId>,
        touched: Vec<Mark>,
        work: impl Work<T> + 'static,
    ) -> Result<T, Fail> {
        self.inner.writer.write(root, touched, work).await
    }

    /// Reads as of one instant.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Connection) -> Result<T, Fail> + Send + 'static,
    ) -> Result<T, Fail> {
        let Some(readers) = &self.inner.readers else {
            return self.inner.writer.read(read).await;
        };
        let writer = Arc::downgrade(&self.inner.writer);
        let settle = move || {
            if let Some(writer) = writer.upgrade() {
                writer.settle_readers();
            }
        };
        readers.read(read, settle).await
    }

    /// Begins to listen for changes of a session.
    pub(crate) fn listen(&self, session: &SessionId) -> Listening {
        self.inner.bells.listen(session)
    }
}
