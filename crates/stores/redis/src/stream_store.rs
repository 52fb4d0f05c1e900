//! [`RedisStreams`]: streams on a Redis server or cluster, of sessions that are stored elsewhere.

use std::fmt;

use async_trait::async_trait;
use helix_agents_core::SessionId;
use helix_agents_core::stream::{
    Chunk, Retention, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits, StreamManager,
    StreamWriter,
};
use helix_agents_core::time::Timestamp;

use crate::config::RedisConfig;
use crate::error::Result;
use crate::store::RedisStore;

/// Streams on a Redis server or cluster, of sessions that are in a store with an outbox. Clones are the same streams.
///
/// Commits and their chunks are as durable as that store. What the server must promise is said with
/// [`RedisConfig::durability`] as for a [`RedisStore`]; where it has lost something, streams begin anew, and
/// readers are told that chunks are missing.
///
/// ```no_run
/// use helix_agents_core::runtime::Backend;
/// use helix_agents_core::stream::Outbox;
/// use helix_agents_store_redis::{Durability, RedisConfig, RedisStreams};
///
/// /// `store` is one like `PostgresStore`, opened with an outbox.
/// async fn backend<S>(store: S) -> Result<Backend, Box<dyn std::error::Error>>
/// where
///     S: Into<Backend> + Outbox + Clone + 'static,
/// {
///     let config = RedisConfig::new().durability(Durability::EverySecond);
///     let streams = RedisStreams::open_with("redis://cache:6379", config).await?;
///     let backend: Backend = store.clone().into();
///     let backend = backend.streaming_to(store, streams.clone()).retained_by(streams.clone());
///     Ok(backend.also_checked_by(streams))
/// }
/// ```
#[derive(Clone)]
pub struct RedisStreams(pub(crate) RedisStore);

impl fmt::Debug for RedisStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStreams").field(&self.0).finish()
    }
}

impl RedisStreams {
    /// Opens streams on a server or cluster, as [`RedisStreams::open_with`] with the default configuration.
    ///
    /// # Errors
    /// The same as for [`RedisStore::open`].
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, RedisConfig::new()).await
    }

    /// Opens streams on the server with this address, as [`RedisStore::open_with`]. A store of sessions on the same
    /// server has another [prefix](RedisConfig::prefix).
    ///
    /// # Errors
    /// The same as for [`RedisStore::open_with`].
    pub async fn open_with(url: &str, mut config: RedisConfig) -> Result<Self> {
        config.streams_only = true;
        Ok(Self(RedisStore::open_with(url, config).await?))
    }
}

#[async_trait]
impl StreamManager for RedisStreams {
    fn limits(&self) -> StreamLimits {
        self.0.limits()
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        self.0.append_deltas(writer, chunks).await
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        self.0.discard_deltas(writer, after, say).await
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        StreamManager::read(&self.0, root, after, limit).await
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        self.0.info(root).await
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        self.0.changed(root, known).await
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.0.condense(root, up_to).await
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.0.trim(root, up_to).await
    }
}

#[async_trait]
impl Retention for RedisStreams {
    /// The window is that of [`RedisConfig::keep_deltas`].
    async fn condense_old_turns(&self, at: Timestamp, limit: usize) -> Result<usize, StreamError> {
        self.0.condense_old_turns(at, limit).await
    }
}
