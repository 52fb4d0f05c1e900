//! In-memory implementations of the ports, for tests, for experiments, and as the simplest
//! form of each contract.

mod due;
mod log;
mod notifiers;
mod outbox;
mod query;
mod record;
mod state_log;
mod streams;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::id::{CallId, CheckpointId, RunId, SessionId};
use crate::message::Message;
use crate::session::{Checkpoint, PendingCall, RunRecord, SessionState, StopRequest};
use crate::store::{
    AnsweredCall, Backlog, Commit, DuePage, DueQuery, Fence, Header, Headers, Lookup, Page, Paged,
    PendingQuery, Receipt, SessionExtras, SessionKey, SessionQuery, SessionStore, Snapshot,
    StoreError, WatchStops, plan,
};
use crate::stream::{DELTA_WINDOW, Incarnation, Sequence, StreamLimits, StreamStatus};
use crate::time::{Clock, Timestamp};
use crate::usage::UsageEntry;

use due::DueIndex;
use notifiers::Notifiers;
use outbox::Entries;
use record::Record;
use state_log::StateLog;
use streams::{EndedTurns, Log};

pub use log::MemoryLog;

/// Sessions and streams in memory. Clones are the same store.
///
/// Without its own clock it judges leases and due work by the time that each commit
/// and each query carries.
///
/// ```
/// use helix_agents::prelude::*;
///
/// // Sessions are gone when the last clone is dropped.
/// let runtime = LocalRuntime::new(MemoryStore::new());
/// ```
#[derive(Debug, Clone)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
    notifiers: Notifiers,
    /// Rung when a session is asked to stop or deleted, and not with every commit.
    stop_notifiers: Notifiers,
    clock: Option<Arc<dyn Clock>>,
    /// How long the deltas of a turn are kept after its end.
    window: Duration,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self {
            inner: Arc::default(),
            notifiers: Notifiers::default(),
            stop_notifiers: Notifiers::default(),
            clock: None,
            window: DELTA_WINDOW,
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    sessions: BTreeMap<SessionId, Record>,
    streams: HashMap<SessionId, Log>,
    due: DueIndex,
    ended: EndedTurns,
    /// The number of sessions created, so that a list has an order within a millisecond.
    created: u64,
    /// The fence at which new sessions begin.
    floor: Fence,
    /// The number of streams that were ever created.
    begun: u64,
    /// What commits leave for streams elsewhere, if streams are there.
    outbox: Option<Entries>,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the store judge leases and due work by this clock, whatever time callers pass.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets how long the deltas of a turn are kept after its end; 10 minutes by default. After that, readers
    /// get each reply as a whole, made from the messages. A runtime's sweeper removes them.
    #[must_use]
    pub fn keep_deltas(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Returns the current time of this store; `given` is the caller's time, used without a clock.
    fn now(&self, given: Timestamp) -> Timestamp {
        self.clock.as_ref().map_or(given, |clock| clock.now())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A commit is planned and checked before anything is changed, and the changes do not panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Returns a session under its root.
    fn find(&self, key: SessionKey<'_>) -> Option<&Record> {
        let record = self.sessions.get(key.session);
        record.filter(|record| key.names(&record.header.session))
    }

    fn get(&self, key: SessionKey<'_>) -> Result<&Record, StoreError> {
        self.find(key).ok_or_else(|| StoreError::NotFound {
            session: key.session.clone(),
        })
    }

    fn record(&self, session: &SessionId) -> Result<&Record, StoreError> {
        self.sessions
            .get(session)
            .ok_or_else(|| StoreError::NotFound {
                session: session.clone(),
            })
    }

    fn commit(&mut self, commit: Commit, now: Timestamp) -> Result<Receipt, StoreError> {
        let root = commit.root.clone();
        let mut headers = Headers::new();
        for id in commit.named() {
            if !headers.contains_key(id)
                && let Some(record) = self.sessions.get(id)
            {
                headers.insert(id.clone(), Arc::clone(&record.header));
            }
        }
        let kept = |session: &SessionId, count| Ok(self.record(session)?.kept(count));
        let limits = StreamLimits::default();
        let mut plan = plan(commit, &headers, now, limits, || Ok(self.floor), kept)?;
        record::check(&self.sessions, &plan.rows)?;

        // From here on nothing fails: the commit is made.
        let left = self.leave(&root, &plan, &headers);
        self.floor = self.floor.max(plan.floor.unwrap_or_default());
        for (session, row) in std::mem::take(&mut plan.rows) {
            if row == crate::store::Row::DeleteAll {
                self.sessions.remove(&session);
                self.streams.remove(&session);
                continue;
            }
            let record = self.sessions.entry(session).or_insert_with(|| {
                self.created += 1;
                Record::new(self.created)
            });
            record.write(row);
        }
        for (session, header) in plan.headers.iter() {
            let before = headers.get(session).map(|before| &**before);
            self.due.update(session, before, header.as_deref());
            if let Some(header) = header
                && let Some(record) = self.sessions.get_mut(session)
            {
                record.header.clone_from(header);
                if before.is_some_and(Header::is_running) && header.is_at_rest() {
                    record.rest();
                }
            }
        }
        let sequence = match left {
            Some(number) => number,
            None => self.say(&root, &mut plan, now),
        };
        Ok(plan.receipt(&headers, sequence))
    }

    /// Returns the stream of a root, which is created if there is none.
    fn stream(&mut self, root: &SessionId) -> &mut Log {
        self.streams.entry(root.clone()).or_insert_with(|| {
            self.begun += 1;
            Log::new(Incarnation(self.begun))
        })
    }

    fn say(&mut self, root: &SessionId, plan: &mut crate::store::Plan, now: Timestamp) -> Sequence {
        let chunks = std::mem::take(&mut plan.chunks);
        if chunks.is_empty() && plan.stream.is_none() && plan.rewind.is_none() {
            return self.streams.get(root).map_or(Sequence::START, Log::last);
        }
        let log = self.stream(root);
        if let Some(rewind) = &plan.rewind {
            log.rewind(rewind);
        }
        log.append(chunks, false);
        if let Some(status) = plan.stream {
            log.status = status;
        }
        let (incarnation, last) = (log.incarnation(), log.last());
        if matches!(
            plan.stream,
            Some(StreamStatus::Ended | StreamStatus::Failed)
        ) {
            let turn = (now, root.clone(), incarnation, last);
            self.ended.insert(turn);
        }
        last
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl SessionStore for MemoryStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError> {
        let mut inner = self.lock();
        let now = self.now(commit.at);
        let root = commit.root.clone();
        let stops = commit.stopped_sessions().next().is_some();
        let receipt = inner.commit(commit, now)?;
        drop(inner);
        self.notifiers.of(&root).ring();
        if stops {
            self.stop_notifiers.of(&root).ring();
        }
        Ok(receipt)
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.lock().find(session).map(Record::snapshot))
    }

    async fn messages(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<Message>, StoreError> {
        let inner = self.lock();
        let messages = inner
            .find(session)
            .map_or(&[][..], |record| &record.messages);
        Ok(Paged::of(messages.iter().cloned(), page))
    }

    async fn state_at(
        &self,
        session: SessionKey<'_>,
        version: u64,
    ) -> Result<Arc<Value>, StoreError> {
        let inner = self.lock();
        let found = inner.get(session)?.states.at(version);
        found.ok_or_else(|| StoreError::Invalid {
            session: session.session.clone(),
            reason: format!("its state has no version {version}"),
        })
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        let inner = self.lock();
        let runs = inner.find(session).map_or(&[][..], |record| &record.runs);
        Ok(query::lookup(runs.iter(), which, |run| &run.id))
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        let inner = self.lock();
        let all = inner
            .find(session)
            .map_or(&[][..], |record| &record.checkpoints);
        Ok(query::lookup(all.iter().rev(), which, |one| &one.id))
    }

    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        let inner = self.lock();
        let none = BTreeMap::new();
        let record = inner.find(session);
        let all = record.map_or(&none, |record| &record.answered);
        Ok(match which {
            Lookup::Page(page) => Paged::of(all.values().cloned(), page),
            Lookup::One(call) => Paged::of(all.get(&call).cloned().into_iter(), Page::ALL),
        })
    }

    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras, StoreError> {
        let inner = self.lock();
        Ok(inner.find(session).map(Record::extras).unwrap_or_default())
    }

    async fn usage(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<UsageEntry>, StoreError> {
        let inner = self.lock();
        let usage = inner.find(session).map_or(&[][..], |record| &record.usage);
        Ok(Paged::of(usage.iter().cloned(), page))
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError> {
        let inner = self.lock();
        let found = inner.sessions.get(session);
        let root = found.map(|record| record.header.session.root());
        Ok(root.filter(|root| *root != session).cloned())
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        Ok(query::list(&self.lock().sessions, query))
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        Ok(query::pending(&self.lock().sessions, query))
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError> {
        let inner = self.lock();
        let now = self.now(query.at);
        inner.due.page(&inner.sessions, query, now)
    }

    async fn backlog(&self, at: Timestamp) -> Result<Backlog, StoreError> {
        let inner = self.lock();
        let mut backlog = inner.due.backlog(self.now(at));
        for since in query::waiting(&inner.sessions) {
            backlog.add_pending(since);
        }
        Ok(backlog)
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl WatchStops for MemoryStore {
    async fn stopped(
        &self,
        session: SessionKey<'_>,
        run: &RunId,
    ) -> Result<StopRequest, StoreError> {
        loop {
            let heard = self.stop_notifiers.of(session.root).heard();
            let stop = self.lock().get(session)?.header.stop.clone();
            if let Some(stop) = stop.filter(|stop| stop.run_id == *run) {
                return Ok(stop);
            }
            heard.await;
        }
    }
}
