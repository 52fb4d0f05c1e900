//! A store that fails, delays calls and loses acknowledgements.

mod faults;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use helix_agents_core::message::Message;
use helix_agents_core::notify::Notify;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState, StopRequest};
use helix_agents_core::store::{
    AnsweredCall, Backlog, Commit, DuePage, DueQuery, Lookup, Page, Paged, PendingQuery, Receipt,
    SessionExtras, SessionKey, SessionQuery, SessionStore, Snapshot, StoreError, WatchStops,
};
use helix_agents_core::stream::{
    Chunk, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits, StreamManager,
    StreamWriter,
};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_core::usage::UsageEntry;
use helix_agents_core::{CallId, CheckpointId, RunId, SessionId};
use serde_json::Value;

pub use self::faults::Faults;
use crate::{Dice, VirtualClock, block_on, yields};

/// The fate of a call, chosen before it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallFate {
    Works,
    Fails,
    LosesAcknowledgement,
    Hangs,
}

#[derive(Debug, Default)]
struct FaultState {
    off: bool,
    calls: usize,
    /// The number of calls that fail next.
    burst: usize,
    /// The end of the outage, if there is one.
    outage: Option<Timestamp>,
    /// The number of calls that succeed next.
    quiet: usize,
}

/// A store in front of another. Its calls fail before they are executed, are executed and lose their
/// acknowledgement, sleep, or succeed. A seed decides which. Clones are the same store.
///
/// It waits for the store behind it on the calling thread, so that a store with threads of its own
/// is as deterministic as any other. Use it in tasks of one [`Scheduler`](crate::Scheduler).
#[derive(Debug, Clone)]
pub struct UnreliableStore {
    inner: Backend,
    clock: Arc<VirtualClock>,
    dice: Dice,
    faults: Faults,
    fault_state: Arc<Mutex<FaultState>>,
    bell: Notify,
    commit_observer: Option<Arc<dyn CommitObserver>>,
}

/// Observes every commit that was made, with the root before and after it.
pub(crate) trait CommitObserver: Send + Sync + std::fmt::Debug {
    fn committed(&self, commit: &Commit, before: Option<&Snapshot>, after: Option<&Snapshot>);
}

impl UnreliableStore {
    /// Makes a store in front of this one.
    #[must_use]
    pub fn new(inner: Backend, clock: Arc<VirtualClock>, dice: Dice, faults: Faults) -> Self {
        Self {
            inner,
            clock,
            dice,
            faults,
            fault_state: Arc::default(),
            bell: Notify::new(),
            commit_observer: None,
        }
    }

    /// Calls this observer with every commit that is made.
    pub(crate) fn observed_by(mut self, commit_observer: Arc<dyn CommitObserver>) -> Self {
        self.commit_observer = Some(commit_observer);
        self
    }

    /// Executes a write, and wakes those that wait for changes.
    async fn notifying<T>(&self, write: impl Future<Output = T> + Send) -> T {
        let done = write.await;
        self.bell.ring();
        done
    }

    /// Makes a commit and calls the observer. No other task runs meanwhile.
    async fn make(&self, commit: Commit) -> Result<Receipt, StoreError> {
        let Some(commit_observer) = &self.commit_observer else {
            return self.inner.store.commit(commit).await;
        };
        let root = commit.root.clone();
        let before = self.inner.store.load(root.as_root()).await?;
        let receipt = self.inner.store.commit(commit.clone()).await?;
        let after = self.inner.store.load(root.as_root()).await?;
        commit_observer.committed(&commit, before.as_ref(), after.as_ref());
        Ok(receipt)
    }

    /// The same data through a store with other faults, which are chosen independently.
    #[must_use]
    pub fn with_faults(&self, faults: Faults) -> Self {
        Self {
            dice: self.dice.fork(),
            faults,
            fault_state: Arc::default(),
            ..self.clone()
        }
    }

    /// The store as a backend.
    #[must_use]
    pub fn backend(&self) -> Backend {
        Backend::new(self.clone())
    }

    /// Lets every call succeed at once from now on.
    pub fn calm_down(&self) {
        self.fault_state().off = true;
    }

