//! The runtime that a case tests, and helpers around it.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use helix_agents_core::agent::{Agent, AnyAgent};
use helix_agents_core::entries::{
    ExecuteRequest, ResumeMode, ResumeRequest, Submitted, ToolAnswer,
};
use helix_agents_core::id::IdSource;
use helix_agents_core::message::Message;
use helix_agents_core::runtime::{Backend, RunOptions, Runtime, RuntimeError, StartedRun};
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SubmissionOutcome};
use helix_agents_core::store::{Change, Commit, Lookup, Page, PendingQuery, Snapshot};
use helix_agents_core::stream::{ChunkPayload, Sequence, StoredChunk, StreamStatus};
use helix_agents_core::time::Clock;
use helix_agents_core::usage::UsageEntry;
use helix_agents_core::{CallId, SessionId};
use serde_json::Value;

use super::super::builders::call;
use super::super::everything::{Everything, everything};
use super::super::runner::in_time;
use super::super::{Runner, Subject, subject::Guard};
use super::lines::{named, transcript_lines};
use crate::threads::DAWN;
use crate::{NarrowStreams, SequentialIds, ThreadRuntime, VirtualClock};

/// The requirements of a case for the runtime that is made for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wanted {
    /// Whether it continues by itself when the last open call is answered.
    pub auto_continue: bool,
    /// The largest chunk that its streams take, if that matters.
    pub max_chunk_bytes: Option<usize>,
}

impl Wanted {
    /// The backend for the runtime, which every runtime that is made for a case must use.
    #[must_use]
    pub fn over(&self, backend: impl Into<Backend>) -> Backend {
        match self.max_chunk_bytes {
            Some(bytes) => NarrowStreams::over(backend, bytes),
            None => backend.into(),
        }
    }
}

type Make = Arc<dyn Fn(Wanted) -> BoxFuture<'static, Arc<dyn Runtime>> + Send + Sync>;

/// A runtime over a fresh store, and a way to get another one over the same store, as a new process
/// would have it.
///
/// Cases read the outcome of a run from the store, not from the memory of a runtime.
#[derive(Clone)]
pub struct RuntimeSubject {
    /// The runtime under test.
    pub runtime: Arc<dyn Runtime>,
    /// The clock that the runtime reads.
    pub clock: Arc<dyn Clock>,
    pub(super) runner: Runner,
    /// Whether waits take exactly as long as they should.
    pub(super) exact: bool,
    make: Make,
    agents: Arc<Mutex<Vec<AnyAgent>>>,
    kept: Vec<Guard>,
}

