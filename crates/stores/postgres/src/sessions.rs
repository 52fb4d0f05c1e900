//! [`SessionStore`] and [`WatchStops`] for the store.

use std::sync::Arc;

use async_trait::async_trait;
use helix_agents_core::message::Message;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState, StopRequest};
use helix_agents_core::store::{
    AnsweredCall, Backlog, Commit, DuePage, DueQuery, Lookup, Page, Paged, PendingQuery, Receipt,
    SessionExtras, SessionKey, SessionQuery, SessionStore, Snapshot, StoreError, WatchStops,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::UsageEntry;
use helix_agents_core::{CallId, CheckpointId, RunId, SessionId};
use serde_json::Value;

use crate::listeners::Subject;
use crate::store::PostgresStore;
use crate::{commit, due, headers, load, pages, query};

/// An owned [`SessionKey`], for an operation that outlives its caller.
struct Place {
    root: SessionId,
    session: SessionId,
}

impl Place {
    fn of(key: SessionKey<'_>) -> Self {
        Self {
            root: key.root.clone(),
            session: key.session.clone(),
        }
    }

    fn key(&self) -> SessionKey<'_> {
        SessionKey::new(&self.root, &self.session)
    }
}

#[async_trait]
impl SessionStore for PostgresStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError> {
        let made = self.run(async move |on| commit::commit(&on, commit).await);
        Ok(made.await?)
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        let place = Place::of(session);
        let loaded = self.run(async move |on| load::load(&on, place.key()).await);
        Ok(loaded.await?)
    }

    async fn messages(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<Message>, StoreError> {
        let place = Place::of(session);
        let read =
            self.run(async move |on| pages::of_rows(&on, "message", place.key(), page).await);
        Ok(read.await?)
    }

    async fn state_at(
        &self,
        session: SessionKey<'_>,
        version: u64,
    ) -> Result<Arc<Value>, StoreError> {
        let place = Place::of(session);
        let read = self.run(async move |on| pages::state_at(&on, place.key(), version).await);
        Ok(read.await?)
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        let place = Place::of(session);
        let read = self.run(async move |on| {
            pages::documents(&on, pages::RUNS, place.key(), which, pages::document).await
        });
        Ok(read.await?)
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        let place = Place::of(session);
        let read = self.run(async move |on| {
            pages::documents(&on, pages::CHECKPOINTS, place.key(), which, pages::document).await
        });
        Ok(read.await?)
    }

    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        let place = Place::of(session);
        let read = self.run(async move |on| {
            let parse = pages::answered_call;
            pages::documents(&on, pages::ANSWERED, place.key(), which, parse).await
        });
        Ok(read.await?)
    }

    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras, StoreError> {
        let place = Place::of(session);
        let read = self.run(async move |on| pages::extras(&on, place.key()).await);
        Ok(read.await?)
    }

    async fn usage(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<UsageEntry>, StoreError> {
        let place = Place::of(session);
        let read = self.run(async move |on| pages::of_rows(&on, "usage", place.key(), page).await);
        Ok(read.await?)
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError> {
        let session = session.clone();
        let found = self.run(async move |on| headers::root_of(&on, &session).await);
        Ok(found.await?)
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        let query = query.clone();
        let listed = self.run(async move |on| query::list(&on, &query).await);
        Ok(listed.await?)
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        let query = query.clone();
        let listed = self.run(async move |on| query::pending(&on, &query).await);
        Ok(listed.await?)
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError> {
        let query = query.clone();
        let found = self.run(async move |on| due::page(&on, &query, on.now().await?).await);
        Ok(found.await?)
    }

    async fn backlog(&self, _: Timestamp) -> Result<Backlog, StoreError> {
        let counted = self.run(async move |on| due::backlog(&on, on.now().await?).await);
        Ok(counted.await?)
    }
}

#[async_trait]
impl WatchStops for PostgresStore {
    async fn stopped(
        &self,
        session: SessionKey<'_>,
        run: &RunId,
    ) -> Result<StopRequest, StoreError> {
        let listener = self.listen(Subject::Stops, session.session);
        loop {
            let changed = listener.changed();
            let place = Place::of(session);
            let read = self.run(async move |on| headers::find(&on, place.key()).await);
            let header = read.await?.ok_or_else(|| StoreError::NotFound {
                session: session.session.clone(),
            })?;
            if let Some(stop) = header.stop.filter(|stop| stop.run_id == *run) {
                return Ok(stop);
            }
            changed.await;
        }
    }
}
