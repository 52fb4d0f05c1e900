//! Creating, finding and deleting sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{MAX_ATTEMPTS, Sessions};
use crate::budget::{BudgetAction, BudgetChange};
use crate::id::{SessionId, UserId};
use crate::session::{RunStatus, SessionState};
use crate::store::{
    Change, Commit, DueKind, DueQuery, Field, Page, Paged, ParentFilter, Precondition, SessionKey,
    SessionQuery, SessionReceipt, Snapshot, StoreError,
};
use crate::time::Timestamp;

/// The initial fields of a session.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct NewSession {
    /// The agent of the session.
    pub agent_type: String,
    /// The initial state; an empty object if not given.
    pub state: Option<Arc<Value>>,
    /// The user who owns the session.
    pub user_id: Option<UserId>,
    /// The tags of the session.
    pub tags: Vec<String>,
    /// The metadata of the session.
    pub metadata: BTreeMap<String, String>,
    /// When the session may be cleaned up.
    pub expires_at: Option<Timestamp>,
    /// The parent and the root, for the session of a sub-agent.
    pub family: Option<(SessionId, SessionId)>,
}

impl NewSession {
    /// Creates a session of an agent.
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
    /// Creates a session. Of several concurrent calls with one id exactly one succeeds.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] if the id is taken, [`StoreError::NotFound`] if the root under
    /// which it is created does not exist.
    pub async fn create_session(
        &self,
        session: &SessionId,
        new: NewSession,
    ) -> Result<SessionReceipt, StoreError> {
        let state = new.into_state(session.clone(), self.clock.now());
        let commit = self
            .commit_under(state.root().clone(), session)
            .when(Precondition::Absent)
            .then(Change::Create(Box::new(state)));
        self.write(commit).await
    }

    /// Whether the session exists.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn session_exists(&self, session: &SessionId) -> Result<bool, StoreError> {
        Ok(self.store.find(session).await?.is_some())
    }

    /// Deletes a session with its descendants, all their rows, and its stream if it is a root.
    /// Returns false if the session did not exist.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub async fn delete_session(&self, session: &SessionId) -> Result<bool, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let Some(found) = self.store.find(session).await? else {
                return Ok(false);
            };
            let Some((mut commit, root)) = self.removal(found.state.root()).await? else {
                return Ok(false);
            };
            commit = self.without_child(commit, &found.state).await?;
            for id in self.descendants(session).await? {
                commit = forget(commit, &root, &id).then_in(id, Change::Delete);
            }
            match self.store.commit(commit).await {
                Ok(_) => return Ok(true),
                // Another writer created a session under the root, or deleted one, just now.
                Err(error) if lost_race(&error) && attempts < MAX_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts a commit that deletes sessions under a root. It covers all sessions read after this
    /// call: creating one later modifies the root, and the commit is refused. Returns `None` if the
    /// root no longer exists.
    async fn removal(&self, root: &SessionId) -> Result<Option<(Commit, Snapshot)>, StoreError> {
        let found = self.store.load(root.as_root()).await?;
        Ok(found.map(|found| {
            let as_read = Precondition::Version(found.state.version);
            let commit = Commit::new(root.clone(), self.clock.now()).when(as_read);
            (commit, found)
        }))
    }

    /// Lets the parent of a session that is deleted go on without it: it does not wait for its end, and does not know
    /// its name.
    async fn without_child(
        &self,
        commit: Commit,
        child: &SessionState,
    ) -> Result<Commit, StoreError> {
        let Some(parent) = &child.parent_session_id else {
            return Ok(commit);
        };
        let key = SessionKey::new(child.root(), parent);
        if self.store.load(key).await?.is_none() {
            return Ok(commit);
        }
        let links = self.store.extras(key).await?.children.into_iter();
        let its = links.filter(|link| link.session_id == child.session_id);
        let calls = its.map(|link| link.tool_call_id).collect();
        let ended = Field::EndedChild(child.session_id.clone());
        let commit = commit.then_in(parent.clone(), Change::Set(ended));
        Ok(commit.then_in(parent.clone(), Change::Unlink(calls)))
    }

    /// Lists a session and all its descendants, children before their parents.
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
                // Each session is visited once, even if two are each other's parents.
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

    /// Lists sessions, newest first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list_sessions(
        &self,
        query: &SessionQuery,
    ) -> Result<Paged<SessionState>, StoreError> {
        self.store.list(query).await
    }

    /// Deletes expired sessions in which nothing is running, with their descendants: at most
    /// `limit` at once. Returns how many were deleted, not counting the descendants.
    ///
    /// # Errors
    /// If the store cannot be read or written.
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

    /// Deletes a session, as [`Sessions::delete_session`] does, if it had expired at this
    /// instant and no run is running in it or in a descendant. Returns false if it stays, or
    /// does not exist any more.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub async fn delete_expired(
        &self,
        key: SessionKey<'_>,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let session = key.session;
        let Some((mut commit, root)) = self.removal(key.root).await? else {
            return Ok(false);
        };
        let Some(found) = self.store.load(key).await? else {
            return Ok(false);
        };
        if found.state.expires_at.is_none_or(|expires| expires > at) {
            return Ok(false);
        }
        // A writer that extends its life meanwhile, or starts a run, wins.
        let version = Precondition::Version(found.state.version);
        commit = commit.when_in(session.clone(), version);
        commit = self.without_child(commit, &found.state).await?;
        for id in self.descendants(session).await? {
            let run = match id == *session {
                true => found.run.clone(),
                false => match self.store.load(key.beside(&id)).await? {
                    Some(child) => child.run,
                    None => continue,
                },
            };
            let unchanged = match run {
                Some(run) if run.status == RunStatus::Running => return Ok(false),
                Some(run) => Precondition::Run(run.id, vec![run.status]),
                None => Precondition::CurrentRun(None),
            };
            commit = forget(commit, &root, &id)
                .when_in(id.clone(), unchanged)
                .then_in(id, Change::Delete);
        }
        match self.store.commit(commit).await {
            Ok(_) => Ok(true),
            Err(error) if lost_race(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Lets the root of a session that is deleted forget it: answers to its calls are not sent there any more, and nothing
/// of the budget of the tree stays reserved for it.
fn forget(mut commit: Commit, root: &Snapshot, session: &SessionId) -> Commit {
    let id = &root.state.session_id;
    if id == session {
        return commit;
    }
    let owned = root.state.client_tool_call_ownership.iter();
    for (call, _) in owned.filter(|(_, owner)| *owner == session) {
        let disowned = Field::DisownedCall(call.clone(), session.clone());
        commit = commit.then_in(id.clone(), Change::Set(disowned));
    }
    let accounts = root.budget.as_ref().map(|ledger| &ledger.sessions);
    let reserved = accounts.and_then(|all| all.get(session)?.reserved.as_ref());
    if let Some(reserved) = reserved {
        let run = reserved.run.clone();
        let leaves = BudgetChange::new(session.clone(), run, BudgetAction::Leave);
        commit = commit.then_in(id.clone(), Change::Budget(Box::new(leaves)));
    }
    commit
}

/// Whether another writer was faster.
fn lost_race(error: &StoreError) -> bool {
    error.is_conflict() || matches!(error, StoreError::NotFound { .. })
}
