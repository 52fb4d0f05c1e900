//! Everything that can be read of some sessions, as one value.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::message::Message;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState};
use helix_agents_core::store::{
    AnsweredCall, DueQuery, DueSession, Fence, Lookup, Page, Paged, PendingQuery, SessionExtras,
    SessionKey, SessionQuery, Snapshot,
};
use helix_agents_core::stream::{Sequence, StoredChunk, StreamInfo};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::UsageEntry;
use serde_json::Value;

use super::Subject;
use super::builders::root_of;

/// Everything that the ports show of some sessions. Two values are equal if no caller can tell a
/// difference.
#[derive(Debug, PartialEq)]
pub(super) struct Everything {
    sessions: Vec<SessionContents>,
    list: Paged<SessionState>,
    pending: Paged<PendingCall>,
    due: Vec<DueSession>,
}

impl Everything {
    /// Replaces the fence of the session of this id.
    pub(super) fn set_fence(&mut self, id: &SessionId, fence: Fence) {
        let all = self.sessions.iter_mut();
        let snapshots = all.filter_map(|one| one.snapshot.as_mut());
        for snapshot in snapshots.filter(|one| one.state.session_id == *id) {
            snapshot.fence = fence;
        }
    }
}

/// Everything that the ports show of one session.
#[derive(Debug, PartialEq)]
struct SessionContents {
    snapshot: Option<Snapshot>,
    messages: Paged<Message>,
    states: Vec<Arc<Value>>,
    runs: Paged<RunRecord>,
    checkpoints: Paged<Checkpoint>,
    family: SessionExtras,
    answered: Paged<AnsweredCall>,
    usage: Paged<UsageEntry>,
    stream: Option<StreamInfo>,
    chunks: Vec<StoredChunk>,
}

/// Reads the lists of all sessions, and these sessions in full.
pub(super) async fn everything(on: &Subject, sessions: &[&SessionId]) -> Everything {
    let mut contents = Vec::new();
    for session in sessions {
        let root = root_of(on, session).await;
        contents.push(whole(on, SessionKey::new(&root, session)).await);
    }
    with(on, contents).await
}

/// As [`everything`], of sessions under this root, whether they exist there or not.
pub(super) async fn everything_under(
    on: &Subject,
    root: &SessionId,
    sessions: &[SessionId],
) -> Everything {
    let mut contents = Vec::new();
    for session in sessions {
        contents.push(whole(on, SessionKey::new(root, session)).await);
    }
    with(on, contents).await
}

async fn with(on: &Subject, sessions: Vec<SessionContents>) -> Everything {
    let of_all = SessionQuery {
        page: Page::first(Page::MAX),
        ..SessionQuery::default()
    };
    let far_future = Timestamp::from_millis(u64::MAX >> 12);
    let all_due = DueQuery::at(far_future).limit(1000);
    Everything {
        sessions,
        list: on.store.list(&of_all).await.unwrap(),
        pending: on.store.pending(&PendingQuery::default()).await.unwrap(),
        due: on.store.due(&all_due).await.unwrap().items,
    }
}

async fn whole(on: &Subject, key: SessionKey<'_>) -> SessionContents {
    let store = &on.store;
    let snapshot = store.load(key).await.unwrap();
    let versions = snapshot.as_ref().map_or(0, |found| found.state_version);
    let mut states = Vec::new();
    for version in 1..=versions {
        states.push(store.state_at(key, version).await.unwrap());
    }
    let (runs, checkpoints) = (Lookup::Page(Page::ALL), Lookup::Page(Page::ALL));
    let answered = Lookup::Page(Page::ALL);
    SessionContents {
        snapshot,
        states,
        messages: store.messages(key, Page::ALL).await.unwrap(),
        runs: store.runs(key, runs).await.unwrap(),
        checkpoints: store.checkpoints(key, checkpoints).await.unwrap(),
        family: store.extras(key).await.unwrap(),
        answered: store.answered(key, answered).await.unwrap(),
        usage: store.usage(key, Page::ALL).await.unwrap(),
        stream: on.streams.info(key.session).await.unwrap(),
        chunks: chunks(on, key.session).await,
    }
}

/// The chunks of a stream.
pub(super) async fn chunks(on: &Subject, root: &SessionId) -> Vec<StoredChunk> {
    let read = on.streams.read(root, Sequence::START, usize::MAX).await;
    read.unwrap()
}
