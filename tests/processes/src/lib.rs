//! The work that the child processes do, so that the tests know what to look for.

mod agent;

use std::time::Duration;

use anyhow::{Context, Result};
use helix_agents_core::id::{CallId, CheckpointId, RunId, SessionId, UsageId};
use helix_agents_core::lock::LockManager;
use helix_agents_core::message::{AssistantMessage, AssistantPart, ToolCall, UserMessage};
use helix_agents_core::model::TokenUsage;
use helix_agents_core::session::{
    Checkpoint, CheckpointSource, RunRecord, RunTrigger, SessionStatus, StopKind, StopRequest,
};
use helix_agents_core::state::{Pointer, StateOp};
use helix_agents_core::step::{ToolResultInput, create_tool_result_message};
use helix_agents_core::store::{
    Change, Commit, LeaseRequest, NewSession, Page, Precondition, SessionStore, Sessions,
};
use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload, Sequence, StreamManager};
use helix_agents_core::time::Timestamp;
use helix_agents_core::transcript::PairedStep;
use helix_agents_core::usage::{UsageEntry, UsageKind};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::VirtualClock;
use serde_json::json;

pub use agent::{Crash, deployer};

/// The instant of every commit in these tests.
pub const NOW: Timestamp = Timestamp::from_millis(2);
/// How long leases and locks are taken for.
pub const HOUR: Duration = Duration::from_secs(3600);
/// Messages of one round: what the user said, the model's message, the result of its call.
pub const MESSAGES_PER_ROUND: usize = 3;

/// Makes the session that rounds are written to.
///
/// # Errors
/// When the store does not take it.
pub async fn create(store: &dyn SessionStore, session: &SessionId) -> Result<()> {
    let clock = VirtualClock::new(Timestamp::from_millis(1));
    let mut new = NewSession::of("writer");
    new.state = Some(json!({ "count": 0, "log": [] }).into());
    Sessions::new(store, &clock)
        .create_session(session, new)
        .await?;
    Ok(())
}

/// The commit of one round: messages, state, checkpoint, usage and a chunk, which belong together.
///
/// With `at` the round must be the `at`-th of its session; without, several processes may write.
///
/// # Errors
/// Only when an id is not one.
pub fn round(session: &SessionId, name: &str, at: Option<usize>) -> Result<Commit> {
    let run = RunId::new("run-1")?;
    let call = CallId::new(format!("call-{name}"))?;
    let said = AssistantMessage::new(vec![AssistantPart::ToolCall(ToolCall::new(
        call.clone(),
        "add",
        json!({ "a": 1, "b": name }),
    ))]);
    let result = create_tool_result_message(ToolResultInput {
        tool_call_id: call,
        tool_name: "add".into(),
        result: Ok(json!({ "sum": name })),
    });
    let now = NOW;
    let mut checkpoint = Checkpoint {
        id: CheckpointId::new(format!("cp-{name}"))?,
        session_id: session.clone(),
        run_id: run.clone(),
        status: SessionStatus::Active,
        timestamp: now,
        step_count: 0,
        message_count: 0,
        state_version: 0,
        open_step: None,
    };
    let mut commit = Commit::new(session.clone(), now);
    if let Some(at) = at {
        checkpoint.message_count = (at + 1) * MESSAGES_PER_ROUND;
        commit = commit.when(Precondition::MessageCount(at * MESSAGES_PER_ROUND));
    }
    let usage = UsageEntry {
        id: UsageId::new(format!("usage-{name}"))?,
        run_id: run.clone(),
        step: 1,
        timestamp: now,
        kind: UsageKind::Tokens {
            model: "scripted/writer".into(),
            tokens: TokenUsage::new(10, 2),
            micro_dollars: None,
        },
    };
    let writes = vec![
        StateOp::Increment {
            path: Pointer::root().join("count"),
            by: 1.into(),
        },
        StateOp::Append {
            path: Pointer::root().join("log"),
            value: json!(name),
        },
    ];
    let agent = helix_agents_core::AgentId::new(session.as_str())?;
    let base = ChunkOrigin::new(agent, "writer", session.clone(), run, 1);
    let chunk = Chunk::new(
        base.into(),
        now,
        ChunkPayload::TextDelta {
            delta: name.to_owned(),
        },
    );
    Ok(commit
        .then(Change::AppendUser(UserMessage::new(name)))
        .then(Change::AppendStep(PairedStep::new(said, [result])?))
        .then(Change::WriteState(writes.into()))
        .then(Change::Checkpoint(checkpoint, CheckpointSource::Staging))
        .then(Change::Usage(usage))
        .say(chunk))
}

