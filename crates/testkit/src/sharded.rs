//! A store that keeps each root in a place of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::message::Message;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState, StopRequest};
use helix_agents_core::store::{
    AnsweredCall, Backlog, Change, Commit, DueCursor, DuePage, DueQuery, DueSession, Lookup, Page,
    Paged, PendingQuery, Precondition, Receipt, SessionExtras, SessionKey, SessionQuery,
    SessionStore, Snapshot, StoreError, WatchStops,
};
use helix_agents_core::stream::{
    Chunk, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits, StreamManager,
    StreamWriter,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::UsageEntry;
use helix_agents_core::{CallId, CheckpointId, RunId, SessionId};
use serde_json::Value;

/// A store that keeps each root in a memory store of its own, as a Durable Object is one root. It
/// finds a session only by the root that a call names. Clones share the data.
///
/// Running the suites on it shows that no run, entry or runtime reads or writes without naming the
/// right root. It is also an example of a directory of such a store.
#[derive(Debug, Clone, Default)]
pub struct ShardedStore {
    shards: Arc<Mutex<HashMap<SessionId, MemoryStore>>>,
    directory: Arc<Mutex<Directory>>,
}

/// The facts about sessions that are kept outside of their shards.
#[derive(Debug, Default)]
struct Directory {
    /// The root of each child that was created, or was about to be.
    roots: BTreeMap<SessionId, SessionId>,
    /// The order in which sessions were created, for lists of sessions with equal times.
    made: BTreeMap<SessionId, u64>,
    count: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory answers at once.
fn at_once<T>(answer: impl Future<Output = T>) -> T {
    answer
        .now_or_never()
        .unwrap_or_else(|| unreachable!("memory waits for nothing"))
}

impl ShardedStore {
    /// Creates a store without sessions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn shard(&self, root: &SessionId) -> MemoryStore {
        lock(&self.shards).entry(root.clone()).or_default().clone()
    }

    fn all(&self) -> Vec<MemoryStore> {
        lock(&self.shards).values().cloned().collect()
    }

    /// Whether an id belongs to a session of another root. A directory entry whose session was not
    /// created is ignored.
    fn is_taken(
        &self,
        directory: &Directory,
        root: &SessionId,
        session: &SessionId,
    ) -> Result<bool, StoreError> {
        let is_there = |place: &SessionId| {
            let key = SessionKey::new(place, session);
            Ok::<_, StoreError>(at_once(self.shard(place).load(key))?.is_some())
        };
        if let Some(place) = directory.roots.get(session)
            && place != root
            && is_there(place)?
        {
            return Ok(true);
        }
        Ok(session != root && is_there(session)?)
    }

    /// Refuses a commit that creates a session with an id of another root, and writes the directory
    /// before children are created.
    fn enrol(&self, commit: &Commit) -> Result<MutexGuard<'_, Directory>, StoreError> {
        let mut directory = lock(&self.directory);
        let wants = commit.preconditions.iter();
        let wants = wants.filter(|(_, condition)| *condition == Precondition::Absent);
        let makes = commit.changes.iter();
        let makes = makes.filter(|(_, change)| matches!(change, Change::Create(_)));
        let makes: Vec<_> = makes.map(|(session, _)| session).collect();
        for session in wants
            .map(|(session, _)| session)
            .chain(makes.iter().copied())
        {
            if self.is_taken(&directory, &commit.root, session)? {
                let session = session.clone();
                return Err(StoreError::AlreadyExists { session });
            }
        }
        for session in makes {
            directory.count += 1;
            let count = directory.count;
            directory.made.insert(session.clone(), count);
            if *session != commit.root {
                let root = commit.root.clone();
                directory.roots.insert(session.clone(), root);
            }
        }
        Ok(directory)
    }

    /// Reads all pages of a query from all shards.
    fn gather<T>(
        &self,
        mut page: impl FnMut(&MemoryStore, Page) -> Result<Paged<T>, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut all = Vec::new();
        for shard in self.all() {
            let mut next = Page::first(Page::MAX);
            loop {
                let found = page(&shard, next)?;
                all.extend(found.items);
                if !found.has_more {
                    break;
                }
                next.offset += next.limit;
            }
        }
        Ok(all)
    }
}

