//! Creating new sessions from existing ones.

use super::{MAX_ATTEMPTS, Sessions, messages};
use crate::id::{CallId, CheckpointId, SessionId};
use crate::message::Message;
use crate::session::{Checkpoint, SessionState, SessionStatus};
use crate::store::{Change, Lookup, Page, Precondition, SessionReceipt, Snapshot, StoreError};
use crate::transcript::Transcript;

/// The number of messages that are read at once where none of them are kept.
const BATCH: usize = 256;

/// The point of a session at which a branch begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BranchPoint {
    /// The session as it is now, without a step that is still open.
    #[default]
    Now,
    /// A checkpoint of the session. One that was written at a pause is the session before the step of
    /// the pause.
    Checkpoint(CheckpointId),
    /// The last message to keep; moved past the results of its calls.
    Message(usize),
}

/// The content of a new session that is a branch of another.
#[derive(Debug, Clone)]
pub(crate) struct BranchContent {
    /// The fields and the state with which it is created.
    pub(crate) state: SessionState,
    /// The changes that follow its creation: its messages and the call ids that are used.
    pub(crate) changes: Vec<Change>,
}

/// A point of a session that was found: what the branch keeps.
struct Kept {
    messages: usize,
    state_version: u64,
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
    /// The new session is a root of its own and shares nothing with the source. Of a source that is running or
    /// suspended it has the steps that are in the history. The cost grows with the number of messages.
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
        let BranchContent { state, changes } = self.branch_content(from, point, to).await?;
        let mut commit = self
            .commit_under(to.clone(), to)
            .when(Precondition::Absent)
            .then(Change::Create(Box::new(state)));
        for change in changes {
            commit = commit.then(change);
        }
        self.write(commit).await
    }

    /// Reads what a branch consists of, as of one instant.
    pub(crate) async fn branch_content(
        &self,
        from: &SessionId,
        point: &BranchPoint,
        to: &SessionId,
    ) -> Result<BranchContent, StoreError> {
        let mut source = self.snapshot(from).await?;
        for _ in 0..MAX_ATTEMPTS {
            let content = self.content_of(&source, point, to).await?;
            // A history only grows, unless it is cut: then the parts that were read may not belong together.
            let now = self.snapshot(from).await?;
            let history = |found: &Snapshot| (found.state.created_at, found.cuts);
            if history(&now) == history(&source) {
                return Ok(content);
            }
            source = now;
        }
        Err(StoreError::Invalid {
            session: from.clone(),
            reason: "it is rewound again and again; try again".to_owned(),
        })
    }

    async fn content_of(
        &self,
        source: &Snapshot,
        point: &BranchPoint,
        to: &SessionId,
    ) -> Result<BranchContent, StoreError> {
        let key = source.state.key();
        let kept = self.find_point(source, point).await?;
        let custom_state = self.store.state_at(key, kept.state_version).await?;
        let old = &source.state;
        let state = SessionState {
            custom_state,
            status: SessionStatus::Completed,
            user_id: old.user_id.clone(),
            tags: old.tags.clone(),
            metadata: old.metadata.clone(),
            workspace_ref: old.workspace_ref.clone(),
            ..SessionState::new(to.clone(), old.agent_type.clone(), self.clock.now())
        };
        let mut changes = self.copied(source, kept.messages, to).await?;
        let mut used = self.store.extras(key).await?.retired_call_ids;
        used.extend(self.calls_after(source, kept.messages).await?);
        let open = source.open_step.iter();
        let open = open.flat_map(|step| step.message.tool_calls());
        used.extend(open.map(|call| call.id.clone()));
        if !used.is_empty() {
            changes.push(Change::RetireCallIds(used));
        }
        Ok(BranchContent { state, changes })
    }

    /// Returns the changes that append the first messages of a session to another.
    async fn copied(
        &self,
        source: &Snapshot,
        count: usize,
        to: &SessionId,
    ) -> Result<Vec<Change>, StoreError> {
        let read = || self.store.messages(source.state.key(), Page::first(count));
        if let Ok(changes) = messages::changes(to, read().await?.items) {
            return Ok(changes);
        }
        // An unpaired history is healed.
        let (transcript, _) = Transcript::load(read().await?.items);
        messages::changes(to, transcript.iter().cloned())
    }

    /// Lists the calls of the messages from a position on, up to those of the snapshot.
    async fn calls_after(
        &self,
        source: &Snapshot,
        position: usize,
    ) -> Result<Vec<CallId>, StoreError> {
        let mut calls = Vec::new();
        let mut page = Page::new(position, BATCH);
        while page.offset < source.message_count {
            let messages = self.store.messages(source.state.key(), page).await?.items;
            if messages.is_empty() {
                break;
            }
            page.offset += messages.len();
            for message in messages {
                if let Message::Assistant(reply) = message {
                    calls.extend(reply.tool_calls().map(|call| call.id.clone()));
                }
            }
        }
        Ok(calls)
    }

    /// Finds the messages to keep, and the version of the state there.
    async fn find_point(&self, source: &Snapshot, point: &BranchPoint) -> Result<Kept, StoreError> {
        let session = &source.state.session_id;
        let invalid = |reason: String| StoreError::Invalid {
            session: session.clone(),
            reason,
        };
        match point {
            BranchPoint::Now => Ok(Kept {
                messages: source.message_count,
                state_version: state_before_step(source),
            }),
            BranchPoint::Checkpoint(id) => {
                let checkpoint = self.get_checkpoint(session, id).await?;
                let checkpoint =
                    checkpoint.ok_or_else(|| invalid(format!("it has no checkpoint {id}")))?;
                Ok(Kept {
                    messages: checkpoint.message_count.min(source.message_count),
                    state_version: self.state_version_of(source, &checkpoint).await?,
                })
            }
            BranchPoint::Message(index) => {
                if *index >= source.message_count {
                    return Err(invalid(format!("it has no message {index}")));
                }
                let messages = self.after_results(source, index + 1).await?;
                Ok(Kept {
                    messages,
                    state_version: self.state_version_at(messages, source).await?,
                })
            }
        }
    }

    /// Moves a position past the results of calls that follow it.
    async fn after_results(
        &self,
        source: &Snapshot,
        mut position: usize,
    ) -> Result<usize, StoreError> {
        loop {
            let page = Page::new(position, BATCH);
            let messages = self.store.messages(source.state.key(), page).await?.items;
            let is_result = |message: &&Message| matches!(message, Message::Tool(_));
            let results = messages.iter().take_while(is_result).count();
            position += results;
            if results < messages.len() || messages.is_empty() {
                return Ok(position.min(source.message_count));
            }
        }
    }

    /// Returns the version of the state at a checkpoint, or before the step in which the session paused there.
    async fn state_version_of(
        &self,
        source: &Snapshot,
        checkpoint: &Checkpoint,
    ) -> Result<u64, StoreError> {
        if checkpoint.open_step.is_none() {
            return Ok(checkpoint.state_version);
        }
        let lookup = Lookup::One(checkpoint.run_id.clone());
        let runs = self.store.runs(source.state.key(), lookup).await?.items;
        let suspended = runs.into_iter().next().and_then(|run| run.suspended);
        let before = suspended.and_then(|suspended| suspended.before);
        Ok(before.map_or(checkpoint.state_version, |before| before.state_version))
    }

    /// Returns the version of the state when the session had at most this many messages.
    async fn state_version_at(
        &self,
        messages: usize,
        source: &Snapshot,
    ) -> Result<u64, StoreError> {
        if messages >= source.message_count {
            return Ok(state_before_step(source));
        }
        let session = &source.state.session_id;
        let is_before =
            |one: &&Checkpoint| one.open_step.is_none() && one.message_count <= messages;
        let mut page = Page::first(Page::MAX);
        loop {
            let found = self.list_checkpoints(session, page).await?;
            if let Some(checkpoint) = found.items.iter().find(is_before) {
                return Ok(checkpoint.state_version);
            }
            if !found.has_more {
                return Ok(1);
            }
            page.offset += page.limit;
        }
    }
}

/// Returns the version of the state without what an open step has written.
fn state_before_step(source: &Snapshot) -> u64 {
    let open = source.open_step.as_ref();
    let before = open.and_then(|step| step.before());
    before.map_or(source.state_version, |before| before.state_version)
}
