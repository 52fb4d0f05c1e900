//! The state and the fields of a session.

use std::collections::BTreeMap;

use super::Sessions;
use crate::id::{CallId, SessionId};
use crate::message::Message;
use crate::session::SessionState;
use crate::state::StepWrites;
use crate::store::{
    Change, Field, Lookup, NewCheckpoint, Page, Precondition, SessionReceipt, StoreError,
};
use crate::time::Timestamp;

impl Sessions<'_> {
    /// Loads a session with its state, its pending calls and all answered calls; `None` if
    /// it does not exist.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn load_state(
        &self,
        session: &SessionId,
    ) -> Result<Option<SessionState>, StoreError> {
        let Some(snapshot) = self.store.find(session).await? else {
            return Ok(None);
        };
        let answered = self.answered_calls(session).await?;
        Ok(Some(SessionState {
            completed_client_tool_calls: answered,
            ..snapshot.state
        }))
    }

    /// Returns when each answered call of a session was answered.
    ///
    /// # Errors
    /// If the store cannot be read.
    #[doc(hidden)]
    pub async fn answered_calls(
        &self,
        session: &SessionId,
    ) -> Result<BTreeMap<CallId, Timestamp>, StoreError> {
        let all = Lookup::Page(Page::ALL);
        let place = self.locate(session).await?;
        let answered = self.store.answered(place.key(), all).await?.items;
        Ok(answered.into_iter().map(|one| (one.call, one.at)).collect())
    }

    /// Replaces the session's fields and state.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Refused`] if `expected_version` is not its version.
    #[doc(hidden)]
    pub async fn save_state(
        &self,
        state: &SessionState,
        expected_version: Option<u64>,
    ) -> Result<SessionReceipt, StoreError> {
        let session = &state.session_id;
        let mut commit = self
            .commit_on(session)
            .await?
            .then(Change::Overwrite(Box::new(state.clone())));
        if let Some(version) = expected_version {
            commit = commit.when(Precondition::Version(version));
        }
        self.write(commit).await
    }

    /// Applies writes to the state.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::State`] if they do not apply.
    pub async fn merge_custom_state(
        &self,
        session: &SessionId,
        writes: StepWrites,
    ) -> Result<SessionReceipt, StoreError> {
        self.change(session, Change::WriteState(writes)).await
    }

    /// Writes state, messages and a checkpoint, and applies staged writes, in one commit, as
    /// a suspension and the end of a step need it. The staged writes of the step are applied
    /// to `state` and discarded.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if `expected_version` is not the session's version;
    /// [`StoreError::Invalid`] if the messages are not whole steps.
    #[doc(hidden)]
    pub async fn save_state_and_promote_staging(
        &self,
        state: &SessionState,
        messages: &[Message],
        checkpoint: NewCheckpoint,
        expected_version: Option<u64>,
    ) -> Result<SessionReceipt, StoreError> {
        let session = &state.session_id;
        let appended = super::messages::changes(session, messages.iter().cloned())?;
        let step = checkpoint.step_id.clone();
        let (committed, ()) = self
            .retrying(session, expected_version, async |snapshot| {
                let mut commit = self
                    .commit_after(snapshot)
                    .then(Change::Overwrite(Box::new(state.clone())));
                for change in &appended {
                    commit = commit.then(change.clone());
                }
                let mut versions = snapshot.state_version + 1;
                if let Some(step) = &step {
                    let base = &state.custom_state;
                    let writes = self.staged_writes(session, step, base).await?;
                    versions += u64::from(!writes.is_empty());
                    commit = commit.then(Change::WriteState(writes));
                    commit = commit.then(super::staging::discard_staged(step));
                }
                let count = snapshot.message_count + messages.len();
                let checkpoint = checkpoint.clone().at(session, count, versions, state, self);
                Ok((commit.then(checkpoint), ()))
            })
            .await?;
        Ok(committed)
    }

    /// Increments the step count.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    #[doc(hidden)]
    pub async fn increment_step_count(
        &self,
        session: &SessionId,
    ) -> Result<SessionReceipt, StoreError> {
        self.set(session, Field::OneStepMore).await
    }

    /// Increments the resume count.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    #[doc(hidden)]
    pub async fn increment_resume_count(
        &self,
        session: &SessionId,
    ) -> Result<SessionReceipt, StoreError> {
        self.set(session, Field::OneResumeMore).await
    }

    /// Sets metadata entries; `None` removes a key.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn patch_metadata(
        &self,
        session: &SessionId,
        patch: BTreeMap<String, Option<String>>,
    ) -> Result<SessionReceipt, StoreError> {
        self.set(session, Field::Metadata(patch)).await
    }
}