impl RuntimeSubject {
    /// Runtimes that this makes, all of them over one fresh store, in the time of this clock.
    pub async fn made_by(
        clock: Arc<dyn Clock>,
        make: impl Fn(Wanted) -> BoxFuture<'static, Arc<dyn Runtime>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            runtime: make(Wanted::default()).await,
            clock,
            runner: Runner::default(),
            exact: true,
            make: Arc::new(make),
            agents: Arc::default(),
            kept: Vec::new(),
        }
    }

    /// Runtimes of the test kit over one fresh store, which each of them opens anew, as a process does. The clock that
    /// `open` gets is theirs, too, and the runner performs their runs.
    pub async fn opened_by<B, F>(
        runner: Runner,
        open: impl Fn(Arc<dyn Clock>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        B: Into<Backend>,
        F: Future<Output = B> + Send,
    {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(DAWN).auto_advance());
        let ids: Arc<dyn IdSource> = Arc::new(SequentialIds::new());
        let time = Arc::clone(&clock);
        let make = move |wanted: Wanted| -> BoxFuture<'static, Arc<dyn Runtime>> {
            let (open, runner) = (open.clone(), runner.clone());
            let (clock, ids) = (Arc::clone(&time), Arc::clone(&ids));
            Box::pin(async move {
                let store = open(Arc::clone(&clock)).await;
                let runtime = ThreadRuntime::new(wanted.over(store))
                    .run_by(runner)
                    .with_clock(clock)
                    .with_ids(ids)
                    .remembering();
                let runtime = match wanted.auto_continue {
                    true => runtime.auto_continue(),
                    false => runtime,
                };
                Arc::new(runtime) as Arc<dyn Runtime>
            })
        };
        Self::made_by(clock, make).await
    }

    /// Declares that the clock is real, so that waits may take longer than requested.
    #[must_use]
    pub fn in_real_time(mut self) -> Self {
        self.exact = false;
        self
    }

    /// Keeps something alive until the case is over.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send + Sync) -> Self {
        self.kept.push(Guard::new(guard));
        self
    }

    pub(in super::super) fn run_by(mut self, runner: Runner) -> Self {
        self.runner = runner;
        self
    }

    /// A runtime over the same store, agents and clock, as in a new process.
    pub(super) async fn restarted(&self) -> Self {
        self.another(Wanted::default()).await
    }

    /// As `restarted`, with a runtime that continues by itself.
    pub(super) async fn auto_continuing(&self) -> Self {
        let auto_continue = true;
        let wanted = Wanted {
            auto_continue,
            ..Wanted::default()
        };
        self.another(wanted).await
    }

    /// As `restarted`, with streams that take chunks of at most so many bytes.
    pub(super) async fn narrowed(&self, max_chunk_bytes: usize) -> Self {
        let wanted = Wanted {
            max_chunk_bytes: Some(max_chunk_bytes),
            ..Wanted::default()
        };
        let narrowed = self.another(wanted).await;
        let limits = narrowed.backend().streams.limits();
        assert_eq!(
            limits.max_chunk_bytes, max_chunk_bytes,
            "runtimes for cases are made over what `Wanted::over` gives"
        );
        narrowed
    }

    async fn another(&self, wanted: Wanted) -> Self {
        let runtime = (self.make)(wanted).await;
        let agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        for agent in agents.iter() {
            runtime.agents().replace(agent);
        }
        drop(agents);
        Self {
            runtime,
            ..self.clone()
        }
    }

    /// Registers an agent with the runtime, and with those made after it.
    pub(super) fn keep<Out>(&self, agent: &Agent<Out>) {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        agents.push(agent.erase());
        drop(agents);
        self.runtime.agents().replace(agent);
    }

    pub(super) fn backend(&self) -> &Backend {
        self.runtime.backend()
    }

    /// Waits until this much time has passed on the runtime's clock.
    pub(super) async fn wait(&self, time: Duration) {
        let until = self.clock.now().saturating_add(time);
        in_time("time passes", self.clock.sleep_until(until)).await;
    }

    /// Starts a turn in the session of the case, which may be refused.
    pub(super) async fn try_start<Out>(
        &self,
        agent: &Agent<Out>,
        text: &str,
    ) -> Result<StartedRun, RuntimeError> {
        let request = ExecuteRequest::new(agent, text).in_session(session());
        let starting = self.runtime.start(request, RunOptions::default());
        in_time("a turn is started or refused", starting).await
    }

    /// Starts a turn in the session of the case.
    pub(super) async fn start<Out>(&self, agent: &Agent<Out>, text: &str) -> StartedRun {
        self.keep(agent);
        self.try_start(agent, text).await.unwrap()
    }

    /// Executes a turn until its first run has ended.
    pub(super) async fn turn<Out>(&self, agent: &Agent<Out>, text: &str) -> RunRecord {
        let run = self.start(agent, text).await;
        self.ended(&run).await
    }

    /// The record of a run, once it has ended.
    pub(super) async fn ended(&self, run: &StartedRun) -> RunRecord {
        let ended = self.runtime.ended(run);
        in_time("a run ends", ended).await.unwrap()
    }

    pub(super) async fn try_resume(&self) -> Result<StartedRun, RuntimeError> {
        self.try_resume_as(ResumeMode::Continue).await
    }

    /// Resumes the session of the case in a mode, which may be refused.
    pub(super) async fn try_resume_as(&self, mode: ResumeMode) -> Result<StartedRun, RuntimeError> {
        let request = ResumeRequest::new(&session(), mode);
        let resuming = self.runtime.resume_session(request, RunOptions::default());
        in_time("a session is resumed or refused", resuming).await
    }

    /// Resumes the session in a mode and waits until the next run has ended.
    pub(super) async fn resumed_as(&self, mode: ResumeMode) -> RunRecord {
        let run = self.try_resume_as(mode).await.unwrap();
        self.ended(&run).await
    }

    /// Retries the last turn and waits until its run has ended.
    pub(super) async fn retried(&self) -> RunRecord {
        self.resumed_as(ResumeMode::Retry).await
    }

    /// Resumes the session and waits until the next run has ended.
    pub(super) async fn resumed(&self) -> RunRecord {
        let run = self.try_resume().await.unwrap();
        self.ended(&run).await
    }

    pub(super) async fn submit(&self, answer: ToolAnswer) -> Result<Submitted, RuntimeError> {
        let submitting = self.runtime.submit_answer(answer);
        in_time("an answer is taken or refused", submitting).await
    }

    /// Submits an answer that must be accepted.
    pub(super) async fn answered(&self, answer: ToolAnswer) -> Submitted {
        let submitted = self.submit(answer).await.unwrap();
        assert_eq!(submitted.outcome, SubmissionOutcome::Accepted);
        submitted
    }

    /// The session as it is stored.
    pub(super) async fn snapshot(&self) -> Snapshot {
        let found = self
            .backend()
            .store
            .load(session().as_root())
            .await
            .unwrap();
        found.expect("the session of the case is there")
    }

    /// The state of the session of the case.
    pub(super) async fn state(&self) -> Value {
        Value::clone(&self.snapshot().await.state.custom_state)
    }

    pub(super) async fn messages(&self) -> Vec<Message> {
        let store = &self.backend().store;
        store
            .messages(session().as_root(), Page::ALL)
            .await
            .unwrap()
            .items
    }

    /// The history, a line for each message.
    pub(super) async fn transcript_lines(&self) -> Vec<String> {
        transcript_lines(&self.messages().await)
    }

    pub(super) async fn runs(&self) -> Vec<RunRecord> {
        let all = Lookup::Page(Page::ALL);
        let runs = self.backend().store.runs(session().as_root(), all).await;
        runs.unwrap().items
    }

    /// The checkpoints, oldest first.
    pub(super) async fn checkpoints(&self) -> Vec<Checkpoint> {
        let all = Lookup::Page(Page::ALL);
        let found = self
            .backend()
            .store
            .checkpoints(session().as_root(), all)
            .await;
        let mut found = found.unwrap().items;
        found.reverse();
        found
    }

    pub(super) async fn usage(&self) -> Vec<UsageEntry> {
        let store = &self.backend().store;
        store
            .usage(session().as_root(), Page::ALL)
            .await
            .unwrap()
            .items
    }

    /// The pending calls, in the order of their ids.
    pub(super) async fn pending(&self) -> Vec<PendingCall> {
        let query = PendingQuery {
            root: Some(session()),
            ..PendingQuery::default()
        };
        let mut found = self.backend().store.pending(&query).await.unwrap().items;
        found.sort_by(|one, other| one.tool_call_id.cmp(&other.tool_call_id));
        found
    }

    /// The pending call with this id.
    pub(super) async fn waiting(&self, id: &str) -> PendingCall {
        let found = self.pending().await;
        let mut found = found.into_iter().filter(|it| it.tool_call_id == call(id));
        found.next().expect("the call waits")
    }

    /// Replaces a pending call.
    pub(super) async fn put_pending(&self, pending: PendingCall) {
        let change = Change::Pending(Box::new(pending));
        let commit = Commit::new(session(), self.clock.now()).then(change);
        self.backend().store.commit(commit).await.unwrap();
    }

    /// The entry of a call that is pending or answered, until a run takes the answer.
    pub(super) async fn waiting_or_answered(&self, id: &str) -> PendingCall {
        let mut pending = self.snapshot().await.state.pending_client_tool_calls;
        pending.remove(&call(id)).expect("no run has taken it")
    }

    pub(super) async fn chunks(&self) -> Vec<StoredChunk> {
        self.catch_up().await;
        let streams = &self.backend().streams;
        let read = streams.read(&session(), Sequence::START, usize::MAX).await;
        read.unwrap()
    }

    /// The status of the stream of the case; `None` if nothing was written to it.
    pub(super) async fn stream_status(&self) -> Option<StreamStatus> {
        self.catch_up().await;
        let info = self.backend().streams.info(&session()).await;
        info.unwrap().map(|info| info.status)
    }

    /// Where streams are elsewhere, the commits that the case has seen may not be there yet.
    async fn catch_up(&self) {
        let caught_up = self.backend().streams.catch_up(&session()).await;
        caught_up.unwrap();
    }

    pub(super) async fn payloads(&self) -> Vec<ChunkPayload> {
        let chunks = self.chunks().await.into_iter();
        chunks.map(|stored| stored.chunk.payload).collect()
    }

    /// Waits until the stream has this chunk, in the form of [`named`].
    pub(super) async fn until_told(&self, name: &str) {
        self.until(name, |it| named(it) == name).await;
    }

    /// Waits until the stream has a chunk that satisfies the condition.
    pub(super) async fn until(&self, what: &str, is_it: impl Fn(&ChunkPayload) -> bool) {
        let (session, streams) = (session(), &self.backend().streams);
        let told = async {
            loop {
                // The end is looked at first: what comes after this is not missed.
                let info = streams.info(&session).await.unwrap();
                if self.payloads().await.iter().any(&is_it) {
                    return;
                }
                streams.changed(&session, info).await.unwrap();
            }
        };
        in_time(&format!("readers are told {what}"), told).await;
    }

    /// Everything that can be read of the session.
    pub(super) async fn everything(&self) -> Everything {
        let Backend {
            store,
            streams,
            stops,
            ..
        } = self.backend().clone();
        let subject = Subject::of_ports(store, streams, stops);
        everything(&subject, &[&session()]).await
    }

    /// Checks the code of a refusal, and that it changed nothing.
    pub(super) async fn refuses<T: std::fmt::Debug>(
        &self,
        code: helix_agents_core::ErrorCode,
        asked: impl AsyncFnOnce() -> Result<T, RuntimeError>,
    ) -> RuntimeError {
        use helix_agents_core::Coded;
        let before = self.everything().await;
        let error = asked().await.expect_err("it is refused");
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(self.everything().await, before, "nothing is written");
        error
    }
}

/// The session of every case.
pub(super) fn session() -> SessionId {
    super::super::builders::session("session")
}

/// The ids of some calls.
pub(super) fn calls(ids: &[&str]) -> Vec<CallId> {
    ids.iter().map(|id| call(id)).collect()
}

impl From<ThreadRuntime> for RuntimeSubject {
    fn from(runtime: ThreadRuntime) -> Self {
        let clock = Arc::clone(runtime.clock());
        let first: Arc<dyn Runtime> = Arc::new(runtime.clone());
        let make = move |wanted: Wanted| -> BoxFuture<'static, Arc<dyn Runtime>> {
            let another = runtime.restarted();
            let backend = wanted.over(another.backend().clone());
            let another = another.with_backend(backend);
            let another = if wanted.auto_continue {
                another.auto_continue()
            } else {
                another
            };
            Box::pin(ready(Arc::new(another) as Arc<dyn Runtime>))
        };
        Self {
            runtime: first,
            clock,
            runner: Runner::default(),
            exact: true,
            make: Arc::new(make),
            agents: Arc::default(),
            kept: Vec::new(),
        }
    }
}

impl std::fmt::Debug for RuntimeSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeSubject")
            .field("runtime", &self.runtime)
            .finish_non_exhaustive()
    }
}
