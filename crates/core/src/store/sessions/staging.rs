//! Writes that are staged until their step is settled.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Sessions;
use crate::id::{CallId, SessionId, StepId};
use crate::state::{StepWrites, Writer, merge_writes};
use crate::store::{Change, SessionReceipt, Staged, StoreError, Unstage};

#[doc(hidden)]
impl Sessions<'_> {
    /// Stages the writes of a call; staging the same call again replaces them.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn stage_changes(
        &self,
        session: &SessionId,
        step: &StepId,
        call: &CallId,
        writes: StepWrites,
    ) -> Result<SessionReceipt, StoreError> {
        let change = Change::Stage(step.clone(), call.clone(), writes);
        self.change(session, change).await
    }

    /// Lists the staged writes of a step, in the order in which they were first staged.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn get_staged_changes(
        &self,
        session: &SessionId,
        step: &StepId,
    ) -> Result<Vec<Staged>, StoreError> {
        let mut staged = self.all_staged(session).await?;
        Ok(staged.remove(step).unwrap_or_default())
    }

    async fn all_staged(
        &self,
        session: &SessionId,
    ) -> Result<BTreeMap<StepId, Vec<Staged>>, StoreError> {
        let place = self.locate(session).await?;
        let family = self.store.extras(place.key()).await?;
        Ok(family.staged)
    }

    /// Whether a step has staged writes.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn has_staged_changes(
        &self,
        session: &SessionId,
        step: &StepId,
    ) -> Result<bool, StoreError> {
        Ok(self.all_staged(session).await?.contains_key(step))
    }

    /// Applies a step's staged writes to the state and discards them, in one commit.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn promote_staging(
        &self,
        session: &SessionId,
        step: &StepId,
    ) -> Result<SessionReceipt, StoreError> {
        let (committed, ()) = self
            .retrying(session, None, async |snapshot| {
                let base = &snapshot.state.custom_state;
                let writes = self.staged_writes(session, step, base).await?;
                let commit = self.commit_after(snapshot).then(Change::WriteState(writes));
                Ok((commit.then(discard_staged(step)), ()))
            })
            .await?;
        Ok(committed)
    }

    /// Merges the staged writes of a step into one list that applies to `base`.
    pub(super) async fn staged_writes(
        &self,
        session: &SessionId,
        step: &StepId,
        base: &Arc<Value>,
    ) -> Result<StepWrites, StoreError> {
        let staged = self.get_staged_changes(session, step).await?;
        let writers = staged
            .into_iter()
            .enumerate()
            .map(|(order, staged)| Writer {
                order,
                name: staged.call.as_str().to_owned(),
                writes: staged.writes,
            });
        Ok(merge_writes(base, writers).writes)
    }

    /// Discards a step's staged writes.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn discard_staging(
        &self,
        session: &SessionId,
        step: &StepId,
    ) -> Result<SessionReceipt, StoreError> {
        self.change(session, discard_staged(step)).await
    }

    /// Discards all staged writes but those of this step. Returns the number of steps
    /// whose writes were discarded.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn cleanup_orphaned_staging(
        &self,
        session: &SessionId,
        keep: Option<&StepId>,
    ) -> Result<usize, StoreError> {
        let staged = self.all_staged(session).await?;
        let orphans = staged.keys().filter(|step| Some(*step) != keep).count();
        if orphans > 0 {
            let which = Unstage::AllBut(keep.cloned());
            self.change(session, Change::Unstage(which)).await?;
        }
        Ok(orphans)
    }
}

pub(super) fn discard_staged(step: &StepId) -> Change {
    Change::Unstage(Unstage::Step(step.clone()))
}
