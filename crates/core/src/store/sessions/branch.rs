//! Creating new sessions from existing ones.

use super::Sessions;
use crate::id::{CheckpointId, SessionId};
use crate::message::Message;
use crate::session::{SessionState, SessionStatus};
use crate::store::{Change, Page, Precondition, SessionKey, SessionReceipt, Snapshot, StoreError};
use crate::transcript::Transcript;

/// The point of a session at which a branch begins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BranchPoint {
    /// The session as it is now.
    Now,
    /// A checkpoint of the session.
    Checkpoint(CheckpointId),
    /// The last message to keep; moved past the results of its calls.
    Message(usize),
}

impl Sessions<'_> {
    /// Copies a session as it is now.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] for the source, [`StoreError::AlreadyExists`] for the target.
    pub async fn clone_session(
        &self,
        from: &SessionId,
        to: &SessionId,
    ) -> Result<SessionReceipt, StoreError> {
        self.branch(from, &BranchPoint::Now, to).await
    }

    /// Creates a new session from a point of another, which is not changed: its messages up to that
    /// point, its state at that time, its owner, tags and metadata. Call ids of the source stay used.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] for the source, [`StoreError::AlreadyExists`] for the target,
    /// [`StoreError::Invalid`] for a checkpoint or message that the source does not have.
    pub async fn branch(
        &self,
        from: &SessionId,
        point: &BranchPoint,
        to: &SessionId,
    ) -> Result<SessionReceipt, StoreError> {
        let source = self.snapshot(from).await?;
        let root = source.state.root().clone();
        let key = SessionKey::new(&root, from);
        let whole = self.transcript(from).await?;
        let mut transcript = whole.clone();
        let state_version = self.cut(&source, &mut transcript, point).await?;
        let state = self.store.state_at(key, state_version).await?;
        let new = SessionState {
            custom_state: state,
            status: SessionStatus::Completed,
            user_id: source.state.user_id,
            tags: source.state.tags,
            metadata: source.state.metadata,
            workspace_ref: source.state.workspace_ref,
            ..SessionState::new(to.clone(), source.state.agent_type, self.clock.now())
        };
        let messages: Vec<_> = transcript.iter().cloned().collect();
        let mut commit = self
            .commit_under(to.clone(), to)
            .when(Precondition::Absent)
            .then(Change::Create(Box::new(new)));
        for change in super::messages::changes(to, &messages)? {
            commit = commit.then(change);
        }
        let mut used = self.store.extras(key).await?.retired_call_ids;
        for message in whole.iter_from(messages.len()) {
            if let Message::Assistant(assistant) = message {
                used.extend(assistant.tool_calls().map(|call| call.id.clone()));
            }
        }
        if !used.is_empty() {
            commit = commit.then(Change::RetireCallIds(used));
        }
        self.write(commit).await
    }

    /// Truncates the transcript to the point, and returns the version of the state there.
    async fn cut(
        &self,
        source: &Snapshot,
        transcript: &mut Transcript,
        point: &BranchPoint,
    ) -> Result<u64, StoreError> {
        let session = &source.state.session_id;
        let invalid = |reason: String| StoreError::Invalid {
            session: session.clone(),
            reason,
        };
        match point {
            BranchPoint::Now => {
                // Messages appended since the snapshot belong to a later state.
                transcript.truncate(source.message_count);
                Ok(source.state_version)
            }
            BranchPoint::Checkpoint(id) => {
                let checkpoint = self.get_checkpoint(session, id).await?;
                let checkpoint =
                    checkpoint.ok_or_else(|| invalid(format!("it has no checkpoint {id}")))?;
                transcript.truncate(checkpoint.message_count);
                Ok(checkpoint.state_version)
            }
            BranchPoint::Message(index) => {
                if *index >= transcript.len() {
                    return Err(invalid(format!("it has no message {index}")));
                }
                let mut keep = index + 1;
                while matches!(transcript.get(keep), Some(Message::Tool(_))) {
                    keep += 1;
                }
                transcript.truncate(keep);
                self.state_version_at(session, keep, source).await
            }
        }
    }

    /// Returns the version of the state when the session had at most this many messages.
    async fn state_version_at(
        &self,
        session: &SessionId,
        messages: usize,
        source: &Snapshot,
    ) -> Result<u64, StoreError> {
        if messages >= source.message_count {
            return Ok(source.state_version);
        }
        let mut page = Page::first(Page::MAX);
        loop {
            let found = self.list_checkpoints(session, page).await?;
            let before = found.items.iter().find(|one| one.message_count <= messages);
            if let Some(checkpoint) = before {
                return Ok(checkpoint.state_version);
            }
            if !found.has_more {
                return Ok(1);
            }
            page.offset += page.limit;
        }
    }
}
