//! The messages of a session.

use std::sync::Arc;

use super::Sessions;
use crate::id::SessionId;
use crate::message::Message;
use crate::store::{Change, Page, Paged, Precondition, SessionReceipt, StoreError};
use crate::transcript::{PairedStep, Transcript};

impl Sessions<'_> {
    /// Appends user messages and whole steps. With `expected_count`, only if the session has that
    /// many messages, so that one of two appends to the same position loses.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if a call has no result; [`StoreError::Refused`] if
    /// another writer appended first.
    pub async fn append_messages(
        &self,
        session: &SessionId,
        messages: &[Message],
        expected_count: Option<usize>,
    ) -> Result<SessionReceipt, StoreError> {
        let mut commit = self.commit_on(session).await?;
        if let Some(count) = expected_count {
            commit = commit.when(Precondition::MessageCount(count));
        }
        for change in changes(session, messages.iter().cloned())? {
            commit = commit.then(change);
        }
        self.write(commit.when(Precondition::Exists)).await
    }

    /// Lists a page of the messages. Without `include_thinking`, the model's reasoning is left out.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn get_messages(
        &self,
        session: &SessionId,
        page: Page,
        include_thinking: bool,
    ) -> Result<Paged<Message>, StoreError> {
        let place = self.locate(session).await?;
        let mut messages = self.store.messages(place.key(), page).await?;
        if !include_thinking {
            for message in &mut messages.items {
                if let Message::Assistant(assistant) = message {
                    Arc::make_mut(&mut assistant.parts)
                        .retain(|part| !matches!(part, crate::message::AssistantPart::Thinking(_)));
                }
            }
        }
        Ok(messages)
    }

    /// Returns the number of messages.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn get_message_count(&self, session: &SessionId) -> Result<usize, StoreError> {
        Ok(self.snapshot(session).await?.message_count)
    }

    /// Truncates the history to at most this many messages, rounded down to whole steps.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn truncate_messages(
        &self,
        session: &SessionId,
        count: usize,
    ) -> Result<SessionReceipt, StoreError> {
        self.change(session, Change::Truncate(count)).await
    }

    /// Returns the whole history as a transcript, healed where needed.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn transcript(&self, session: &SessionId) -> Result<Transcript, StoreError> {
        let place = self.locate(session).await?;
        let messages = self.store.messages(place.key(), Page::ALL).await?.items;
        let (mut transcript, _) = Transcript::load(messages);
        transcript.retire_call_ids(self.store.extras(place.key()).await?.retired_call_ids);
        Ok(transcript)
    }
}

/// Returns the changes that append these messages: one for each user message and each step.
pub(super) fn changes(
    session: &SessionId,
    messages: impl IntoIterator<Item = Message>,
) -> Result<Vec<Change>, StoreError> {
    let invalid = |reason: String| StoreError::Invalid {
        session: session.clone(),
        reason,
    };
    let mut changes = Vec::new();
    let mut rest = messages.into_iter().peekable();
    while let Some(message) = rest.next() {
        changes.push(match message {
            Message::User(user) => Change::AppendUser(user),
            Message::Assistant(assistant) => {
                let mut results = Vec::new();
                while let Some(Message::Tool(result)) =
                    rest.next_if(|next| matches!(next, Message::Tool(_)))
                {
                    results.push(result);
                }
                let step = PairedStep::new(assistant, results);
                Change::AppendStep(step.map_err(|error| invalid(error.to_string()))?)
            }
            Message::Tool(result) => {
                let call = &result.tool_call_id;
                return Err(invalid(format!(
                    "the result of call {call} does not follow its call; append them together"
                )));
            }
        });
    }
    Ok(changes)
}
