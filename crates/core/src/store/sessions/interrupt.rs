//! The interrupt flag of the seeds: a request to stop the running run.

use super::Sessions;
use crate::id::SessionId;
use crate::session::{RunStatus, StopKind, StopRequest};
use crate::store::{Change, Precondition, StoreError};

impl Sessions<'_> {
    /// Asks the running run to stop. False when none runs: it has no effect then.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn set_interrupt_flag(
        &self,
        session: &SessionId,
        reason: Option<String>,
    ) -> Result<bool, StoreError> {
        let Some(run) = self.get_current_run(session).await? else {
            return Ok(false);
        };
        let running = Precondition::Run(run.id.clone(), vec![RunStatus::Running]);
        let mut stop = StopRequest::new(run.id, StopKind::Interrupt, self.clock.now());
        stop.reason = reason;
        let commit = self
            .commit_on(session)
            .when(running)
            .then(Change::Stop(stop));
        match self.store.commit(commit).await {
            Ok(_) => Ok(true),
            Err(StoreError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes the request: of several who ask at once exactly one gets it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn check_interrupt_flag(
        &self,
        session: &SessionId,
    ) -> Result<Option<StopRequest>, StoreError> {
        let Some(stop) = self.snapshot(session).await?.stop else {
            return Ok(None);
        };
        let commit = self
            .commit_on(session)
            .when(Precondition::Stop(stop.run_id.clone(), true))
            .then(Change::ClearStop);
        match self.store.commit(commit).await {
            Ok(_) => Ok(Some(stop)),
            Err(StoreError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Withdraws the request.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn clear_interrupt_flag(&self, session: &SessionId) -> Result<(), StoreError> {
        self.change(session, Change::ClearStop).await.map(drop)
    }
}
