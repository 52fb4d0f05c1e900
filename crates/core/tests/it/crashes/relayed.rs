//! A store whose streams are elsewhere, and now and then cannot be reached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use helix_agents_core::SessionId;
use helix_agents_core::memory::{MemoryLog, MemoryStore};
use helix_agents_core::runtime::Backend;
use helix_agents_core::store::StoreError;
use helix_agents_core::stream::{
    Chunk, OutboxEntry, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits, StreamLog,
    StreamManager, StreamWriter,
};
use helix_agents_testkit::crash::{Hosting, Schedules};

/// Streams that refuse every third relay of a root. The next one is taken.
#[derive(Debug, Clone, Default)]
struct Unsteady {
    log: MemoryLog,
    relays: Arc<Mutex<HashMap<SessionId, usize>>>,
}

#[async_trait]
impl StreamManager for Unsteady {
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
impl StreamLog for Unsteady {
    async fn relay(
        &self,
        root: &SessionId,
        entries: &[(u64, OutboxEntry)],
    ) -> Result<(), StreamError> {
        let count = {
            let mut relays = self.relays.lock().unwrap();
            let count = relays.entry(root.clone()).or_default();
            *count += 1;
            *count
        };
        if count % 3 == 0 {
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
}

async fn store() -> Backend {
    let store = MemoryStore::new().with_outbox();
    Backend::from(store.clone()).streaming_to(store, Unsteady::default())
}

mod amnesiac {
    use helix_agents_testkit::AmnesiacHost;

    helix_agents_testkit::crash_tests!(AmnesiacHost, super::store);
}

/// proves in part: STR-05
#[test]
fn random_schedules_keep_all_guarantees() {
    for hosting in [Hosting::Amnesiac, Hosting::CrowdedUntold] {
        Schedules::new(hosting).check("memory and streams elsewhere", 100, store);
    }
}
