//! Streams that now and then cannot be reached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use helix_agents_core::SessionId;
use helix_agents_core::store::StoreError;
use helix_agents_core::stream::{
    Chunk, OutboxEntry, OutboxPosition, Sequence, StoredChunk, StreamError, StreamInfo,
    StreamLimits, StreamLog, StreamManager, StreamRepair, StreamWriter,
};

/// Streams beside a store that refuse every third relay of a root, as if they could not be reached. The next one is
/// taken, and what was relayed is relayed once more.
///
/// ```
/// use helix_agents_core::memory::{MemoryLog, MemoryStore};
/// use helix_agents_core::runtime::Backend;
/// use helix_agents_testkit::UnsteadyLog;
///
/// let store = MemoryStore::new().with_outbox();
/// let log = UnsteadyLog::new(MemoryLog::new());
/// let backend = Backend::from(store.clone()).streaming_to(store, log);
/// ```
#[derive(Debug, Clone)]
pub struct UnsteadyLog<L> {
    log: L,
    relays: Arc<Mutex<HashMap<SessionId, usize>>>,
}

impl<L: StreamLog> UnsteadyLog<L> {
    /// Keeps streams in this log.
    pub fn new(log: L) -> Self {
        let relays = Arc::default();
        Self { log, relays }
    }

    /// Whether the next relay of a root is refused.
    fn refuses(&self, root: &SessionId) -> bool {
        let mut relays = self.relays.lock().unwrap_or_else(PoisonError::into_inner);
        let count = relays.entry(root.clone()).or_default();
        *count += 1;
        count.is_multiple_of(3)
    }
}

#[async_trait]
impl<L: StreamLog> StreamManager for UnsteadyLog<L> {
    fn limits(&self) -> StreamLimits {
        self.log.limits()
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        self.log.append_deltas(writer, chunks).await
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        self.log.discard_deltas(writer, after, say).await
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        self.log.read(root, after, limit).await
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        self.log.info(root).await
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        self.log.changed(root, known).await
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.log.condense(root, up_to).await
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.log.trim(root, up_to).await
    }
}

#[async_trait]
impl<L: StreamLog> StreamLog for UnsteadyLog<L> {
    async fn relay(
        &self,
        root: &SessionId,
        entries: &[(u64, OutboxEntry)],
    ) -> Result<Option<Sequence>, StreamError> {
        if self.refuses(root) {
            return Err(StoreError::Unavailable {
                backend: "unsteady",
                source: "it cannot be reached".into(),
            }
            .into());
        }
        // What was relayed before is relayed once more.
        self.log.relay(root, entries).await?;
        self.log.relay(root, entries).await
    }

    async fn position(
        &self,
        root: &SessionId,
        number: u64,
    ) -> Result<Option<Sequence>, StreamError> {
        self.log.position(root, number).await
    }

    async fn seen(&self, root: &SessionId) -> Result<Option<OutboxPosition>, StreamError> {
        self.log.seen(root).await
    }

    async fn repair(
        &self,
        root: &SessionId,
        seen: Option<OutboxPosition>,
        repair: Option<&StreamRepair>,
    ) -> Result<bool, StreamError> {
        self.log.repair(root, seen, repair).await
    }

    async fn changed_or_quiet(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<bool, StreamError> {
        self.log.changed_or_quiet(root, known).await
    }
}
