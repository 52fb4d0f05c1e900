//! The runs of a session.

use super::Sessions;
use crate::entries::close_step;
use crate::id::{RunId, SessionId};
use crate::session::{RunRecord, RunStatus};
use crate::store::{Change, Lookup, Page, Paged, SessionReceipt, StoreError};
use crate::stream::StreamStatus;

impl Sessions<'_> {
    /// Starts a run, which becomes the session's latest.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    #[doc(hidden)]
    pub async fn create_run(&self, run: RunRecord) -> Result<SessionReceipt, StoreError> {
        let session = run.session_id.clone();
        self.change(&session, Change::StartRun(Box::new(run))).await
    }

    /// Sets a run's status, and its end time unless it is running. A run ended this way leaves no step
    /// open: its open step is closed and kept in the history, and its pending calls are removed.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] for the session, [`StoreError::Invalid`] for the run.
    #[doc(hidden)]
    pub async fn update_run_status(
        &self,
        session: &SessionId,
        run: &RunId,
        status: RunStatus,
    ) -> Result<SessionReceipt, StoreError> {
        let (committed, ()) = self
            .retrying(session, None, async |found| {
                let Some(mut record) = self.get_run(session, run).await? else {
                    return Err(StoreError::Invalid {
                        session: session.clone(),
                        reason: format!("it has no run {run}"),
                    });
                };
                record.status = status;
                record.ended_at = status.is_ended().then(|| self.clock.now());
                let mut on = self.commit_after(found);
                let is_latest = found.run.as_ref().is_some_and(|latest| latest.id == *run);
                if is_latest && status.is_ended() && !status.is_suspended() {
                    on.commit = close_step(on.commit, found);
                }
                if is_latest && status.is_ended() && found.state.key().is_root() {
                    // The stream notifies readers and waiters.
                    on.commit = on.commit.stream(stream_status(status));
                }
                Ok((on.then(Change::Run(Box::new(record))), ()))
            })
            .await?;
        Ok(committed)
    }

    /// Returns the session's latest run.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn get_current_run(
        &self,
        session: &SessionId,
    ) -> Result<Option<RunRecord>, StoreError> {
        Ok(self.snapshot(session).await?.run)
    }

    /// Returns a run by its id.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn get_run(
        &self,
        session: &SessionId,
        run: &RunId,
    ) -> Result<Option<RunRecord>, StoreError> {
        let place = self.locate(session).await?;
        let found = self
            .store
            .runs(place.key(), Lookup::One(run.clone()))
            .await?;
        Ok(found.items.into_iter().next())
    }

    /// Lists runs, oldest first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list_runs(
        &self,
        session: &SessionId,
        page: Page,
    ) -> Result<Paged<RunRecord>, StoreError> {
        let place = self.locate(session).await?;
        self.store.runs(place.key(), Lookup::Page(page)).await
    }
}

/// Returns the status of a root's stream after its latest run has ended with this status.
fn stream_status(ended: RunStatus) -> StreamStatus {
    match ended {
        RunStatus::Failed => StreamStatus::Failed,
        status if status.is_suspended() => StreamStatus::Paused,
        _ => StreamStatus::Ended,
    }
}
