//! A store whose process can be killed before and after each write.

use std::sync::Arc;

use async_trait::async_trait;
use helix_agents_core::message::Message;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState, StopRequest};
use helix_agents_core::store::{
    AnsweredCall, Backlog, Commit, DuePage, DueQuery, Lookup, Page, Paged, PendingQuery, Receipt,
    SessionExtras, SessionKey, SessionQuery, SessionStore, Snapshot, StoreError, WatchStops,
};
use helix_agents_core::stream::{
    Chunk, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits, StreamManager,
    StreamWriter,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::UsageEntry;
use helix_agents_core::{CallId, CheckpointId, RunId, SessionId};
use serde_json::Value;

use super::KillSwitch;

/// A backend with a kill point before each write, and one between it and its acknowledgement.
#[derive(Debug, Clone)]
pub(super) struct KillableStore {
    inner: Backend,
    switch: KillSwitch,
}

impl KillableStore {
    pub(super) fn wrap(inner: &Backend, switch: &KillSwitch) -> Backend {
        Backend::new(Self {
            inner: inner.clone(),
            switch: switch.clone(),
        })
    }

    async fn write<T>(&self, name: &str, write: impl Future<Output = T>) -> T {
        self.switch.pass(&format!("before {name}")).await;
        let done = write.await;
        self.switch
            .pass(&format!("between {name} and its acknowledgement"))
            .await;
        done
    }
}

#[async_trait]
impl SessionStore for KillableStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError> {
        self.write("a commit", self.inner.store.commit(commit))
            .await
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        self.inner.store.load(session).await
    }

    async fn messages(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<Message>, StoreError> {
        self.inner.store.messages(session, page).await
    }

    async fn state_at(
        &self,
        session: SessionKey<'_>,
        version: u64,
    ) -> Result<Arc<Value>, StoreError> {
        self.inner.store.state_at(session, version).await
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        self.inner.store.runs(session, which).await
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        self.inner.store.checkpoints(session, which).await
    }

    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        self.inner.store.answered(session, which).await
    }

    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras, StoreError> {
        self.inner.store.extras(session).await
    }

    async fn usage(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<UsageEntry>, StoreError> {
        self.inner.store.usage(session, page).await
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError> {
        self.inner.store.root_of(session).await
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        self.inner.store.list(query).await
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        self.inner.store.pending(query).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError> {
        self.inner.store.due(query).await
    }

    async fn backlog(&self, at: Timestamp) -> Result<Backlog, StoreError> {
        self.inner.store.backlog(at).await
    }
}

#[async_trait]
impl StreamManager for KillableStore {
    fn limits(&self) -> StreamLimits {
        self.inner.streams.limits()
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        let write = self.inner.streams.append_deltas(writer, chunks);
        self.write("deltas", write).await
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        let write = self.inner.streams.discard_deltas(writer, after, say);
        self.write("a discard", write).await
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        self.inner.streams.read(root, after, limit).await
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        self.inner.streams.info(root).await
    }

    async fn catch_up(&self, root: &SessionId) -> Result<(), StreamError> {
        self.inner.streams.catch_up(root).await
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        self.inner.streams.changed(root, known).await
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.inner.streams.condense(root, up_to).await
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.inner.streams.trim(root, up_to).await
    }
}

#[async_trait]
impl WatchStops for KillableStore {
    async fn stopped(
        &self,
        session: SessionKey<'_>,
        run: &RunId,
    ) -> Result<StopRequest, StoreError> {
        self.inner.stops.stopped(session, run).await
    }
}
