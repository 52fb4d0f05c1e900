//! Rewinds a session to an earlier point.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::start::say;
use crate::id::CallId;
use crate::session::{Checkpoint, SessionState};
use crate::store::{Change, Commit, Field, Precondition, Snapshot, Unstage};
use crate::stream::{ChunkOrigin, ChunkPayload, Sequence, StreamRewind};

/// The reason that live readers are given when chunks they may have seen are removed.
const REWOUND: &str = "the session was rewound";

/// A point of a session to which it can be rewound.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RewindPoint {
    /// The number of messages to keep.
    pub(crate) messages: usize,
    /// The version of the state to restore.
    pub(crate) state_version: u64,
    /// The last chunk of the stream to keep; `None` keeps the whole stream.
    pub(crate) sequence: Option<Sequence>,
    /// The last checkpoint to keep.
    pub(crate) checkpoint: Option<Checkpoint>,
}

/// Adds a rewind to a commit: messages, state, checkpoints and stream go back to the point, and the open step is
/// dropped with its pending calls and its staged writes. The ids of all calls that are cut stay used.
///
/// `cut` are the calls of the messages after the point; `origin` is that of the chunk that tells readers. The
/// commit is refused if anything in the session has changed since it was read, so nothing that was written
/// meanwhile is lost. What the calls did outside of the session remains, and so do their child sessions.
pub(crate) fn rewind(
    commit: Commit,
    found: &Snapshot,
    point: &RewindPoint,
    cut: &[CallId],
    origin: &Arc<ChunkOrigin>,
) -> Commit {
    let session = &found.state.session_id;
    let as_read = Precondition::Version(found.state.version);
    let mut commit = commit.when_in(session.clone(), as_read);
    let then = |commit: Commit, change| commit.then_in(session.clone(), change);
    let open = found.open_step.iter();
    let open: Vec<CallId> = open
        .flat_map(|step| step.message.tool_calls())
        .map(|call| call.id.clone())
        .collect();
    let calls: BTreeSet<&CallId> = cut.iter().chain(&open).collect();
    commit = drop_waits(commit, &found.state, &calls);
    if found.open_step.is_some() {
        commit = then(commit, Change::OpenStep(None));
        commit = then(commit, Change::Set(Field::SuspendedStep(None)));
        commit = then(commit, Change::Unstage(Unstage::AllBut(None)));
        // No message carries their ids; those of the others are retired with the messages.
        commit = then(commit, Change::RetireCallIds(open.clone()));
    }
    if point.messages < found.message_count {
        commit = then(commit, Change::Truncate(point.messages));
    }
    if point.state_version != found.state_version {
        commit = then(commit, Change::RewindState(point.state_version));
    }
    if !calls.is_empty() {
        let gone = calls.iter().map(|call| (*call).clone()).collect();
        commit = then(commit, Change::Unlink(gone));
        let forgotten = Change::ForgetAnswered(calls.into_iter().cloned().collect());
        commit = commit.then_in(found.state.root().clone(), forgotten);
    }
    let kept = point.checkpoint.clone().map(Box::new);
    commit = then(commit, Change::DropCheckpointsAfter(kept));
    let Some(sequence) = point.sequence else {
        return commit;
    };
    let rewind = StreamRewind::to(sequence);
    let commit = commit.rewind_stream(match found.state.key().is_root() {
        true => rewind,
        false => rewind.of_session(session.clone()),
    });
    let at = commit.at;
    let reason = REWOUND.to_owned();
    say(commit, origin, at, ChunkPayload::StreamResync { reason })
}

/// Removes what waits for the calls: pending calls with their ownership, and awaited children.
fn drop_waits(mut commit: Commit, session: &SessionState, calls: &BTreeSet<&CallId>) -> Commit {
    let id = &session.session_id;
    for call in session.pending_client_tool_calls.keys() {
        if calls.contains(call) {
            let owner = Field::DisownedCall(call.clone(), id.clone());
            commit = commit
                .then_in(id.clone(), Change::RemovePending(call.clone()))
                .then_in(session.root().clone(), Change::Set(owner));
        }
    }
    for call in session.suspended_awaiting_children.keys() {
        if calls.contains(call) {
            let wait = Field::AwaitedChild(call.clone(), None);
            commit = commit.then_in(id.clone(), Change::Set(wait));
        }
    }
    commit
}
