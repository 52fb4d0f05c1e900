//! Every operation that has a name, written once on top of [`SessionStore::commit`].

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

use super::{Change, Commit, Field, Precondition, Receipt, SessionStore, StoreError};
use crate::id::SessionId;
use crate::store::{Committed, Snapshot};
use crate::time::Clock;

pub use branch::BranchPoint;
pub use checkpoints::NewCheckpoint;
pub use lifecycle::NewSession;
pub use status::{CasOutcome, StatusContext};

/// How often somebody else may be faster.
const MAX_ATTEMPTS: usize = 64;

/// Operations on the sessions of a store.
///
/// Each is one commit, so each is atomic. One that reads first and finds at the commit that somebody
/// was faster reads again.
#[derive(Debug, Clone, Copy)]
pub struct Sessions<'a> {
    store: &'a dyn SessionStore,
    clock: &'a dyn Clock,
}

impl<'a> Sessions<'a> {
    /// Operations on a store's sessions.
    #[must_use]
    pub fn new(store: &'a dyn SessionStore, clock: &'a dyn Clock) -> Self {
        Self { store, clock }
    }

    /// A commit on one session, made now.
    fn commit_on(&self, session: &SessionId) -> Commit {
        Commit::new(session.clone(), self.clock.now())
    }

    /// Makes one change of one session.
    async fn change(&self, session: &SessionId, change: Change) -> Result<Committed, StoreError> {
        let commit = self.commit_on(session).then(change);
        self.write(session, commit).await
    }

    async fn set(&self, session: &SessionId, field: Field) -> Result<Committed, StoreError> {
        self.change(session, Change::Set(field)).await
    }

    async fn write(&self, session: &SessionId, commit: Commit) -> Result<Committed, StoreError> {
        let receipt = self.store.commit(commit).await?;
        Ok(of_session(receipt, session))
    }

    async fn snapshot(&self, session: &SessionId) -> Result<Snapshot, StoreError> {
        let snapshot = self.store.load(session).await?;
        snapshot.ok_or_else(|| StoreError::NotFound {
            session: session.clone(),
        })
    }

    /// Reads, plans and commits; when somebody was faster, all over again.
    ///
    /// A plan that holds the caller's own expectation is not tried again when that fails.
    async fn retrying<T>(
        &self,
        session: &SessionId,
        expected_version: Option<u64>,
        mut plan: impl AsyncFnMut(&Snapshot) -> Result<(Commit, T), StoreError>,
    ) -> Result<(Committed, T), StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let snapshot = self.snapshot(session).await?;
            let (commit, value) = plan(&snapshot).await?;
            let version = expected_version.unwrap_or(snapshot.state.version);
            let commit = commit.when_in(session.clone(), Precondition::Version(version));
            match self.write(session, commit).await {
                Err(StoreError::Refused {
                    expected: Precondition::Version(_),
                    ..
                }) if expected_version.is_none() && attempts < MAX_ATTEMPTS => {}
                other => return Ok((other?, value)),
            }
        }
    }
}

fn of_session(mut receipt: Receipt, session: &SessionId) -> Committed {
    receipt.sessions.remove(session).unwrap_or_default()
}
