//! The named operations on sessions, written once on top of [`SessionStore::commit`].

// Operations that a run makes itself, or that only the contract tests call, are hidden: called by
// somebody else, they would interfere with the run of the session.

mod branch;
mod checkpoints;
mod children;
mod interrupt;
mod lifecycle;
mod messages;
mod runs;
mod staging;
mod state;
mod status;

use super::{Change, Commit, Field, Precondition, SessionKey, SessionStore, StoreError};
use crate::id::SessionId;
use crate::store::{SessionReceipt, Snapshot};
use crate::time::Clock;

pub(crate) use branch::BranchContent;
pub use branch::BranchPoint;
pub use checkpoints::NewCheckpoint;
pub(crate) use interrupt::{Reach, WorkingChild, drop_messages};
pub use lifecycle::NewSession;
pub use status::{CasOutcome, StatusContext};

/// How often an operation is retried when another writer is faster.
const MAX_ATTEMPTS: usize = 64;

/// Operations on the sessions of a store.
///
/// Each is one commit, so each is atomic. An operation that reads first and loses against another
/// writer at the commit reads again.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::Sessions;
///
/// async fn forget(runtime: &dyn Runtime, session: &SessionId) -> Result<bool, Error> {
///     let backend = runtime.backend();
///     let sessions = Sessions::new(backend.store.as_ref(), runtime.clock().as_ref());
///     Ok(sessions.delete_session(session).await?)
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Sessions<'a> {
    store: &'a dyn SessionStore,
    clock: &'a dyn Clock,
}

impl<'a> Sessions<'a> {
    /// Creates the operations on a store's sessions.
    #[must_use]
    pub fn new(store: &'a dyn SessionStore, clock: &'a dyn Clock) -> Self {
        Self { store, clock }
    }

    /// Finds a session of which only the id is known.
    async fn locate(&self, session: &SessionId) -> Result<OwnedKey, StoreError> {
        let root = match self.store.root_of(session).await? {
            // The directory may name a child that was never created; then a root may have its id.
            Some(root) => {
                let child = self.store.load(SessionKey::new(&root, session)).await?;
                child.map(|_| root)
            }
            None => None,
        };
        Ok(OwnedKey {
            root: root.unwrap_or_else(|| session.clone()),
            session: session.clone(),
        })
    }

    /// Starts a commit on one session, made now.
    async fn commit_on(&self, session: &SessionId) -> Result<SessionCommit, StoreError> {
        let place = self.locate(session).await?;
        Ok(self.commit_under(place.root, session))
    }

    /// Starts a commit on one session whose root is known.
    fn commit_under(&self, root: SessionId, session: &SessionId) -> SessionCommit {
        SessionCommit {
            commit: Commit::new(root, self.clock.now()),
            session: session.clone(),
        }
    }

    /// Starts a commit on a session that was read.
    fn commit_after(&self, found: &Snapshot) -> SessionCommit {
        let key = found.state.key();
        self.commit_under(key.root.clone(), key.session)
    }

    /// Makes one change to one session.
    async fn change(
        &self,
        session: &SessionId,
        change: Change,
    ) -> Result<SessionReceipt, StoreError> {
        self.write(self.commit_on(session).await?.then(change))
            .await
    }

    async fn set(&self, session: &SessionId, field: Field) -> Result<SessionReceipt, StoreError> {
        self.change(session, Change::Set(field)).await
    }

    async fn write(&self, on: SessionCommit) -> Result<SessionReceipt, StoreError> {
        let mut receipt = self.store.commit(on.commit).await?;
        Ok(receipt.sessions.remove(&on.session).unwrap_or_default())
    }

    async fn snapshot(&self, session: &SessionId) -> Result<Snapshot, StoreError> {
        let snapshot = self.store.find(session).await?;
        snapshot.ok_or_else(|| StoreError::NotFound {
            session: session.clone(),
        })
    }

    /// Reads, plans and commits; starts over when another writer was faster.
    ///
    /// If the caller gave an expected version, a mismatch is returned and not retried.
    async fn retrying<T>(
        &self,
        session: &SessionId,
        expected_version: Option<u64>,
        mut plan: impl AsyncFnMut(&Snapshot) -> Result<(SessionCommit, T), StoreError>,
    ) -> Result<(SessionReceipt, T), StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let snapshot = self.snapshot(session).await?;
            let (commit, value) = plan(&snapshot).await?;
            let version = expected_version.unwrap_or(snapshot.state.version);
            let commit = commit.when(Precondition::Version(version));
            match self.write(commit).await {
                Err(StoreError::Refused {
                    expected: Precondition::Version(_),
                    ..
                }) if expected_version.is_none() && attempts < MAX_ATTEMPTS => {}
                other => return Ok((other?, value)),
            }
        }
    }
}

/// A session and its root.
struct OwnedKey {
    root: SessionId,
    session: SessionId,
}

impl OwnedKey {
    fn key(&self) -> SessionKey<'_> {
        SessionKey::new(&self.root, &self.session)
    }
}

/// A commit mostly about one session, which need not be its own root.
struct SessionCommit {
    commit: Commit,
    session: SessionId,
}

impl SessionCommit {
    fn when(mut self, precondition: Precondition) -> Self {
        self.commit = self.commit.when_in(self.session.clone(), precondition);
        self
    }

    fn then(mut self, change: Change) -> Self {
        self.commit = self.commit.then_in(self.session.clone(), change);
        self
    }

    fn set(self, field: Field) -> Self {
        self.then(Change::Set(field))
    }
}
