//! A start of a session that exists: the same start once more, or another one.

use super::execute::refuse_unless_ended;
use super::{Entries, EntryError, ExecuteRequest};
use crate::message::{Message, UserMessage};
use crate::session::{RunRecord, RunTrigger};
use crate::store::{Lookup, Page, SessionKey, Snapshot};

impl Entries {
    /// Returns why a session that exists is not started: [`EntryError::AlreadyStarted`] names the run
    /// of the same start, so that a caller whose first request was not acknowledged can repeat it.
    pub(super) async fn refuse_existing(
        &self,
        found: &Snapshot,
        request: &ExecuteRequest,
    ) -> EntryError {
        if let Err(error) = request.check_agent(found) {
            return error;
        }
        match self.first_run_of(found, request).await {
            Ok(Some(run)) => EntryError::AlreadyStarted {
                session: found.state.session_id.clone(),
                root: found.state.root().clone(),
                run: run.id,
            },
            Ok(None) => match refuse_unless_ended(found, false) {
                Err(error) => error,
                Ok(()) => EntryError::StartedOtherwise {
                    session: found.state.session_id.clone(),
                },
            },
            Err(error) => error,
        }
    }

    /// Returns the first run of the session, if it was started with the messages of this request by
    /// the same user.
    async fn first_run_of(
        &self,
        found: &Snapshot,
        request: &ExecuteRequest,
    ) -> Result<Option<RunRecord>, EntryError> {
        let session = found.state.key();
        let runs = self.store.runs(session, Lookup::Page(Page::first(1)));
        let Some(run) = runs.await?.items.into_iter().next() else {
            return Ok(None);
        };
        let is_start = run.trigger == RunTrigger::Execute
            && found.state.user_id == request.user_id
            && usize::try_from(run.messages).is_ok_and(|count| count == request.messages.len());
        let is_same = is_start && self.starts_with(session, &request.messages).await?;
        Ok(is_same.then_some(run))
    }

    async fn starts_with(
        &self,
        session: SessionKey<'_>,
        messages: &[UserMessage],
    ) -> Result<bool, EntryError> {
        let page = Page::first(messages.len());
        let stored = self.store.messages(session, page).await?.items;
        let is_same = |(stored, given): (&Message, &UserMessage)| matches!(stored, Message::User(stored) if stored == given);
        Ok(stored.len() == messages.len() && stored.iter().zip(messages).all(is_same))
    }
}
