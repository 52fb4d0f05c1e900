//! The lease of a run: held while it is performed, given up when it is left.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::entries::Performer;
use helix_agents_core::machine::RunState;
use helix_agents_core::perform::PerformError;
use helix_agents_core::store::{Change, Commit, Fence, Lease, Precondition, SessionStore};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_core::{RunId, SessionId};

/// Holds the lease of one run.
#[derive(Debug)]
pub(crate) struct Holding {
    store: Arc<dyn SessionStore>,
    clock: Arc<dyn Clock>,
    performer: Performer,
    root: SessionId,
    session: SessionId,
    run: RunId,
    fence: Fence,
}

impl Holding {
    pub(crate) fn new(
        store: Arc<dyn SessionStore>,
        clock: Arc<dyn Clock>,
        performer: Performer,
        state: &RunState,
    ) -> Self {
        Self {
            store,
            clock,
            performer,
            root: state.root_session_id.clone(),
            session: state.session_id.clone(),
            run: state.run_id.clone(),
            fence: state.fence,
        }
    }

    /// When the lease is renewed next: twice may fail before it lapses.
    pub(crate) fn next(&self) -> Timestamp {
        let lasts = self.performer.lease.as_ref().map(|(_, lasts)| *lasts);
        let wait = lasts.unwrap_or(Duration::MAX).saturating_mul(3) / 10;
        let wait = wait.max(Duration::from_millis(1));
        self.clock.now().saturating_add(wait)
    }

    /// Renews the lease at that instant.
    ///
    /// # Errors
    /// Only [`PerformError::Superseded`]: a store that cannot be reached is asked again next time.
    pub(crate) async fn renew(&self, at: Timestamp) -> Result<(), PerformError> {
        self.clock.sleep_until(at).await;
        let now = self.clock.now();
        match self.write(self.performer.lease_at(now), now).await {
            Err(error) if !error.is_superseded() => {
                tracing::warn!(event = "lease.not_renewed", session = %self.session, run = %self.run, %error);
                Ok(())
            }
            other => other,
        }
    }

    /// Gives the lease up: the run is due for somebody else at once.
    ///
    /// # Errors
    /// When somebody has it already, or the store cannot be reached. It lapses by itself then.
    pub(crate) async fn give_up(&self) -> Result<(), PerformError> {
        let now = self.clock.now();
        let holder = self.performer.lease.as_ref();
        let lapsed = holder.map(|(holder, _)| Lease::new(holder.clone(), now));
        self.write(lapsed, now).await
    }

    async fn write(&self, lease: Option<Lease>, now: Timestamp) -> Result<(), PerformError> {
        let commit = Commit::new(self.root.clone(), now)
            .when_in(self.session.clone(), Precondition::Fence(self.fence))
            .then_in(self.session.clone(), Change::Lease(lease));
        self.store.commit(commit).await?;
        Ok(())
    }
}
