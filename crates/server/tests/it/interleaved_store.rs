//! A store in which a commit happens just before or after a session is read, and in which callers meet.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState};
use helix_agents_core::store::{
    AnsweredCall, Backlog, Commit, DuePage, DueQuery, Lookup, Page, Paged, PendingQuery, Receipt,
    SessionExtras, SessionKey, SessionQuery, SessionStore, Snapshot, StoreError,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::UsageEntry;
use helix_agents_core::{CallId, CheckpointId, Message, RunId, SessionId};
use serde_json::Value;
use tokio::sync::{Barrier, Semaphore};

/// A memory store in which a commit happens just before or after the next read of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct InterleavedStore {
    inner: MemoryStore,
    before: Arc<Mutex<Option<Commit>>>,
    next: Arc<Mutex<Option<Commit>>>,
    meeting: Counted<Barrier>,
    second_run: Counted<Semaphore>,
}

/// How many callers pass before, or until, something is waited for.
type Counted<T> = Arc<Mutex<Option<(usize, Arc<T>)>>>;

impl InterleavedStore {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets the commit that happens before the next read.
    pub(crate) fn first(&self, commit: Commit) {
        *self.before.lock().unwrap() = Some(commit);
    }

    /// Sets the commit that happens after the next read.
    pub(crate) fn then(&self, commit: Commit) {
        *self.next.lock().unwrap() = Some(commit);
    }

    /// Makes the next reads of sessions, so many of them, wait for each other before any of them returns.
    pub(crate) fn meet(&self, count: usize) {
        *self.meeting.lock().unwrap() = Some((count, Arc::new(Barrier::new(count))));
    }

    /// Makes the second commit from now on that starts a run wait for a permit.
    pub(crate) fn hold_second_run(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.second_run.lock().unwrap() = Some((1, Arc::clone(&gate)));
        gate
    }

    /// Whether the commit after the read has happened.
    pub(crate) fn has_happened(&self) -> bool {
        self.next.lock().unwrap().is_none()
    }
}

impl From<InterleavedStore> for Backend {
    fn from(store: InterleavedStore) -> Self {
        let mut backend = Self::new(store.inner.clone());
        backend.store = Arc::new(store);
        backend
    }
}

type Result<T, E = StoreError> = std::result::Result<T, E>;

#[async_trait]
impl SessionStore for InterleavedStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        let held = match &mut *self.second_run.lock().unwrap() {
            Some((before, gate)) if format!("{commit:?}").contains("StartRun") => {
                let is_second = *before == 0;
                *before = before.wrapping_sub(1);
                is_second.then(|| Arc::clone(gate))
            }
            _ => None,
        };
        if let Some(gate) = held {
            gate.acquire().await.unwrap().forget();
        }
        self.inner.commit(commit).await
    }
    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>> {
        let before = self.before.lock().unwrap().take();
        if let Some(commit) = before {
            self.inner.commit(commit).await?;
        }
        let found = self.inner.load(session).await;
        let meeting = match &mut *self.meeting.lock().unwrap() {
            Some((left, barrier)) if *left > 0 => {
                *left -= 1;
                Some(Arc::clone(barrier))
            }
            _ => None,
        };
        if let Some(barrier) = meeting {
            barrier.wait().await;
        }
        let next = self.next.lock().unwrap().take();
        if let Some(commit) = next {
            self.inner.commit(commit).await?;
        }
        found
    }
    async fn messages(&self, session: SessionKey<'_>, page: Page) -> Result<Paged<Message>> {
        self.inner.messages(session, page).await
    }
    async fn state_at(&self, session: SessionKey<'_>, version: u64) -> Result<Arc<Value>> {
        self.inner.state_at(session, version).await
    }
    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>> {
        self.inner.runs(session, which).await
    }
    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>> {
        self.inner.checkpoints(session, which).await
    }
    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras> {
        self.inner.extras(session).await
    }
    async fn usage(&self, session: SessionKey<'_>, page: Page) -> Result<Paged<UsageEntry>> {
        self.inner.usage(session, page).await
    }
    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>> {
        self.inner.root_of(session).await
    }
    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>> {
        self.inner.list(query).await
    }
    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>> {
        self.inner.pending(query).await
    }
    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>> {
        self.inner.answered(session, which).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        self.inner.due(query).await
    }

    async fn backlog(&self, at: Timestamp) -> Result<Backlog> {
        self.inner.backlog(at).await
    }
}
