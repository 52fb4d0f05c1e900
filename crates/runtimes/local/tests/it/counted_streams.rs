//! Streams that count how often they are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use helix_agents_core::SessionId;
use helix_agents_core::runtime::Backend;
use helix_agents_core::stream::{
    Chunk, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits, StreamManager,
    StreamWriter,
};

#[derive(Debug)]
struct CountedStreams {
    inner: Arc<dyn StreamManager>,
    reads: Arc<AtomicUsize>,
}

/// Wraps a backend in streams whose reads are counted.
pub(crate) fn counted_streams(mut backend: Backend) -> (Backend, Arc<AtomicUsize>) {
    let reads = Arc::new(AtomicUsize::new(0));
    backend.streams = Arc::new(CountedStreams {
        inner: backend.streams,
        reads: Arc::clone(&reads),
    });
    (backend, reads)
}

#[async_trait]
impl StreamManager for CountedStreams {
    fn limits(&self) -> StreamLimits {
        self.inner.limits()
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
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
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.read(root, after, limit).await
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        self.inner.info(root).await
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