/// The run that a child starts.
///
/// # Errors
/// Only when an id is not one.
pub fn run(session: &SessionId) -> Result<RunRecord> {
    let id = RunId::new("run-1")?;
    let trigger = RunTrigger::Execute;
    Ok(RunRecord::started(
        id,
        session.clone(),
        trigger,
        "local",
        NOW,
    ))
}

/// Takes a session's lease for an hour, if nobody who lives has it.
pub fn lease(session: &SessionId, holder: &str) -> Commit {
    let lease = LeaseRequest::new(holder, HOUR);
    Commit::new(session.clone(), NOW)
        .when(Precondition::LeaseFree)
        .then(Change::RaiseFence)
        .then(Change::Lease(Some(lease)))
}

/// Starts a run under a lease and takes a lock, as a process does before it is killed.
///
/// # Errors
/// When the store does not take it.
pub async fn take(store: &SqliteStore, session: &SessionId) -> Result<()> {
    let started = Change::StartRun(Box::new(run(session)?));
    let commit = lease(session, SqliteStore::holder()).then(started);
    store.commit(commit).await?;
    let lock = store
        .acquire("key", SqliteStore::holder(), NOW, HOUR)
        .await?;
    lock.context("somebody has the lock")?;
    Ok(())
}

/// Asks the session's run to stop, and tells its readers something.
///
/// # Errors
/// When the store does not take it.
pub async fn stop(store: &SqliteStore, session: &SessionId) -> Result<()> {
    let stop = StopRequest::new(run(session)?.id, StopKind::Abort, NOW);
    let said = round(session, "late", None)?;
    let mut commit = Commit::new(session.clone(), NOW).then(Change::Stop(stop));
    commit.chunks = said.chunks;
    store.commit(commit).await?;
    Ok(())
}

/// The contents of a session, counted in rounds per part. In a store whose commits are atomic all
/// counts are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredRounds {
    /// Rounds, counted by messages.
    pub messages: usize,
    /// Rounds, counted by the counter in the state.
    pub counted: usize,
    /// Rounds, counted by the list in the state.
    pub logged: usize,
    /// Rounds, counted by checkpoints.
    pub checkpoints: usize,
    /// Rounds, counted by usage entries.
    pub usage: usize,
    /// Rounds, counted by chunks of the stream.
    pub chunks: usize,
}

impl StoredRounds {
    /// So many whole rounds.
    #[must_use]
    pub fn whole(rounds: usize) -> Self {
        Self {
            messages: rounds,
            counted: rounds,
            logged: rounds,
            checkpoints: rounds,
            usage: rounds,
            chunks: rounds,
        }
    }
}

/// Reads a session back.
///
/// # Errors
/// When there is no such session, or something of it cannot be read.
pub async fn found<S: SessionStore + StreamManager>(
    store: &S,
    session: &SessionId,
) -> Result<StoredRounds> {
    let clock = VirtualClock::new(Timestamp::from_millis(3));
    let sessions = Sessions::new(store, &clock);
    let snapshot = store
        .load(session.as_root())
        .await?
        .context("the session is gone")?;
    let state = &snapshot.state.custom_state;
    let messages = store.messages(session.as_root(), Page::ALL).await?;
    anyhow::ensure!(messages.items.len() == snapshot.message_count);
    anyhow::ensure!(
        messages.items.len() % MESSAGES_PER_ROUND == 0,
        "a torn step"
    );
    let transcript = sessions.transcript(session).await?;
    anyhow::ensure!(
        transcript.iter().eq(&messages.items),
        "the history had to be healed"
    );
    let counted = state.pointer("/count").and_then(serde_json::Value::as_u64);
    let logged = state.pointer("/log").and_then(serde_json::Value::as_array);
    let chunks = store.read(session, Sequence::START, usize::MAX).await?;
    let sequences: Vec<_> = chunks.iter().map(|chunk| chunk.sequence).collect();
    anyhow::ensure!(
        sequences.is_sorted_by(|a, b| a < b),
        "sequences do not grow"
    );
    Ok(StoredRounds {
        messages: messages.items.len() / MESSAGES_PER_ROUND,
        counted: usize::try_from(counted.context("no counter")?)?,
        logged: logged.context("no list")?.len(),
        checkpoints: sessions
            .list_checkpoints(session, Page::first(0))
            .await?
            .total,
        usage: store.usage(session.as_root(), Page::first(0)).await?.total,
        chunks: chunks.len(),
    })
}
