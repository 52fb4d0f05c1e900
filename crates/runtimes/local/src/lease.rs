//! The lease of a run: held while it is performed, given up when it is left.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::entries::Performer;
use helix_agents_core::machine::RunState;
use helix_agents_core::perform::{Hold, PerformError};
use helix_agents_core::store::{Change, Commit, Fence, LeaseRequest, Precondition, SessionStore};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_core::{RunId, SessionId};

/// How soon a renewal that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

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
    /// When the lease that is held was asked for.
    asked: Timestamp,
    /// What this process knows of it.
    pub(crate) hold: Arc<Hold>,
}

impl Holding {
    /// A lease that was asked for at this instant, or later.
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

    /// When the lease is renewed first.
    pub(crate) fn first_renewal(&self) -> Timestamp {
        self.after(self.asked)
    }

    /// When a lease that was asked for at this instant is renewed: twice may fail before it lapses.
    fn after(&self, asked: Timestamp) -> Timestamp {
        asked.saturating_add(self.pause())
    }

    fn pause(&self) -> Duration {
        let pause = lasts(&self.performer).saturating_mul(3) / 10;
        pause.max(Duration::from_millis(1))
    }

    /// Renews the lease at that instant, and gives the instant of the next renewal: soon, when the
    /// store could not be reached.
    ///
    /// # Errors
    /// Only [`PerformError::Superseded`]: somebody else has the run.
    pub(crate) async fn renew(&self, at: Timestamp) -> Result<Timestamp, PerformError> {
        self.clock.sleep_until(at).await;
        // Its own clock says how long, from before it asked; the store's says until when.
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

    /// Gives the lease up: the run is due for somebody else at once.
    ///
    /// # Errors
    /// When somebody has it already, or the store cannot be reached. It lapses by itself then.
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
