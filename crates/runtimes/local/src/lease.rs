//! The lease of a run: held while the run is performed, released when it is left.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::entries::Performer;
use helix_agents_core::machine::RunState;
use helix_agents_core::perform::{Hold, PerformError};
use helix_agents_core::store::{Change, Commit, Fence, LeaseRequest, Precondition, SessionStore};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_core::{RunId, SessionId};

/// The delay before a failed renewal is retried.
const AGAIN: Duration = Duration::from_secs(1);

/// The lease of one run, with everything needed to renew and release it.
#[derive(Debug)]
pub(crate) struct Holding {
    store: Arc<dyn SessionStore>,
    clock: Arc<dyn Clock>,
    performer: Performer,
    root: SessionId,
    session: SessionId,
    run: RunId,
    fence: Fence,
    /// When the current lease was requested.
    asked: Timestamp,
    /// Whether this process still holds the lease, as far as it knows.
    pub(crate) hold: Arc<Hold>,
}

impl Holding {
    /// Creates the lease of a run that was requested at this instant or later.
    pub(crate) fn new(
        store: Arc<dyn SessionStore>,
        clock: Arc<dyn Clock>,
        performer: Performer,
        state: &RunState,
        asked: Timestamp,
    ) -> Self {
        let lasts = lasts(&performer);
        Self {
            store,
            clock,
            performer,
            root: state.root_session_id.clone(),
            session: state.session_id.clone(),
            run: state.run_id.clone(),
            fence: state.fence,
            asked,
            hold: Arc::new(Hold::new(asked.saturating_add(lasts))),
        }
    }

    /// When the lease is first renewed.
    pub(crate) fn first_renewal(&self) -> Timestamp {
        self.after(self.asked)
    }

    /// When a lease that was requested at this instant is renewed: two renewals may fail before it
    /// lapses.
    fn after(&self, asked: Timestamp) -> Timestamp {
        asked.saturating_add(self.pause())
    }

    fn pause(&self) -> Duration {
        let pause = lasts(&self.performer).saturating_mul(3) / 10;
        pause.max(Duration::from_millis(1))
    }

    /// Renews the lease at that instant and returns the instant of the next renewal, which is soon
    /// if the store could not be reached.
    ///
    /// # Errors
    /// Only [`PerformError::Superseded`]: another process has the run.
    pub(crate) async fn renew(&self, at: Timestamp) -> Result<Timestamp, PerformError> {
        self.clock.sleep_until(at).await;
        // The local clock measures the duration from before the request; the store's clock decides
        // when it lapses.
        let asked = self.clock.now();
        match self.write(self.performer.lease_request()).await {
            Ok(()) => {
                let lasts = lasts(&self.performer);
                self.hold.renewed(asked.saturating_add(lasts));
                Ok(self.after(asked))
            }
            Err(error) if error.is_superseded() => {
                self.hold.lost();
                Err(error)
            }
            Err(error) => {
                tracing::warn!(event = "lease.not_renewed", session = %self.session, run = %self.run, %error);
                let again = self.pause().min(AGAIN);
                Ok(self.clock.now().saturating_add(again))
            }
        }
    }

    /// Releases the lease, so that another process can take the run over at once.
    ///
    /// # Errors
    /// If another process has the run already, or the store cannot be reached; the lease then
    /// lapses.
    pub(crate) async fn give_up(&self) -> Result<(), PerformError> {
        let holder = self.performer.lease.as_ref();
        let given_up = holder.map(|(holder, _)| LeaseRequest::given_up(holder.clone()));
        self.write(given_up).await
    }

    async fn write(&self, lease: Option<LeaseRequest>) -> Result<(), PerformError> {
        let commit = Commit::new(self.root.clone(), self.clock.now())
            .when_in(self.session.clone(), Precondition::Fence(self.fence))
            .then_in(self.session.clone(), Change::Lease(lease));
        self.store.commit(commit).await?;
        Ok(())
    }
}

fn lasts(performer: &Performer) -> Duration {
    let lasts = performer.lease.as_ref().map(|(_, lasts)| *lasts);
    lasts.unwrap_or(Duration::MAX)
}
