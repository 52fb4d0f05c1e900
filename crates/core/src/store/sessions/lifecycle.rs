//! Creating, finding and removing sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{MAX_ATTEMPTS, Sessions};
use crate::id::{SessionId, UserId};
use crate::session::{RunStatus, SessionState};
use crate::store::{
    Change, Commit, Committed, DueKind, DueQuery, Page, Paged, ParentFilter, Precondition,
    SessionKey, SessionQuery, StoreError,
};
use crate::time::Timestamp;

/// What a session is created with.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct NewSession {
    /// Which agent it talks to.
    pub agent_type: String,
    /// Its first state; an empty object when not given.
    pub state: Option<Arc<Value>>,
    /// Its owner.
    pub user_id: Option<UserId>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its metadata.
    pub metadata: BTreeMap<String, String>,
    /// When it may be cleaned up.
    pub expires_at: Option<Timestamp>,
    /// Its parent and its root, for a sub-agent.
    pub family: Option<(SessionId, SessionId)>,
}

impl NewSession {
    /// A session of an agent.
    #[must_use]
    pub fn of(agent_type: impl Into<String>) -> Self {
        Self {
            agent_type: agent_type.into(),
            ..Self::default()
        }
    }

    fn into_state(self, session: SessionId, now: Timestamp) -> SessionState {
        let mut state = SessionState::new(session, self.agent_type, now);
        if let Some(custom) = self.state {
            state.custom_state = custom;
        }
        (state.parent_session_id, state.root_session_id) = self.family.unzip();
        state.user_id = self.user_id;
        state.tags = self.tags;
        state.metadata = self.metadata;
        state.expires_at = self.expires_at;
        state
    }
}

impl Sessions<'_> {
    /// Makes a session. Of several at once exactly one succeeds.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] when there is one of that id, [`StoreError::NotFound`] when the
    /// root that it is made under does not exist.
    pub async fn create_session(
        &self,
        session: &SessionId,
        new: NewSession,
    ) -> Result<Committed, StoreError> {
        let state = new.into_state(session.clone(), self.clock.now());
        let commit = self
            .commit_under(state.root().clone(), session)
            .when(Precondition::Absent)
            .then(Change::Create(Box::new(state)));
        self.write(commit).await
    }

    /// Whether there is such a session.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn session_exists(&self, session: &SessionId) -> Result<bool, StoreError> {
        Ok(self.store.find(session).await?.is_some())
    }

    /// Removes a session with its children to any depth, all their rows, and its stream when it is a
    /// root. False when there was none.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn delete_session(&self, session: &SessionId) -> Result<bool, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let Some(found) = self.store.find(session).await? else {
                return Ok(false);
            };
            let Some(mut commit) = self.removal(found.state.root()).await? else {
                return Ok(false);
            };
            for doomed in self.descendants(session).await? {
                commit = commit.then_in(doomed, Change::Delete);
            }
            match self.store.commit(commit).await {
                Ok(_) => return Ok(true),
                // Somebody else made a session under the root, or removed one, just now.
                Err(error) if is_passed(&error) && attempts < MAX_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A commit that removes sessions under a root. What is read after this is all that it finds: a
    /// session that is made later modifies the root, and refuses it. `None` when the root is gone.
    async fn removal(&self, root: &SessionId) -> Result<Option<Commit>, StoreError> {
        let found = self.store.load(root.as_root()).await?;
        Ok(found.map(|found| {
            let as_read = Precondition::Version(found.state.version);
            Commit::new(root.clone(), self.clock.now()).when(as_read)
        }))
    }

    /// A session and all its descendants, children before their parents.
    async fn descendants(&self, session: &SessionId) -> Result<Vec<SessionId>, StoreError> {
        let mut found = vec![session.clone()];
        let mut seen = BTreeSet::from([session.clone()]);
        let mut next = 0;
        while let Some(parent) = found.get(next).cloned() {
            next += 1;
            let mut query = SessionQuery {
                parent: ParentFilter::Of(parent),
                page: Page::first(Page::MAX),
                ..SessionQuery::default()
            };
            loop {
                let page = self.store.list(&query).await?;
                // A session is met once, also where two are made each other's parents.
                let children = page.items.into_iter().map(|child| child.session_id);
                found.extend(children.filter(|child| seen.insert(child.clone())));
                if !page.has_more {
                    break;
                }
                query.page.offset += query.page.limit;
            }
        }
        found.reverse();
        Ok(found)
    }

    /// Sessions, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list_sessions(
        &self,
        query: &SessionQuery,
    ) -> Result<Paged<SessionState>, StoreError> {
        self.store.list(query).await
    }

    /// Removes sessions whose time has come and in which nothing runs, with their children: at most
    /// `limit` at once. Gives how many were removed, not counting those that went with their parents.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn cleanup_expired(&self, limit: usize) -> Result<usize, StoreError> {
        let mut query = DueQuery::at(self.clock.now())
            .of_kinds([DueKind::Expired])
            .limit(limit.min(Page::MAX));
        let mut removed = 0;
        loop {
            let page = self.store.due(&query).await?;
            for due in page.items {
                if removed == limit {
                    return Ok(removed);
                }
                removed += usize::from(self.delete_expired(due.key(), page.at).await?);
            }
            match page.next {
                Some(next) if removed < limit => query = query.after(Some(next)),
                _ => return Ok(removed),
            }
        }
    }

    /// Removes a session, as [`Sessions::delete_session`] does, if its time had come at this instant
    /// and no run goes on in it or in a child. False when it stays, or is gone already.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn delete_expired(
        &self,
        key: SessionKey<'_>,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let session = key.session;
        let Some(mut commit) = self.removal(key.root).await? else {
            return Ok(false);
        };
        let Some(found) = self.store.load(key).await? else {
            return Ok(false);
        };
        if found.state.expires_at.is_none_or(|expires| expires > at) {
            return Ok(false);
        }
        // Somebody who gives it more time meanwhile, or starts a run, is heard.
        let version = Precondition::Version(found.state.version);
        commit = commit.when_in(session.clone(), version);
        for doomed in self.descendants(session).await? {
            let run = match doomed == *session {
                true => found.run.clone(),
                false => match self.store.load(key.beside(&doomed)).await? {
                    Some(child) => child.run,
                    None => continue,
                },
            };
            let still = match run {
                Some(run) if run.status == RunStatus::Running => return Ok(false),
                Some(run) => Precondition::Run(run.id, vec![run.status]),
                None => Precondition::CurrentRun(None),
            };
            commit = commit
                .when_in(doomed.clone(), still)
                .then_in(doomed, Change::Delete);
        }
        match self.store.commit(commit).await {
            Ok(_) => Ok(true),
            Err(error) if is_passed(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether somebody was faster.
fn is_passed(error: &StoreError) -> bool {
    error.is_conflict() || matches!(error, StoreError::NotFound { .. })
}
