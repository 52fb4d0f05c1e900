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

use crate::changes::Topic;
use crate::reading::{self, List, none, of_session};
use crate::script::Reads;
use crate::store::RedisStore;
use crate::{due, messages, query, states};

fn not_found(session: &SessionId) -> StoreError {
    StoreError::NotFound {
        session: session.clone(),
    }
}

fn page_of<Id>(which: &Lookup<Id>) -> Page {
    match which {
        Lookup::One(_) => Page::ALL,
        Lookup::Page(page) => *page,
    }
}

#[async_trait]
impl SessionStore for RedisStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError> {
        Ok(self.make(commit).await?)
    }

    async fn load(&self, key: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        of_session!(self, key, |session| reading::snapshot(&session).await?.map(Some), else Ok(None))
    }

    async fn messages(
        &self,
        key: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<Message>, StoreError> {
        of_session!(self, key, |session| messages::page(&session, page).await?, else Ok(none(page)))
    }

    async fn state_at(&self, key: SessionKey<'_>, version: u64) -> Result<Arc<Value>, StoreError> {
        let missing = || states::no_version(key.session, version);
        of_session!(self, key, |session| {
            let documents = &session.keys.documents;
            let found = self.stored_state(session.shard, documents, version).await?;
            // Still the same session.
            match session.read(Reads::default()).await? {
                Some(_) => Some(found.ok_or_else(missing)?.into()),
                None => None,
            }
        }, else Err(not_found(key.session)))
    }

    async fn runs(
        &self,
        key: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        of_session!(self, key, |session| {
            let list = List { ids: &session.keys.runs, prefix: "r:", last_first: false };
            reading::listed(&session, list, &which).await?
        }, else Ok(none(page_of(&which))))
    }

    async fn checkpoints(
        &self,
        key: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        of_session!(self, key, |session| {
            let list = List { ids: &session.keys.checkpoints, prefix: "c:", last_first: true };
            reading::listed(&session, list, &which).await?
        }, else Ok(none(page_of(&which))))
    }

    async fn answered(
        &self,
        key: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        of_session!(
            self,
            key,
            |session| reading::answered(&session, &which).await?,
            else Ok(none(page_of(&which)))
        )
    }

    async fn extras(&self, key: SessionKey<'_>) -> Result<SessionExtras, StoreError> {
        of_session!(
            self,
            key,
            |session| reading::extras(&session).await?,
            else Ok(SessionExtras::default())
        )
    }

    async fn usage(
        &self,
        key: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<UsageEntry>, StoreError> {
        of_session!(self, key, |session| reading::usage(&session, page).await?, else Ok(none(page)))
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError> {
        Ok(self.claimed_by(session).await?)
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        Ok(query::list(self, query).await?)
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        Ok(query::pending(self, query).await?)
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError> {
        Ok(due::page(self, query).await?)
    }

    async fn backlog(&self, _: Timestamp) -> Result<Backlog, StoreError> {
        Ok(due::backlog(self).await?)
    }
}

#[async_trait]
impl WatchStops for RedisStore {
    async fn stopped(&self, key: SessionKey<'_>, run: &RunId) -> Result<StopRequest, StoreError> {
        let waiting = self.wait_for(Topic::Stop(key.session.clone()));
        let shard = self.keys().shard(key.root.as_str());
        loop {
            let heard = waiting.hear();
            let place = self.place(shard, key.session).await?;
            let head = place.named(key).ok_or_else(|| not_found(key.session))?;
            let stop = head.header.stop.as_ref();
            if let Some(stop) = stop.filter(|stop| stop.run_id == *run) {
                return Ok(stop.clone());
            }
            waiting.pause(heard).await;
        }
    }
}
