//! The interrupt flag: a request to stop the running run.

use super::{MAX_ATTEMPTS, Sessions};
use crate::id::{RunId, SessionId};
use crate::session::{RunStatus, StopKind, StopRequest};
use crate::store::{Change, Precondition, StoreError};

impl Sessions<'_> {
    /// Requests that the running run stop. Returns false, without effect, if none is running.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    #[doc(hidden)]
    pub async fn set_interrupt_flag(
        &self,
        session: &SessionId,
        reason: Option<String>,
    ) -> Result<bool, StoreError> {
        let asked = self
            .request_stop(session, StopKind::Interrupt, reason)
            .await?;
        Ok(asked.is_some())
    }

    /// Requests that the running run stop, and returns its id. Returns `None` if none is running;
    /// nothing is written then. The request is durable when this returns, and the process that
    /// performs the run obeys it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn request_stop(
        &self,
        session: &SessionId,
        kind: StopKind,
        reason: Option<String>,
    ) -> Result<Option<RunId>, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let found = self.snapshot(session).await?;
            let Some(run) = found
                .run
                .clone()
                .filter(|run| run.status == RunStatus::Running)
            else {
                return Ok(None);
            };
            let running = Precondition::Run(run.id.clone(), vec![RunStatus::Running]);
            let mut stop = StopRequest::new(run.id.clone(), kind, self.clock.now());
            stop.reason.clone_from(&reason);
            let commit = self
                .commit_after(&found)
                .when(running)
                .then(Change::Stop(stop));
            match self.write(commit).await {
                Ok(_) => return Ok(Some(run.id)),
                // The run ended, or another began, just now: read again.
                Err(StoreError::Refused { .. }) if attempts < MAX_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the stop request: of several concurrent callers exactly one gets it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    #[doc(hidden)]
    pub async fn check_interrupt_flag(
        &self,
        session: &SessionId,
    ) -> Result<Option<StopRequest>, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let found = self.snapshot(session).await?;
            let Some(stop) = found.stop.clone() else {
                return Ok(None);
            };
            // An abort may have replaced it since: the commit takes exactly what was read.
            let commit = self
                .commit_after(&found)
                .when(Precondition::Version(found.state.version))
                .then(Change::ClearStop);
            match self.write(commit).await {
                Ok(_) => return Ok(Some(stop)),
                Err(StoreError::Refused { .. }) if attempts < MAX_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Withdraws the stop request.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    #[doc(hidden)]
    pub async fn clear_interrupt_flag(&self, session: &SessionId) -> Result<(), StoreError> {
        self.change(session, Change::ClearStop).await.map(drop)
    }
}