/// The due work of one shard after a cursor.
fn head(
    shard: &MemoryStore,
    query: &DueQuery,
) -> Result<Option<(DueCursor, DueSession)>, StoreError> {
    let mut query = query.clone().limit(1);
    loop {
        let page = at_once(shard.due(&query))?;
        let Some(place) = page.next else {
            return Ok(None);
        };
        if let Some(due) = page.items.into_iter().next() {
            return Ok(Some((place, due)));
        }
        query = query.after(Some(place));
    }
}

#[async_trait]
impl SessionStore for ShardedStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError> {
        // Held until the commit is made: who asks for one of its ids meanwhile waits.
        let _enrolled = self.enrol(&commit)?;
        at_once(self.shard(&commit.root).commit(commit))
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        self.shard(session.root).load(session).await
    }

    async fn messages(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<Message>, StoreError> {
        self.shard(session.root).messages(session, page).await
    }

    async fn state_at(
        &self,
        session: SessionKey<'_>,
        version: u64,
    ) -> Result<Arc<Value>, StoreError> {
        self.shard(session.root).state_at(session, version).await
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        self.shard(session.root).runs(session, which).await
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        self.shard(session.root).checkpoints(session, which).await
    }

    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        self.shard(session.root).answered(session, which).await
    }

    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras, StoreError> {
        self.shard(session.root).extras(session).await
    }

    async fn usage(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<UsageEntry>, StoreError> {
        self.shard(session.root).usage(session, page).await
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError> {
        Ok(lock(&self.directory).roots.get(session).cloned())
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        let mut all = self.gather(|shard, page| {
            let query = SessionQuery {
                page,
                ..query.clone()
            };
            at_once(shard.list(&query))
        })?;
        let directory = lock(&self.directory);
        all.sort_by_key(|session| {
            let made = directory.made.get(&session.session_id).copied();
            std::cmp::Reverse((session.created_at, made))
        });
        Ok(Paged::of(all.into_iter(), query.page.capped()))
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        let mut all = self.gather(|shard, page| {
            let query = PendingQuery {
                page,
                ..query.clone()
            };
            at_once(shard.pending(&query))
        })?;
        all.sort_by_key(|call| {
            let (session, id) = (call.session_id.clone(), call.tool_call_id.clone());
            (call.created_at, session, id)
        });
        Ok(Paged::of(all.into_iter(), query.page.capped()))
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError> {
        let mut page = DuePage {
            at: query.at,
            items: Vec::new(),
            next: query.after.clone(),
        };
        while page.items.len() < query.limit {
            let next = query.clone().after(page.next.clone());
            let mut heads = Vec::new();
            for shard in self.all() {
                heads.extend(head(&shard, &next)?);
            }
            let Some((place, due)) = heads.into_iter().min_by(|a, b| a.0.cmp(&b.0)) else {
                page.next = None;
                return Ok(page);
            };
            page.items.push(due);
            page.next = Some(place);
        }
        Ok(page)
    }

    async fn backlog(&self, at: Timestamp) -> Result<Backlog, StoreError> {
        let mut all = Backlog::default();
        for shard in self.all() {
            all.add(&at_once(shard.backlog(at))?);
        }
        Ok(all)
    }
}

#[async_trait]
impl WatchStops for ShardedStore {
    async fn stopped(
        &self,
        session: SessionKey<'_>,
        run: &RunId,
    ) -> Result<StopRequest, StoreError> {
        self.shard(session.root).stopped(session, run).await
    }
}

#[async_trait]
impl StreamManager for ShardedStore {
    fn limits(&self) -> StreamLimits {
        MemoryStore::new().limits()
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        self.shard(&writer.root).append_deltas(writer, chunks).await
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        let shard = self.shard(&writer.root);
        shard.discard_deltas(writer, after, say).await
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        self.shard(root).read(root, after, limit).await
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        self.shard(root).info(root).await
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        self.shard(root).changed(root, known).await
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.shard(root).condense(root, up_to).await
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.shard(root).trim(root, up_to).await
    }
}
