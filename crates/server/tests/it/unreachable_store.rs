//! A store that cannot be reached.

use std::sync::Arc;

use async_trait::async_trait;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState};
use helix_agents_core::store::{
    AnsweredCall, Backlog, Commit, DuePage, DueQuery, Lookup, Page, Paged, PendingQuery, Receipt,
    SessionExtras, SessionKey, SessionQuery, SessionStore, Snapshot, StoreError,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::UsageEntry;
use helix_agents_core::{CallId, CheckpointId, Message, RunId, SessionId};
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct UnreachableStore;

fn unavailable<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable {
        backend: "broken",
        source: "the wire is cut at secret.internal".into(),
    })
}

#[async_trait]
impl SessionStore for UnreachableStore {
    async fn commit(&self, _: Commit) -> Result<Receipt, StoreError> {
        unavailable()
    }
    async fn load(&self, _: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        unavailable()
    }
    async fn messages(&self, _: SessionKey<'_>, _: Page) -> Result<Paged<Message>, StoreError> {
        unavailable()
    }
    async fn state_at(&self, _: SessionKey<'_>, _: u64) -> Result<Arc<Value>, StoreError> {
        unavailable()
    }
    async fn runs(
        &self,
        _: SessionKey<'_>,
        _: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        unavailable()
    }
    async fn checkpoints(
        &self,
        _: SessionKey<'_>,
        _: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        unavailable()
    }
    async fn answered(
        &self,
        _: SessionKey<'_>,
        _: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        unavailable()
    }
    async fn extras(&self, _: SessionKey<'_>) -> Result<SessionExtras, StoreError> {
        unavailable()
    }
    async fn usage(&self, _: SessionKey<'_>, _: Page) -> Result<Paged<UsageEntry>, StoreError> {
        unavailable()
    }
    async fn root_of(&self, _: &SessionId) -> Result<Option<SessionId>, StoreError> {
        unavailable()
    }
    async fn list(&self, _: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        unavailable()
    }
    async fn pending(&self, _: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        unavailable()
    }
    async fn due(&self, _: &DueQuery) -> Result<DuePage, StoreError> {
        unavailable()
    }
    async fn backlog(&self, _: Timestamp) -> Result<Backlog, StoreError> {
        unavailable()
    }
}
