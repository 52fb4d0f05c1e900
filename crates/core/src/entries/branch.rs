//! The entry that starts a turn in a branch of another session.

use super::execute::{begin_new, expiry, with_keys};
use super::{Drive, Entries, EntryError, ExecuteRequest, KnownSession, Performer, Start};
use crate::id::{SessionId, StreamId};
use crate::machine::RunState;
use crate::store::{BranchContent, BranchPoint, Sessions, Snapshot, StoreError};

/// The session of which a new one is a branch, and the point at which it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BranchSource {
    /// The session, which is not changed.
    pub session: SessionId,
    /// The point at which the branch begins.
    pub point: BranchPoint,
}

impl BranchSource {
    /// Branches a session at a point.
    #[must_use]
    pub fn new(session: SessionId, point: BranchPoint) -> Self {
        Self { session, point }
    }

    /// Returns the error of an entry for one of a store: a point that the session does not have is named.
    pub(super) fn refusal(&self, error: StoreError) -> EntryError {
        let session = self.session.clone();
        match (&self.point, error) {
            (BranchPoint::Checkpoint(id), StoreError::Invalid { .. }) => {
                let checkpoint = id.clone();
                EntryError::UnknownCheckpoint {
                    session,
                    checkpoint,
                }
            }
            (BranchPoint::Message(index), StoreError::Invalid { .. }) => {
                let index = *index;
                EntryError::UnknownMessage { session, index }
            }
            (_, error) => error.into(),
        }
    }
}

impl Entries {
    /// Starts a turn in a new session that is a branch, in one commit.
    pub(super) async fn execute_branch(
        &self,
        request: ExecuteRequest,
        source: &BranchSource,
        performer: &Performer,
    ) -> Result<RunState, EntryError> {
        let to = request.session()?;
        let sessions = Sessions::new(self.store.as_ref(), self.clock.as_ref());
        let BranchSource { session, point } = source;
        let content = sessions.branch_content(session, point, to).await;
        let content = content.map_err(|error| source.refusal(error))?;
        if content.state.agent_type != request.agent_type {
            return Err(EntryError::OtherAgent {
                session: session.clone(),
                has: content.state.agent_type.to_string(),
                asked: request.agent_type.to_string(),
            });
        }
        let to = KnownSession::from(to);
        let plan =
            |found: Option<&Snapshot>, start: &Start| plan_branch(found, &request, &content, start);
        self.drive(to, performer, None, plan).await
    }
}

/// Plans the start of a turn in a new session that is a branch.
///
/// # Errors
/// [`StoreError::AlreadyExists`] if the session exists, [`EntryError::OtherAgent`] for a branch of a session of
/// another agent, and errors in the request itself.
fn plan_branch(
    found: Option<&Snapshot>,
    request: &ExecuteRequest,
    content: &BranchContent,
    start: &Start,
) -> Result<Drive, EntryError> {
    let session = request.session()?;
    request.check_messages()?;
    if found.is_some() {
        let session = session.clone();
        return Err(StoreError::AlreadyExists { session }.into());
    }
    let mut state = content.state.clone();
    state.stream_id = Some(StreamId::of_session(session));
    state.custom_state = with_keys(&state.custom_state, request.state.as_ref())?;
    if request.user_id.is_some() {
        state.user_id.clone_from(&request.user_id);
    }
    let has = &state.tags;
    let new = request.tags.iter().filter(|tag| !has.contains(tag));
    let new: Vec<_> = new.cloned().collect();
    state.tags.extend(new);
    state.metadata.extend(request.metadata.clone());
    state.expires_at = expiry(request, start);
    begin_new(state, content.changes.clone(), request, start)
}
