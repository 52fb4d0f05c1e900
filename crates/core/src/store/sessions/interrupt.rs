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
        let running = |status: RunStatus| status == RunStatus::Running;
        let asked = self
            .request(session, StopKind::Interrupt, reason, running)
            .await?;
        Ok(asked.is_some())
    }

    /// Requests that the run in progress stop, and returns its id. Returns `None` if the last run has
    /// ended; nothing is written then. The request is durable when this returns. The process that
    /// performs the run obeys it. A suspended run is ended by whoever resumes the session next, or by a
    /// sweeper.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn request_stop(
        &self,
        session: &SessionId,
        kind: StopKind,
        reason: Option<String>,
    ) -> Result<Option<RunId>, StoreError> {
        let in_progress = |status: RunStatus| !status.is_ended() || status.is_suspended();
        self.request(session, kind, reason, in_progress).await
    }

    /// Requests that the last run stop, if its status allows it.
    async fn request(
        &self,
        session: &SessionId,
        kind: StopKind,
        reason: Option<String>,
        can_stop: impl Fn(RunStatus) -> bool,
    ) -> Result<Option<RunId>, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let found = self.snapshot(session).await?;
            let Some(run) = found.run.clone().filter(|run| can_stop(run.status)) else {
                return Ok(None);
            };
            let as_read = Precondition::Run(run.id.clone(), vec![run.status]);
            let mut stop = StopRequest::new(run.id.clone(), kind, self.clock.now());
            stop.reason.clone_from(&reason);
            let commit = self
                .commit_after(&found)
                .when(as_read)
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
