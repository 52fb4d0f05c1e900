//! The store of sessions, and who waits for a request to stop.

use std::sync::Arc;

use async_trait::async_trait;
use helix_agents_core::message::Message;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState, StopRequest};
use helix_agents_core::store::{
    AnsweredCall, Commit, DuePage, DueQuery, Family, Lookup, Page, Paged, PendingQuery, Receipt,
    SessionKey, SessionQuery, SessionStore, Snapshot, StoreError, WatchStops,
};
use helix_agents_core::usage::UsageEntry;
use helix_agents_core::{CallId, CheckpointId, RunId, SessionId};
use rusqlite::Connection;
use serde_json::Value;

use crate::bells::Mark;
use crate::desk::Desk;
use crate::fail::Fail;
use crate::store::SqliteStore;
use crate::ticket::Attempt;
use crate::{
    answered, checkpoints, commit, due, family, headers, messages, open_steps, pending, query,
    runs, states, usage,
};

#[async_trait]
impl SessionStore for SqliteStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError> {
        let root = commit.root.clone();
        let sessions = commit.sessions();
        let mut touched: Vec<Mark> = sessions.iter().map(Mark::of).collect();
        if !sessions.contains(&root) {
            touched.push(Mark::of(&root));
        }
        let config = Arc::clone(self.config());
        let mut commit = Some(commit);
        let work = move |desk: &Desk, attempt| {
            let commit = match attempt {
                Attempt::Only => commit.take(),
                Attempt::Shared => commit.clone(),
            };
            let commit = commit.ok_or_else(|| Fail::internal("a commit was made twice"))?;
            commit::commit(desk, &config, &sessions, commit)
        };
        Ok(self.write(Some(&root), touched, work).await?)
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.read(|conn| load(conn, session))?)
    }

    async fn messages(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<Message>, StoreError> {
        Ok(self.read(|conn| messages::page(conn, session, page))?)
    }

    async fn state_at(
        &self,
        session: SessionKey<'_>,
        version: u64,
    ) -> Result<Arc<Value>, StoreError> {
        let found = self.read(|conn| match headers::owner(conn, session)? {
            Some(owner) => states::at(conn, owner, version),
            None => Err(not_found(session.session).into()),
        })?;
        found.ok_or_else(|| states::no_version(session.session, version))
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        Ok(self.read(|conn| runs::lookup(conn, session, which))?)
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        Ok(self.read(|conn| checkpoints::find(conn, session, which))?)
    }

    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        Ok(self.read(|conn| answered::lookup(conn, session, which))?)
    }

    async fn family(&self, session: SessionKey<'_>) -> Result<Family, StoreError> {
        Ok(self.read(|conn| family::read(conn, session))?)
    }

    async fn usage(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<UsageEntry>, StoreError> {
        Ok(self.read(|conn| usage::page(conn, session, page))?)
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError> {
        Ok(self.read(|conn| headers::root_of(conn, session))?)
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        Ok(self.read(|conn| query::list(conn, query))?)
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        Ok(self.read(|conn| query::pending(conn, query))?)
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError> {
        let now = self.config().now();
        Ok(self.read(|conn| due::page(conn, query, now))?)
    }
}

#[async_trait]
impl WatchStops for SqliteStore {
    async fn stopped(
        &self,
        session: SessionKey<'_>,
        run: &RunId,
    ) -> Result<StopRequest, StoreError> {
        let listening = self.listen(session.session);
        loop {
            let heard = listening.heard();
            let found = self.read(|conn| headers::find_under(conn, session))?;
            let found = found.ok_or_else(|| not_found(session.session))?;
            if let Some(stop) = &found.header.stop
                && stop.run_id == *run
            {
                return Ok(stop.clone());
            }
            heard.await;
        }
    }
}

fn not_found(session: &SessionId) -> StoreError {
    StoreError::NotFound {
        session: session.clone(),
    }
}

fn load(conn: &Connection, session: SessionKey<'_>) -> Result<Option<Snapshot>, Fail> {
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
    let is_answered = |call: &CallId| Ok(answered::find(conn, owner, call)?.is_some());
    let snapshot: Result<_, Fail> = Snapshot::new(header, state, run, open_step, is_answered);
    Ok(Some(snapshot?))
}
