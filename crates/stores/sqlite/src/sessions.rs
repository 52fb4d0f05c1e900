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
use rusqlite::Connection;
use serde_json::Value;

use crate::change_notifier::SessionHash;
use crate::operation_error::OperationError;
use crate::store::SqliteStore;
use crate::write_connection::WriteConnection;
use crate::write_request::TransactionKind;
use crate::{
    answered_calls, backlog, checkpoints, commit, due, extras, headers, messages, open_steps,
    pending, query, runs, states, usage,
};

#[async_trait]
impl SessionStore for SqliteStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError> {
        let root = commit.root.clone();
        let sessions = commit.sessions();
        let mut changed_sessions: Vec<SessionHash> = sessions.iter().map(SessionHash::of).collect();
        if !sessions.contains(&root) {
            changed_sessions.push(SessionHash::of(&root));
        }
        changed_sessions.extend(commit.stopped_sessions().map(SessionHash::of_stops));
        let config = Arc::clone(self.config());
        let mut commit = Some(commit);
        let work = move |db: &WriteConnection, attempt| {
            let commit = match attempt {
                TransactionKind::Own => commit.take(),
                TransactionKind::Shared => commit.clone(),
            };
            let commit =
                commit.ok_or_else(|| OperationError::internal("a commit was made twice"))?;
            commit::commit(db, &config, &sessions, commit)
        };
        Ok(self.write(Some(&root), changed_sessions, work).await?)
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        let place = Place::of(session);
        let read = move |conn: &Connection| load(conn, place.key());
        Ok(self.read(read).await?)
    }

    async fn messages(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<Message>, StoreError> {
        let place = Place::of(session);
        let read = move |conn: &Connection| messages::page(conn, place.key(), page);
        Ok(self.read(read).await?)
    }

    async fn state_at(
        &self,
        session: SessionKey<'_>,
        version: u64,
    ) -> Result<Arc<Value>, StoreError> {
        let place = Place::of(session);
        let read = move |conn: &Connection| match headers::owner(conn, place.key())? {
            Some(owner) => states::at(conn, owner, version),
            None => Err(not_found(&place.session).into()),
        };
        let found = self.read(read).await?;
        found.ok_or_else(|| states::no_version(session.session, version))
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        let place = Place::of(session);
        let read = move |conn: &Connection| runs::lookup(conn, place.key(), which.clone());
        Ok(self.read(read).await?)
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        let place = Place::of(session);
        let read = move |conn: &Connection| checkpoints::find(conn, place.key(), which.clone());
        Ok(self.read(read).await?)
    }

    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        let place = Place::of(session);
        let read =
            move |conn: &Connection| answered_calls::lookup(conn, place.key(), which.clone());
        Ok(self.read(read).await?)
    }

    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras, StoreError> {
        let place = Place::of(session);
        let read = move |conn: &Connection| extras::read(conn, place.key());
        Ok(self.read(read).await?)
    }

    async fn usage(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<UsageEntry>, StoreError> {
        let place = Place::of(session);
        let read = move |conn: &Connection| usage::page(conn, place.key(), page);
        Ok(self.read(read).await?)
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError> {
        let session = session.clone();
        let read = move |conn: &Connection| headers::root_of(conn, &session);
        Ok(self.read(read).await?)
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        let query = query.clone();
        let read = move |conn: &Connection| query::list(conn, &query);
        Ok(self.read(read).await?)
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        let query = query.clone();
        let read = move |conn: &Connection| query::pending(conn, &query);
        Ok(self.read(read).await?)
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError> {
        let now = self.config().now();
        let query = query.clone();
        let read = move |conn: &Connection| due::page(conn, &query, now);
        Ok(self.read(read).await?)
    }

    async fn backlog(&self, _: Timestamp) -> Result<Backlog, StoreError> {
        let now = self.config().now();
        Ok(self
            .read(move |conn: &Connection| backlog::count(conn, now))
            .await?)
    }
}

#[async_trait]
impl WatchStops for SqliteStore {
    async fn stopped(
        &self,
        session: SessionKey<'_>,
        run: &RunId,
    ) -> Result<StopRequest, StoreError> {
        let listener = self.listen(SessionHash::of_stops(session.session));
        loop {
            let changed = listener.changed();
            let place = Place::of(session);
            let read = move |conn: &Connection| headers::find_under(conn, place.key());
            let found = self.read(read).await?;
            let found = found.ok_or_else(|| not_found(session.session))?;
            if let Some(stop) = &found.header.stop
                && stop.run_id == *run
            {
                return Ok(stop.clone());
            }
            changed.await;
        }
    }
}

/// An owned [`SessionKey`], for a read on another thread.
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

fn not_found(session: &SessionId) -> StoreError {
    StoreError::NotFound {
        session: session.clone(),
    }
}

fn load(conn: &Connection, session: SessionKey<'_>) -> Result<Option<Snapshot>, OperationError> {
    let Some(found) = headers::find_under(conn, session)? else {
        return Ok(None);
    };
    let (owner, header) = (found.place.owner, found.header);
    let mut state: SessionState = header.session.clone();
    let custom = states::at(conn, owner, header.state_version)?;
    state.custom_state =
        custom.ok_or_else(|| states::no_version(session.session, header.state_version))?;
    state.pending_client_tool_calls = pending::of_session(conn, owner)?;
    let run = match &header.run {
        Some(latest) => runs::find(conn, owner, &latest.id)?,
        None => None,
    };
    let open_step = open_steps::find(conn, owner)?;
    let header = Arc::unwrap_or_clone(header);
    let is_answered = |call: &CallId| Ok(answered_calls::find(conn, owner, call)?.is_some());
    let snapshot: Result<_, OperationError> =
        Snapshot::new(header, state, run, open_step, is_answered);
    Ok(Some(snapshot?))
}
