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

fn gone<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable {
        backend: "broken",
        source: "the wire is cut at secret.internal".into(),
    })
}

#[async_trait]
impl SessionStore for UnreachableStore {
    async fn commit(&self, _: Commit) -> Result<Receipt, StoreError> {
        gone()
    }
    async fn load(&self, _: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        gone()
    }
    async fn messages(&self, _: SessionKey<'_>, _: Page) -> Result<Paged<Message>, StoreError> {
        gone()
    }
    async fn state_at(&self, _: SessionKey<'_>, _: u64) -> Result<Arc<Value>, StoreError> {
        gone()
    }
    async fn runs(
        &self,
        _: SessionKey<'_>,
        _: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        gone()
    }
    async fn checkpoints(
        &self,
        _: SessionKey<'_>,
        _: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        gone()
    }
    async fn answered(
        &self,
        _: SessionKey<'_>,
        _: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        gone()
    }
    async fn extras(&self, _: SessionKey<'_>) -> Result<SessionExtras, StoreError> {
        gone()
    }
    async fn usage(&self, _: SessionKey<'_>, _: Page) -> Result<Paged<UsageEntry>, StoreError> {
        gone()
    }
    async fn root_of(&self, _: &SessionId) -> Result<Option<SessionId>, StoreError> {
        gone()
    }
    async fn list(&self, _: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        gone()
    }
    async fn pending(&self, _: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        gone()
    }
    async fn due(&self, _: &DueQuery) -> Result<DuePage, StoreError> {
        gone()
    }
    async fn backlog(&self, _: Timestamp) -> Result<Backlog, StoreError> {
        gone()
    }
}
