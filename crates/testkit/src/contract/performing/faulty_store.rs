//! A store with faults that a case chooses: lost acknowledgements, failures, writes of others in between.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use helix_agents_core::message::Message;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState, StopRequest};
use helix_agents_core::store::{
    AnsweredCall, Backlog, Commit, DuePage, DueQuery, Lookup, Page, Paged, PendingQuery, Receipt,
    SessionExtras, SessionKey, SessionQuery, SessionStore, Snapshot, StoreError, WatchStops,
};
use helix_agents_core::stream::{
    Chunk, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits, StreamManager,
    StreamWriter,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::UsageEntry;
use helix_agents_core::{CallId, CheckpointId, RunId, SessionId};
use serde_json::Value;

use super::super::Subject;
use crate::block_on;

/// An action of others during a commit.
pub(super) type Meanwhile = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The fate of a commit.
pub(super) enum CommitFate {
    /// The commit is made.
    Made,
    /// The commit is made, and its acknowledgement is lost.
    Unacknowledged,
    /// The commit is made, the action follows, and the acknowledgement is lost.
    UnacknowledgedAfter(Meanwhile),
    /// The commit fails and is not made.
    Failed,
    /// The commit fails and is not made, and the action follows.
    FailedBefore(Meanwhile),
    /// The commit fails because the store is full.
    Full,
    /// The commit is made after the action.
    After(Meanwhile),
}

type ChooseFate = dyn FnMut(&Commit) -> CommitFate + Send;

/// A store in front of that of a subject.
#[derive(Clone)]
pub(super) struct FaultyStore {
    on: Subject,
    choose_fate: Arc<Mutex<Box<ChooseFate>>>,
    failing_reads: Arc<AtomicUsize>,
    failing_deltas: Arc<AtomicUsize>,
    unacknowledged_deltas: Arc<AtomicUsize>,
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").finish_non_exhaustive()
    }
}

impl FaultyStore {
    pub(super) fn new(
        on: &Subject,
        choose_fate: impl FnMut(&Commit) -> CommitFate + Send + 'static,
    ) -> Self {
        Self {
            on: on.clone(),
            choose_fate: Arc::new(Mutex::new(Box::new(choose_fate))),
            failing_reads: Arc::default(),
            failing_deltas: Arc::default(),
            unacknowledged_deltas: Arc::default(),
        }
    }

    /// Makes the next `count` reads fail.
    pub(super) fn fail_reads(&self, count: usize) {
        self.failing_reads.store(count, Ordering::SeqCst);
    }

    /// Makes the next `count` batches of deltas fail.
    pub(super) fn fail_deltas(&self, count: usize) {
        self.failing_deltas.store(count, Ordering::SeqCst);
    }

    /// Loses the acknowledgements of the next `count` batches of deltas.
    pub(super) fn lose_deltas(&self, count: usize) {
        self.unacknowledged_deltas.store(count, Ordering::SeqCst);
    }

    fn read(&self) -> Result<(), StoreError> {
        if take(&self.failing_reads) {
            return Err(unavailable());
        }
        Ok(())
    }
}

/// Waits for the store on this thread. A case then knows that a pending future waits for another task of
/// the case, and not for the store.
fn at_once<T>(call: impl Future<Output = T>) -> T {
    block_on(call)
}

fn take(count: &AtomicUsize) -> bool {
    let less = |count: usize| count.checked_sub(1);
    count
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
        .is_ok()
}

fn unavailable() -> StoreError {
    StoreError::Unavailable {
        backend: "faulty",
        source: "connection reset".into(),
    }
}

#[async_trait]
impl SessionStore for FaultyStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError> {
        let fate = {
            let mut choose_fate = self
                .choose_fate
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            choose_fate(&commit)
        };
        match fate {
            CommitFate::Made => at_once(self.on.store.commit(commit)),
            CommitFate::Unacknowledged => {
                at_once(self.on.store.commit(commit))?;
                Err(unavailable())
            }
            CommitFate::UnacknowledgedAfter(others) => {
                at_once(self.on.store.commit(commit))?;
                others.await;
                Err(unavailable())
            }
            CommitFate::Failed => Err(unavailable()),
            CommitFate::FailedBefore(others) => {
                others.await;
                Err(unavailable())
            }
            CommitFate::Full => Err(StoreError::Full {
                backend: "faulty",
                source: "no space left".into(),
            }),
            CommitFate::After(others) => {
                others.await;
                at_once(self.on.store.commit(commit))
            }
        }
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        self.read()?;
        at_once(self.on.store.load(session))
    }

    async fn messages(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<Message>, StoreError> {
        self.read()?;
        at_once(self.on.store.messages(session, page))
    }

    async fn state_at(
        &self,
        session: SessionKey<'_>,
        version: u64,
    ) -> Result<Arc<Value>, StoreError> {
        at_once(self.on.store.state_at(session, version))
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        at_once(self.on.store.runs(session, which))
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        at_once(self.on.store.checkpoints(session, which))
    }

    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras, StoreError> {
        self.read()?;
        at_once(self.on.store.extras(session))
    }

    async fn usage(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<UsageEntry>, StoreError> {
        at_once(self.on.store.usage(session, page))
    }

    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        at_once(self.on.store.answered(session, which))
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError> {
        at_once(self.on.store.root_of(session))
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        at_once(self.on.store.list(query))
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        at_once(self.on.store.pending(query))
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError> {
        at_once(self.on.store.due(query))
    }

    async fn backlog(&self, at: Timestamp) -> Result<Backlog, StoreError> {
        at_once(self.on.store.backlog(at))
    }
}

#[async_trait]
impl StreamManager for FaultyStore {
    fn limits(&self) -> StreamLimits {
        self.on.streams.limits()
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        if take(&self.failing_deltas) {
            return Err(unavailable().into());
        }
        let written = at_once(self.on.streams.append_deltas(writer, chunks))?;
        if take(&self.unacknowledged_deltas) {
            return Err(unavailable().into());
        }
        Ok(written)
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        at_once(self.on.streams.discard_deltas(writer, after, say))
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        Self::read(self)?;
        at_once(self.on.streams.read(root, after, limit))
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        Self::read(self)?;
        at_once(self.on.streams.info(root))
    }

    async fn catch_up(&self, root: &SessionId) -> Result<(), StreamError> {
        at_once(self.on.streams.catch_up(root))
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        let now = at_once(self.on.streams.info(root))?;
        if StreamInfo::differs(now, known) {
            return Ok(());
        }
        self.on.streams.changed(root, known).await
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        at_once(self.on.streams.condense(root, up_to))
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        at_once(self.on.streams.trim(root, up_to))
    }
}

#[async_trait]
impl WatchStops for FaultyStore {
    async fn stopped(
        &self,
        session: SessionKey<'_>,
        run: &RunId,
    ) -> Result<StopRequest, StoreError> {
        let found = at_once(self.on.store.load(session))?;
        let stop = found.and_then(|found| found.stop);
        match stop.filter(|stop| stop.run_id == *run) {
            Some(stop) => Ok(stop),
            None => self.on.stops.stopped(session, run).await,
        }
    }
}
