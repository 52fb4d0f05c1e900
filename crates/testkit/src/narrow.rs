//! Streams with a small limit of chunk size.

use std::sync::Arc;

use async_trait::async_trait;
use helix_agents_core::SessionId;
use helix_agents_core::runtime::Backend;
use helix_agents_core::stream::{
    Chunk, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits, StreamManager,
    StreamWriter,
};

/// Streams with a small limit of chunk size, so that a test of large chunks need not move
/// megabytes.
///
/// ```
/// # use helix_agents_core::memory::MemoryStore;
/// # use helix_agents_core::stream::StreamManager;
/// # use helix_agents_testkit::NarrowStreams;
/// let backend = NarrowStreams::over(MemoryStore::new(), 4096);
/// assert_eq!(backend.streams.limits().max_chunk_bytes, 4096);
/// ```
#[derive(Debug)]
pub struct NarrowStreams {
    inner: Arc<dyn StreamManager>,
    limits: StreamLimits,
}

impl NarrowStreams {
    /// A backend whose streams accept chunks of at most this many bytes.
    #[must_use]
    pub fn over(backend: impl Into<Backend>, max_chunk_bytes: usize) -> Backend {
        let mut backend = backend.into();
        backend.streams = Arc::new(Self {
            inner: backend.streams,
            limits: StreamLimits::new(max_chunk_bytes),
        });
        backend
    }
}

#[async_trait]
impl StreamManager for NarrowStreams {
    fn limits(&self) -> StreamLimits {
        self.limits
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        self.limits.check(&chunks)?;
        self.inner.append_deltas(writer, chunks).await
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        self.inner.discard_deltas(writer, after, say).await
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        self.inner.read(root, after, limit).await
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        self.inner.info(root).await
    }

    async fn catch_up(&self, root: &SessionId) -> Result<(), StreamError> {
        self.inner.catch_up(root).await
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        self.inner.changed(root, known).await
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.inner.condense(root, up_to).await
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.inner.trim(root, up_to).await
    }
}
