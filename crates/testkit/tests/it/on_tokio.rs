//! Random schedules play a store that needs a tokio runtime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::message::Message;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState};
use helix_agents_core::store::{
    AnsweredCall, Backlog, Commit, DuePage, DueQuery, Lookup, Page, Paged, PendingQuery, Receipt,
    SessionExtras, SessionKey, SessionQuery, SessionStore, Snapshot, StoreError,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::UsageEntry;
use helix_agents_core::{CallId, CheckpointId, RunId, SessionId};
use helix_agents_testkit::crash::{Hosting, Schedules};
use serde_json::Value;
use tokio::task::spawn_blocking;

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// A store in memory, each of whose calls waits for a thread of the runtime first.
#[derive(Debug)]
struct OnTokio(MemoryStore);

impl OnTokio {
    async fn inner(&self) -> &MemoryStore {
        spawn_blocking(|| ()).await.unwrap();
        &self.0
    }
}

#[async_trait]
impl SessionStore for OnTokio {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        self.inner().await.commit(commit).await
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>> {
        self.inner().await.load(session).await
    }

    async fn messages(&self, session: SessionKey<'_>, page: Page) -> Result<Paged<Message>> {
        self.inner().await.messages(session, page).await
    }

    async fn state_at(&self, session: SessionKey<'_>, version: u64) -> Result<Arc<Value>> {
        self.inner().await.state_at(session, version).await
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>> {
        self.inner().await.runs(session, which).await
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>> {
        self.inner().await.checkpoints(session, which).await
    }

    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>> {
        self.inner().await.answered(session, which).await
    }

    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras> {
        self.inner().await.extras(session).await
    }

    async fn usage(&self, session: SessionKey<'_>, page: Page) -> Result<Paged<UsageEntry>> {
        self.inner().await.usage(session, page).await
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>> {
        self.inner().await.root_of(session).await
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>> {
        self.inner().await.list(query).await
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>> {
        self.inner().await.pending(query).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        self.inner().await.due(query).await
    }

    async fn backlog(&self, at: Timestamp) -> Result<Backlog> {
        self.inner().await.backlog(at).await
    }
}

async fn store() -> Backend {
    let store = MemoryStore::new();
    let mut backend = Backend::from(store.clone());
    backend.store = Arc::new(OnTokio(store));
    backend
}

#[test]
fn schedules_play_a_store_on_the_runtime_that_was_entered() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap();
    let _entered = runtime.enter();
    for hosting in [Hosting::Plain, Hosting::Crowded] {
        Schedules::new(hosting).check("on tokio", 40, store);
    }
}

#[test]
fn without_a_runtime_such_a_store_panics() {
    let play = || Schedules::new(Hosting::Plain).play(1..=1, store);
    assert!(catch_unwind(AssertUnwindSafe(play)).is_err());
}