    /// The number of calls so far.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.fault_state().calls
    }

    fn fault_state(&self) -> MutexGuard<'_, FaultState> {
        self.fault_state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self) -> CallFate {
        let (faults, dice) = (&self.faults, &self.dice);
        let now = self.clock.now();
        let mut fault_state = self.fault_state();
        fault_state.calls += 1;
        if fault_state.off {
            return CallFate::Works;
        }
        if fault_state.calls > faults.calls {
            return CallFate::Hangs;
        }
        if let Some(until) = fault_state.outage {
            if now < until {
                return CallFate::Fails;
            }
            fault_state.outage = None;
            fault_state.quiet = faults.quiet;
        }
        if fault_state.burst == 0 && fault_state.quiet > 0 {
            fault_state.quiet -= 1;
            return CallFate::Works;
        }
        if fault_state.burst == 0 {
            if dice.chance(faults.outages) {
                let longest = usize::try_from(faults.longest_outage.as_millis()).unwrap_or(0);
                let lasts = u64::try_from(dice.below(longest)).unwrap_or(0);
                fault_state.outage = Some(now.saturating_add(Duration::from_millis(lasts)));
                return CallFate::Fails;
            }
            if !dice.chance(faults.bursts) {
                return CallFate::Works;
            }
            fault_state.burst = 1 + dice.below(faults.longest_burst);
        }
        fault_state.burst -= 1;
        if fault_state.burst == 0 {
            fault_state.quiet = faults.quiet;
        }
        if dice.chance(faults.lost) {
            CallFate::LosesAcknowledgement
        } else {
            CallFate::Fails
        }
    }

    /// Yields to other tasks, at most this many times.
    async fn linger(&self, most: usize) {
        if self.fault_state().off {
            return;
        }
        if self.faults.sleeps > 0 && self.dice.chance(self.faults.sleeps) {
            let longest = usize::try_from(self.faults.longest_sleep.as_millis()).unwrap_or(0);
            let millis = u64::try_from(self.dice.below(longest)).unwrap_or(0);
            let until = self
                .clock
                .now()
                .saturating_add(Duration::from_millis(millis));
            self.clock.sleep_until(until).await;
        }
        // One way is no choice: who explores orders wants to know where the places are.
        let times = if most <= 1 {
            most
        } else {
            self.dice.below(most + 1)
        };
        yields(times).await;
    }

    async fn call<T, E: From<StoreError>>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let fate = self.fate();
        self.linger(self.faults.yields).await;
        match fate {
            CallFate::Hangs => std::future::pending().await,
            CallFate::Fails => return Err(unavailable(name).into()),
            CallFate::Works | CallFate::LosesAcknowledgement => {}
        }
        let done = block_on(call);
        // The call was executed, also if its process is dropped here.
        self.linger(self.faults.yields_after).await;
        match fate {
            CallFate::LosesAcknowledgement => Err(unavailable(name).into()),
            _ => done,
        }
    }
}

fn unavailable(name: &'static str) -> StoreError {
    StoreError::Unavailable {
        backend: "unreliable",
        source: format!("the answer to {name} did not come").into(),
    }
}

#[async_trait]
impl SessionStore for UnreliableStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError> {
        self.call("commit", self.notifying(self.make(commit))).await
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        self.call("load", self.inner.store.load(session)).await
    }

    async fn messages(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<Message>, StoreError> {
        let call = self.inner.store.messages(session, page);
        self.call("messages", call).await
    }

    async fn state_at(
        &self,
        session: SessionKey<'_>,
        version: u64,
    ) -> Result<Arc<Value>, StoreError> {
        let call = self.inner.store.state_at(session, version);
        self.call("state_at", call).await
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        self.call("runs", self.inner.store.runs(session, which))
            .await
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        let call = self.inner.store.checkpoints(session, which);
        self.call("checkpoints", call).await
    }

    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras, StoreError> {
        self.call("extras", self.inner.store.extras(session)).await
    }

    async fn usage(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<UsageEntry>, StoreError> {
        self.call("usage", self.inner.store.usage(session, page))
            .await
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError> {
        self.call("root_of", self.inner.store.root_of(session))
            .await
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        self.call("list", self.inner.store.list(query)).await
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        self.call("pending", self.inner.store.pending(query)).await
    }

    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        let answered = self.inner.store.answered(session, which);
        self.call("answered", answered).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError> {
        self.call("due", self.inner.store.due(query)).await
    }

    async fn backlog(&self, at: Timestamp) -> Result<Backlog, StoreError> {
        self.call("backlog", self.inner.store.backlog(at)).await
    }
}

#[async_trait]
impl StreamManager for UnreliableStore {
    fn limits(&self) -> StreamLimits {
        self.inner.streams.limits()
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        let call = self.inner.streams.append_deltas(writer, chunks);
        self.call("append_deltas", self.notifying(call)).await
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        let call = self.inner.streams.discard_deltas(writer, after, say);
        self.call("discard_deltas", self.notifying(call)).await
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        let call = self.inner.streams.read(root, after, limit);
        self.call("read", call).await
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        self.call("info", self.inner.streams.info(root)).await
    }

    async fn catch_up(&self, root: &SessionId) -> Result<(), StreamError> {
        block_on(self.inner.streams.catch_up(root))
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        loop {
            let heard = self.bell.heard();
            if StreamInfo::differs(self.info(root).await?, known) {
                return Ok(());
            }
            heard.await;
        }
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        let call = self.inner.streams.condense(root, up_to);
        self.call("condense", self.notifying(call)).await
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        let call = self.inner.streams.trim(root, up_to);
        self.call("trim", self.notifying(call)).await
    }
}

#[async_trait]
impl WatchStops for UnreliableStore {
    async fn stopped(
        &self,
        session: SessionKey<'_>,
        run: &RunId,
    ) -> Result<StopRequest, StoreError> {
        loop {
            let heard = self.bell.heard();
            let found = self.load(session).await?;
            let found = found.ok_or_else(|| StoreError::NotFound {
                session: session.session.clone(),
            })?;
            match found.stop.filter(|stop| stop.run_id == *run) {
                Some(stop) => return Ok(stop),
                None => heard.await,
            }
        }
    }
}
