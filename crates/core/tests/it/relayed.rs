//! A store whose streams are elsewhere: what is relayed, when, and once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use helix_agents_core::memory::{MemoryLog, MemoryStore};
use helix_agents_core::session::{RunRecord, RunStatus, RunTrigger};
use helix_agents_core::store::{
    Change, Commit, Fence, NewSession, SessionStore, Sessions, StoreError,
};
use helix_agents_core::stream::{
    Chunk, ChunkOrigin, ChunkPayload, Outbox, OutboxEntry, OutboxPosition, RelayLeftovers, Relayed,
    Sequence, StreamError, StreamInfo, StreamLog, StreamManager, StreamStatus, StreamWriter,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{AgentId, Coded, RunId, SessionId};
use helix_agents_testkit::{VirtualClock, block_on};

const NOW: Timestamp = Timestamp::from_millis(0);

/// The parts of a deployment, and two processes of it.
struct Parts {
    store: MemoryStore,
    log: MemoryLog,
    here: Relayed,
    there: Relayed,
    root: SessionId,
}

/// A process with its own way to a store and to streams.
fn process(store: &MemoryStore, log: &MemoryLog) -> Relayed {
    let shared = Arc::new(store.clone());
    Relayed::new(shared.clone(), shared, Arc::new(log.clone()))
}

impl Parts {
    fn new() -> Self {
        let (store, log) = (MemoryStore::new().with_outbox(), MemoryLog::new());
        let (here, there) = (process(&store, &log), process(&store, &log));
        let root = SessionId::new("s").unwrap();
        let clock = VirtualClock::new(NOW);
        let sessions = Sessions::new(&here, &clock);
        block_on(sessions.create_session(&root, NewSession::of("agent"))).unwrap();
        Self {
            store,
            log,
            here,
            there,
            root,
        }
    }

    /// Replaces the streams by ones that know nothing.
    fn lose_streams(&mut self) {
        self.log = MemoryLog::new();
        self.here = process(&self.store, &self.log);
        self.there = process(&self.store, &self.log);
    }

    fn info(&self) -> StreamInfo {
        let info = self.here.info(&self.root);
        block_on(info).unwrap().unwrap()
    }

    /// Starts a run that ends suspended.
    fn suspend_a_run(&self) {
        let (id, root) = (RunId::new("r").unwrap(), self.root.clone());
        let mut run = RunRecord::started(id, root.clone(), RunTrigger::Execute, "test", NOW);
        let start = Commit::new(root.clone(), NOW).then(Change::StartRun(Box::new(run.clone())));
        block_on(self.here.commit(start)).unwrap();
        run.status = RunStatus::SuspendedClientTool;
        let end = Commit::new(root, NOW).then(Change::Run(Box::new(run)));
        block_on(self.here.commit(end.stream(StreamStatus::Paused))).unwrap();
    }

    fn chunk(&self, text: &str) -> Chunk {
        let (agent, run) = (AgentId::new("a").unwrap(), RunId::new("r").unwrap());
        let origin = ChunkOrigin::new(agent, "agent", self.root.clone(), run, 1);
        let delta = text.to_owned();
        Chunk::new(Arc::new(origin), NOW, ChunkPayload::TextDelta { delta })
    }

    fn commit(&self, text: &str) -> Commit {
        Commit::new(self.root.clone(), NOW).say(self.chunk(text))
    }

    /// A commit of a process that ends before it relays.
    fn unrelayed(&self, text: &str) {
        block_on(self.store.commit(self.commit(text))).unwrap();
    }

    fn write(&self, process: &Relayed, fence: u64, text: &str) -> Result<Sequence, StreamError> {
        let writer = StreamWriter::new(self.root.clone(), self.root.clone(), Fence(fence));
        block_on(process.append_deltas(&writer, vec![self.chunk(text)]))
    }

    fn words(&self) -> Vec<String> {
        let read = block_on(self.log.read(&self.root, Sequence::START, 100)).unwrap();
        let words = read.into_iter().map(|stored| match stored.chunk.payload {
            ChunkPayload::TextDelta { delta } => delta,
            other => panic!("{other:?}"),
        });
        words.collect()
    }
}

#[test]
fn what_a_dead_process_left_comes_before_the_next_delta() {
    let parts = Parts::new();
    parts.unrelayed("one");
    assert!(parts.words().is_empty());
    parts.write(&parts.there, 0, "two").unwrap();
    assert_eq!(parts.words(), ["one", "two"]);
}

#[test]
fn what_a_dead_process_left_comes_before_the_next_commit() {
    let parts = Parts::new();
    parts.unrelayed("one");
    let receipt = block_on(parts.there.commit(parts.commit("two"))).unwrap();
    assert_eq!(receipt.sequence, Sequence(2));
    assert_eq!(parts.words(), ["one", "two"]);
}

#[test]
fn a_sweep_relays_what_nobody_writes_to() {
    let parts = Parts::new();
    for text in ["one", "two"] {
        parts.unrelayed(text);
    }
    assert_eq!(block_on(parts.there.relay_leftovers(10)).unwrap(), 1);
    assert_eq!(parts.words(), ["one", "two"]);
    assert_eq!(block_on(parts.there.relay_leftovers(10)).unwrap(), 0);
}

#[test]
fn an_entry_that_comes_late_or_twice_is_left_out() {
    let parts = Parts::new();
    parts.unrelayed("one");
    let early = block_on(parts.store.entries(&parts.root, 0, 10)).unwrap();
    block_on(parts.here.commit(parts.commit("two"))).unwrap();
    for _ in 0..2 {
        block_on(parts.log.relay(&parts.root, &early)).unwrap();
    }
    assert_eq!(parts.words(), ["one", "two"]);

    let delete = Commit::new(parts.root.clone(), NOW).then(Change::Delete);
    block_on(parts.here.commit(delete)).unwrap();
    block_on(parts.log.relay(&parts.root, &early)).unwrap();
    assert!(parts.words().is_empty(), "the stream is deleted");
    let info = block_on(parts.log.info(&parts.root)).unwrap();
    assert_eq!(info, None);
}

/// The take-over is in the store, and the process that made it died before it was relayed.
#[test]
fn a_writer_that_was_taken_over_is_refused_before_the_take_over_is_relayed() {
    let parts = Parts::new();
    parts.write(&parts.here, 0, "mine").unwrap();
    let raise = Commit::new(parts.root.clone(), NOW).then(Change::RaiseFence);
    block_on(parts.store.commit(raise)).unwrap();
    let refused = parts.write(&parts.here, 0, "late").unwrap_err();
    assert!(
        matches!(refused, StreamError::Superseded { .. }),
        "{refused}"
    );
    parts.write(&parts.there, 1, "theirs").unwrap();
    assert_eq!(parts.words(), ["mine", "theirs"]);
}

/// A writer goes on where the streams were lost: its session is looked up in the store. Sequences are higher than
/// before, and readers are told that everything up to there is gone.
#[test]
fn a_stream_that_was_lost_begins_anew_for_the_next_delta() {
    let mut parts = Parts::new();
    block_on(parts.here.commit(parts.commit("one"))).unwrap();
    let before = parts.write(&parts.here, 0, "two").unwrap();
    let known = parts.info();
    parts.lose_streams();
    let lost = parts.write(&parts.here, 0, "three").unwrap_err();
    let StreamError::Store(error) = lost else {
        panic!("{lost}");
    };
    assert!(error.is_retryable(), "{error}");
    let after = parts.write(&parts.here, 0, "three").unwrap();
    let info = parts.info();
    assert_eq!(info.incarnation, known.incarnation);
    assert!(
        before < info.trimmed && info.trimmed.next() == after,
        "{info:?}"
    );
    assert_eq!(parts.words(), ["three"]);
    // Who may not write according to the store may not write.
    let refused = parts.write(&parts.there, 7, "late").unwrap_err();
    assert!(
        matches!(refused, StreamError::Superseded { .. }),
        "{refused}"
    );
}

#[test]
fn a_stream_that_was_lost_begins_anew_for_the_next_commit() {
    let mut parts = Parts::new();
    block_on(parts.here.commit(parts.commit("one"))).unwrap();
    let known = parts.info();
    parts.lose_streams();
    let receipt = block_on(parts.here.commit(parts.commit("two"))).unwrap();
    let info = parts.info();
    assert_eq!(info.incarnation, known.incarnation);
    assert!(known.last < info.trimmed, "{info:?}");
    assert_eq!(receipt.sequence, info.trimmed.next());
    assert_eq!(parts.words(), ["two"]);
}

/// Nobody writes any more: a reader learns how the turn stands from the store.
#[test]
fn a_reader_of_a_lost_stream_is_told_what_the_store_knows() {
    let mut parts = Parts::new();
    let ended = Commit::new(parts.root.clone(), NOW).stream(StreamStatus::Ended);
    block_on(parts.here.commit(ended)).unwrap();
    parts.lose_streams();
    // A session that never ran is open.
    let info = parts.info();
    assert_eq!(info.status, StreamStatus::Active);
    assert!(info.trimmed == info.last && info.last > Sequence::START);
    let delete = Commit::new(parts.root.clone(), NOW).then(Change::Delete);
    block_on(parts.there.commit(delete)).unwrap();
    assert_eq!(block_on(parts.here.info(&parts.root)).unwrap(), None);
}

/// The first entry that the new stream is told says nothing about its status: that of the store counts.
#[test]
fn a_stream_that_begins_anew_without_a_status_is_told_that_of_its_session() {
    let mut parts = Parts::new();
    parts.suspend_a_run();
    assert_eq!(parts.info().status, StreamStatus::Paused);
    parts.lose_streams();
    let receipt = block_on(parts.here.commit(parts.commit("warning"))).unwrap();
    let info = parts.info();
    assert_eq!(info.status, StreamStatus::Paused);
    assert_eq!(receipt.sequence, info.last);
    assert_eq!(parts.words(), ["warning"]);
    // It is whole: what follows changes nothing.
    parts.write(&parts.there, 0, "more").unwrap();
    assert_eq!(parts.info().status, StreamStatus::Paused);
    assert_eq!(parts.words(), ["warning", "more"]);
}

/// The process that began it anew died at once.
#[test]
fn a_stream_that_was_left_without_a_status_is_told_it_by_whoever_looks_next() {
    let mut parts = Parts::new();
    parts.suspend_a_run();
    parts.lose_streams();
    parts.unrelayed("warning");
    let left = block_on(parts.store.entries(&parts.root, 0, 10)).unwrap();
    block_on(parts.log.relay(&parts.root, &left)).unwrap();
    parts.unrelayed("again");
    block_on(parts.there.catch_up(&parts.root)).unwrap();
    assert_eq!(parts.info().status, StreamStatus::Paused);
    assert_eq!(parts.words(), ["warning", "again"]);
}

/// The outbox was switched on for sessions that had their streams in the store: sequences go on above those.
#[test]
fn a_stream_that_moved_begins_after_what_it_was() {
    let store = MemoryStore::new();
    let clock = VirtualClock::new(NOW);
    let root = SessionId::new("s").unwrap();
    let sessions = Sessions::new(&store, &clock);
    block_on(sessions.create_session(&root, NewSession::of("agent"))).unwrap();
    let said = Commit::new(root.clone(), NOW).stream(StreamStatus::Paused);
    block_on(store.commit(said)).unwrap();
    let before = block_on(store.info(&root)).unwrap().unwrap();
    let moved = process(&store.clone().with_outbox(), &MemoryLog::new());
    let said = Commit::new(root.clone(), NOW).stream(StreamStatus::Active);
    block_on(moved.commit(said)).unwrap();
    let after = block_on(moved.info(&root)).unwrap().unwrap();
    assert!(after.trimmed > before.last, "{after:?}");
}

/// Whoever reads the store and then the stream finds in it what the store has.
#[test]
fn a_stream_catches_up_with_what_a_dead_process_left() {
    let parts = Parts::new();
    parts.unrelayed("one");
    block_on(parts.there.catch_up(&parts.root)).unwrap();
    assert_eq!(parts.words(), ["one"]);
}

/// A turn was over when the streams were saved, and the next had begun when that was lost.
#[test]
fn a_stream_at_rest_that_lost_what_followed_is_told_how_it_goes_on() {
    let mut parts = Parts::new();
    let paused = Commit::new(parts.root.clone(), NOW).stream(StreamStatus::Paused);
    block_on(parts.store.commit(paused)).unwrap();
    let saved = block_on(parts.store.entries(&parts.root, 0, 10)).unwrap();
    block_on(parts.here.catch_up(&parts.root)).unwrap();
    assert_eq!(parts.info().status, StreamStatus::Paused);
    let goes_on = Commit::new(parts.root.clone(), NOW).stream(StreamStatus::Active);
    block_on(parts.here.commit(goes_on)).unwrap();
    parts.lose_streams();
    block_on(parts.log.relay(&parts.root, &saved)).unwrap();
    let stale = block_on(parts.log.info(&parts.root)).unwrap().unwrap();
    assert_eq!(stale.status, StreamStatus::Paused);
    let info = parts.info();
    assert_eq!(info.status, StreamStatus::Active);
    assert!(info.trimmed > stale.last, "{info:?}");
}

/// An outbox that cannot be read for one root, while it is said so.
#[derive(Debug)]
struct Unreadable {
    store: MemoryStore,
    root: SessionId,
    refuses: AtomicBool,
    read: AtomicUsize,
}

impl Unreadable {
    fn of(parts: &Parts) -> Arc<Self> {
        Arc::new(Self {
            store: parts.store.clone(),
            root: parts.root.clone(),
            refuses: AtomicBool::new(true),
            read: AtomicUsize::new(0),
        })
    }
}

#[async_trait]
impl Outbox for Unreadable {
    async fn entries(
        &self,
        root: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, OutboxEntry)>, StoreError> {
        self.read.fetch_add(1, Ordering::Relaxed);
        if *root == self.root && self.refuses.load(Ordering::Relaxed) {
            return Err(StoreError::Backend {
                backend: "test",
                source: "unreadable".into(),
            });
        }
        self.store.entries(root, after, limit).await
    }

    async fn relayed(&self, root: &SessionId, up_to: u64) -> Result<(), StoreError> {
        self.store.relayed(root, up_to).await
    }

    async fn waiting(&self, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        self.store.waiting(limit).await
    }

    async fn head(&self, root: &SessionId) -> Result<Option<OutboxPosition>, StoreError> {
        self.store.head(root).await
    }
}

#[test]
fn a_root_that_cannot_be_relayed_keeps_no_other_waiting() {
    let parts = Parts::new();
    let other = SessionId::new("t").unwrap();
    let clock = VirtualClock::new(NOW);
    let sessions = Sessions::new(&parts.here, &clock);
    block_on(sessions.create_session(&other, NewSession::of("agent"))).unwrap();
    // What is unreadable was left first.
    parts.unrelayed("one");
    let said = Commit::new(other.clone(), NOW).stream(StreamStatus::Paused);
    block_on(parts.store.commit(said)).unwrap();
    let outbox = Unreadable::of(&parts);
    let store = Arc::new(parts.store.clone());
    let process = Relayed::new(store, outbox.clone(), Arc::new(parts.log.clone()));
    // Not even if there is no place beside it.
    assert!(block_on(process.relay_leftovers(1)).is_err());
    assert_eq!(block_on(process.relay_leftovers(1)).unwrap(), 1);
    let told = block_on(parts.log.info(&other)).unwrap().unwrap();
    assert_eq!(told.status, StreamStatus::Paused);
    assert!(block_on(process.relay_leftovers(10)).is_err());
    outbox.refuses.store(false, Ordering::Relaxed);
    assert_eq!(block_on(process.relay_leftovers(1)).unwrap(), 1);
    assert_eq!(parts.words(), ["one"]);
}

/// A process reads its own commits, so it relays first what it could not. It need not for ever.
#[test]
fn a_process_forgets_what_others_have_relayed() {
    let parts = Parts::new();
    let outbox = Unreadable::of(&parts);
    let store = Arc::new(parts.store.clone());
    let process = Relayed::new(store, outbox.clone(), Arc::new(parts.log.clone()));
    block_on(process.commit(parts.commit("one"))).unwrap();
    assert_eq!(block_on(parts.there.relay_leftovers(10)).unwrap(), 1);
    assert_eq!(block_on(process.relay_leftovers(10)).unwrap(), 0);
    let before = outbox.read.load(Ordering::Relaxed);
    let read = block_on(process.read(&parts.root, Sequence::START, 10)).unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!(outbox.read.load(Ordering::Relaxed), before);
}
