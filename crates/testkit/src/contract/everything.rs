//! Everything that can be read of some sessions, as one value.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::message::Message;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState};
use helix_agents_core::store::{
    AnsweredCall, Due, DueQuery, Family, Fence, Lookup, Page, Paged, PendingQuery, SessionQuery,
    Snapshot,
};
use helix_agents_core::stream::{Sequence, StoredChunk, StreamInfo};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::UsageEntry;
use serde_json::Value;

use super::Subject;

/// All that the ports show. Two of them are equal when nobody can tell a difference.
#[derive(Debug, PartialEq)]
pub(super) struct Everything {
    sessions: Vec<Whole>,
    list: Paged<SessionState>,
    pending: Paged<PendingCall>,
    due: Vec<(SessionId, Vec<Due>)>,
}

impl Everything {
    /// The same, with sessions of this id at another fence.
    pub(super) fn set_fence(&mut self, id: &SessionId, fence: Fence) {
        let all = self.sessions.iter_mut();
        let snapshots = all.filter_map(|one| one.snapshot.as_mut());
        for snapshot in snapshots.filter(|one| one.state.session_id == *id) {
            snapshot.fence = fence;
        }
    }
}

/// All of one session.
#[derive(Debug, PartialEq)]
struct Whole {
    snapshot: Option<Snapshot>,
    messages: Paged<Message>,
    states: Vec<Arc<Value>>,
    runs: Paged<RunRecord>,
    checkpoints: Paged<Checkpoint>,
    family: Family,
    answered: Paged<AnsweredCall>,
    usage: Paged<UsageEntry>,
    stream: Option<StreamInfo>,
    chunks: Vec<StoredChunk>,
}

/// Reads all there is.
pub(super) async fn everything(on: &Subject, sessions: &[&SessionId]) -> Everything {
    let mut wholes = Vec::new();
    for session in sessions {
        wholes.push(whole(on, session).await);
    }
    let of_all = SessionQuery {
        page: Page::first(Page::MAX),
        ..SessionQuery::default()
    };
    let far_future = Timestamp::from_millis(u64::MAX >> 12);
    let all_due = DueQuery::at(far_future).limit(1000);
    Everything {
        sessions: wholes,
        list: on.store.list(&of_all).await.unwrap(),
        pending: on.store.pending(&PendingQuery::default()).await.unwrap(),
        due: on.store.due(&all_due).await.unwrap().items,
    }
}

async fn whole(on: &Subject, session: &SessionId) -> Whole {
    let store = &on.store;
    let snapshot = store.load(session).await.unwrap();
    let versions = snapshot.as_ref().map_or(0, |found| found.state_version);
    let mut states = Vec::new();
    for version in 1..=versions {
        states.push(store.state_at(session, version).await.unwrap());
    }
    let (runs, checkpoints) = (Lookup::Page(Page::ALL), Lookup::Page(Page::ALL));
    let answered = Lookup::Page(Page::ALL);
    Whole {
        snapshot,
        states,
        messages: store.messages(session, Page::ALL).await.unwrap(),
        runs: store.runs(session, runs).await.unwrap(),
        checkpoints: store.checkpoints(session, checkpoints).await.unwrap(),
        family: store.family(session).await.unwrap(),
        answered: store.answered(session, answered).await.unwrap(),
        usage: store.usage(session, Page::ALL).await.unwrap(),
        stream: on.streams.info(session).await.unwrap(),
        chunks: chunks(on, session).await,
    }
}

/// The chunks of a stream.
pub(super) async fn chunks(on: &Subject, root: &SessionId) -> Vec<StoredChunk> {
    let read = on.streams.read(root, Sequence::START, usize::MAX).await;
    read.unwrap()
}
