//! A store wrapper that measures durations and counts commits.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState};
use helix_agents_core::store::{
    AnsweredCall, Backlog, Commit, DuePage, DueQuery, Lookup, Page, Paged, PendingQuery, Receipt,
    SessionExtras, SessionKey, SessionQuery, SessionStore, Snapshot, StoreError,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::UsageEntry;
use helix_agents_core::{CallId, CheckpointId, Coded, Message, RunId, SessionId};
use serde_json::Value;

use super::runs::{Counted, Tally};

type Result<T> = std::result::Result<T, StoreError>;

/// A store that forwards every call, and counts and times it.
#[derive(Debug)]
pub(super) struct MeteredStore {
    inner: Arc<dyn SessionStore>,
    counted: Arc<Counted>,
}

impl MeteredStore {
    pub(super) fn new(inner: Arc<dyn SessionStore>, counted: Arc<Counted>) -> Self {
        Self { inner, counted }
    }

    async fn timed<T>(
        &self,
        operation: &'static str,
        asked: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let began = Instant::now();
        let answer = asked.await;
        let failure = answer.as_ref().err().map(Coded::code);
        self.counted
            .store_called(operation, began.elapsed(), failure);
        answer
    }
}

#[async_trait]
impl SessionStore for MeteredStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        let tally = Tally::of(&commit);
        let receipt = self.timed("commit", self.inner.commit(commit)).await?;
        self.counted.committed(&tally);
        Ok(receipt)
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>> {
        self.timed("load", self.inner.load(session)).await
    }

    async fn messages(&self, session: SessionKey<'_>, page: Page) -> Result<Paged<Message>> {
        self.timed("messages", self.inner.messages(session, page))
            .await
    }

    async fn state_at(&self, session: SessionKey<'_>, version: u64) -> Result<Arc<Value>> {
        self.timed("state_at", self.inner.state_at(session, version))
            .await
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>> {
        self.timed("runs", self.inner.runs(session, which)).await
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>> {
        self.timed("checkpoints", self.inner.checkpoints(session, which))
            .await
    }

    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>> {
        self.timed("answered", self.inner.answered(session, which))
            .await
    }

    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras> {
        self.timed("extras", self.inner.extras(session)).await
    }

    async fn usage(&self, session: SessionKey<'_>, page: Page) -> Result<Paged<UsageEntry>> {
        self.timed("usage", self.inner.usage(session, page)).await
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>> {
        self.timed("root_of", self.inner.root_of(session)).await
    }

    async fn find(&self, session: &SessionId) -> Result<Option<Snapshot>> {
        self.timed("find", self.inner.find(session)).await
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>> {
        self.timed("list", self.inner.list(query)).await
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>> {
        self.timed("pending", self.inner.pending(query)).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        self.timed("due", self.inner.due(query)).await
    }

    async fn backlog(&self, at: Timestamp) -> Result<Backlog> {
        self.timed("backlog", self.inner.backlog(at)).await
    }
}
