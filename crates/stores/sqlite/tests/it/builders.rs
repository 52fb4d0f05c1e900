use std::sync::Arc;

use helix_agents_core::message::{AssistantMessage, AssistantPart, ToolCall, UserMessage};
use helix_agents_core::session::{
    CallPhase, CallState, Checkpoint, CheckpointSource, OpenCall, OpenStep, RunRecord, RunTrigger,
    SessionState, SessionStatus,
};
use helix_agents_core::step::{ToolResultInput, create_tool_result_message};
use helix_agents_core::store::{Change, Commit, Field, Precondition, SessionStore};
use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload};
use helix_agents_core::time::Timestamp;
use helix_agents_core::transcript::PairedStep;
use helix_agents_core::usage::{UsageEntry, UsageKind};
use helix_agents_core::{RunId, SessionId, model::TokenUsage};
use helix_agents_store_sqlite::SqliteStore;
use serde_json::json;

/// Parses an id of any kind.
pub(crate) fn id<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

pub(crate) fn session_id(text: &str) -> SessionId {
    id(text)
}

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// An empty commit on a session.
pub(crate) fn on(session: &str) -> Commit {
    Commit::new(id(session), NOW)
}

pub(crate) fn append_user(text: &str) -> Change {
    Change::AppendUser(UserMessage::new(text))
}

/// A commit that creates a session.
pub(crate) fn creating(session: &str) -> Commit {
    let state = SessionState::new(id(session), "adder", NOW);
    on(session)
        .when(Precondition::Absent)
        .then(Change::Create(Box::new(state)))
}

pub(crate) async fn create(store: &SqliteStore, session: &str) -> SessionId {
    store.commit(creating(session)).await.unwrap();
    id(session)
}

/// An id of the length that runtimes generate.
pub(crate) fn long_id<T: std::str::FromStr>(prefix: &str, number: usize) -> T
where
    T::Err: std::fmt::Debug,
{
    id(&format!(
        "{prefix}-0190b5c6-7d3e-7{number:03x}-8abc-{number:012x}"
    ))
}

/// The record of a run that starts.
pub(crate) fn run(session: &SessionId) -> RunRecord {
    let run: RunId = long_id("run", 1);
    RunRecord::started(run, session.clone(), RunTrigger::Execute, "local", NOW)
}

/// The two commits of a step that calls `add`: the reply, and its settlement.
pub(crate) fn step(session: &SessionId, number: usize) -> [Commit; 2] {
    let run: RunId = long_id("run", 1);
    let count = u32::try_from(number).unwrap();
    let call = ToolCall::new(
        long_id("call", number),
        "add",
        json!({ "a": number, "b": 1 }),
    );
    let said = AssistantMessage::new(vec![AssistantPart::ToolCall(call.clone())]);
    let open = OpenStep::new(
        long_id("step", number),
        run.clone(),
        count,
        said.clone(),
        |_| OpenCall::new(CallPhase::Regular, CallState::Ready),
    );
    let used = |nth: usize, kind| {
        let usage = long_id("usage", 2 * number + nth);
        Change::Usage(UsageEntry {
            id: usage,
            run_id: run.clone(),
            step: count,
            timestamp: NOW,
            kind,
        })
    };
    let tokens = TokenUsage::new(900, 12);
    let reply = Commit::new(session.clone(), NOW)
        .then(Change::OpenStep(Some(Arc::new(open))))
        .then(used(
            0,
            UsageKind::Tokens {
                model: "scripted/adder".into(),
                tokens,
                micro_dollars: None,
            },
        ));
    let result = create_tool_result_message(ToolResultInput {
        tool_call_id: call.id,
        tool_name: call.name,
        result: Ok(json!({ "sum": number + 1 })),
    });
    let checkpoint = Checkpoint {
        id: long_id("cp", number),
        session_id: session.clone(),
        run_id: run.clone(),
        status: SessionStatus::Active,
        timestamp: NOW,
        step_count: count,
        message_count: 0,
        state_version: 0,
        open_step: None,
    };
    let settled = Commit::new(session.clone(), NOW)
        .then(Change::AppendStep(PairedStep::new(said, [result]).unwrap()))
        .then(Change::OpenStep(None))
        .then(Change::Set(Field::OneStepMore))
        .then(Change::Checkpoint(checkpoint, CheckpointSource::Staging))
        .then(used(
            1,
            UsageKind::Tool {
                name: "add".to_owned().into(),
                success: true,
                duration_ms: 3,
            },
        ));
    [reply, settled]
}

/// A text delta of a session.
pub(crate) fn delta(session: &SessionId, text: &str) -> Chunk {
    let payload = ChunkPayload::TextDelta {
        delta: text.to_owned(),
    };
    let base = ChunkOrigin::new(id("agent"), "adder", session.clone(), id("run"), 1);
    Chunk::new(Arc::new(base), NOW, payload)
}

/// The number that a statement selects in a file.
pub(crate) fn count(path: &std::path::Path, sql: &str) -> i64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}
