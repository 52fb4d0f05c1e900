//! Checkpoints of a session.

use super::Sessions;
use crate::id::{CheckpointId, RunId, SessionId, StepId};
use crate::session::{Checkpoint, CheckpointSource, SessionState};
use crate::store::{Change, Lookup, Page, Paged, StoreError};

/// The parts of a checkpoint that do not follow from the session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewCheckpoint {
    /// The id of the checkpoint.
    pub id: CheckpointId,
    /// The run that writes the checkpoint.
    pub run_id: RunId,
    /// The step at whose end it is written.
    pub step_id: Option<StepId>,
    /// The open step, if the run suspended in it.
    pub open_step: Option<StepId>,
}

impl NewCheckpoint {
    /// Creates a checkpoint of a run.
    #[must_use]
    pub fn new(id: CheckpointId, run_id: RunId) -> Self {
        Self {
            id,
            run_id,
            step_id: None,
            open_step: None,
        }
    }

    /// Places the checkpoint at the end of a step.
    #[must_use]
    pub fn after_step(mut self, step: StepId) -> Self {
        self.step_id = Some(step);
        self
    }

    pub(super) fn at(
        self,
        session: &SessionId,
        message_count: usize,
        state_version: u64,
        state: &SessionState,
        sessions: &Sessions<'_>,
    ) -> Change {
        let source = match self.step_id {
            Some(_) => CheckpointSource::Staging,
            None => CheckpointSource::Save,
        };
        let checkpoint = Checkpoint {
            id: self.id,
            session_id: session.clone(),
            run_id: self.run_id,
            step_count: state.step_count,
            message_count,
            state_version,
            open_step: self.open_step,
            status: state.status,
            timestamp: sessions.clock.now(),
        };
        Change::Checkpoint(checkpoint, source)
    }
}

impl Sessions<'_> {
    /// Writes a checkpoint of the session as it is now, and makes it the session's latest.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn create_checkpoint(
        &self,
        session: &SessionId,
        new: NewCheckpoint,
    ) -> Result<Checkpoint, StoreError> {
        let (_, checkpoint) = self
            .retrying(session, None, async |snapshot| {
                let change = new.clone().at(
                    session,
                    snapshot.message_count,
                    snapshot.state_version,
                    &snapshot.state,
                    self,
                );
                let checkpoint = match &change {
                    Change::Checkpoint(checkpoint, _) => Some(checkpoint.clone()),
                    _ => None,
                };
                Ok((self.commit_after(snapshot).then(change), checkpoint))
            })
            .await?;
        checkpoint.ok_or_else(|| StoreError::NotFound {
            session: session.clone(),
        })
    }

    /// Returns the most recently written checkpoint, whatever its step count.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn get_latest_checkpoint(
        &self,
        session: &SessionId,
    ) -> Result<Option<Checkpoint>, StoreError> {
        match self.snapshot(session).await?.state.checkpoint_id {
            Some(id) => self.get_checkpoint(session, &id).await,
            None => Ok(None),
        }
    }

    /// Returns a checkpoint of this session by its id; one of another session is not found.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn get_checkpoint(
        &self,
        session: &SessionId,
        id: &CheckpointId,
    ) -> Result<Option<Checkpoint>, StoreError> {
        let place = self.locate(session).await?;
        let found = self
            .store
            .checkpoints(place.key(), Lookup::One(id.clone()))
            .await?;
        Ok(found.items.into_iter().next())
    }

    /// Lists checkpoints, the most recently written first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list_checkpoints(
        &self,
        session: &SessionId,
        page: Page,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        let place = self.locate(session).await?;
        self.store
            .checkpoints(place.key(), Lookup::Page(page))
            .await
    }
}
