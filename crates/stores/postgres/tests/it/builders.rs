use std::sync::Arc;

use helix_agents_core::message::{AssistantMessage, AssistantPart, ToolCall, UserMessage};
use helix_agents_core::session::{
    CallPhase, CallState, Checkpoint, CheckpointSource, OpenCall, OpenStep, RunRecord, RunTrigger,
    SessionState, SessionStatus,
};
use helix_agents_core::step::{ToolResultInput, create_tool_result_message};
use helix_agents_core::store::{Change, Commit, Field, Page, Precondition, SessionStore};
use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload};
use helix_agents_core::time::Timestamp;
use helix_agents_core::transcript::PairedStep;
use helix_agents_core::{RunId, SessionId};
use helix_agents_store_postgres::PostgresStore;
use serde_json::json;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Parses an id of any kind.
pub(crate) fn id<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

/// An empty commit on a session.
pub(crate) fn on(session: &str) -> Commit {
    Commit::new(id(session), NOW)
}

/// A commit that appends a message of the user.
pub(crate) fn says(session: &str, text: &str) -> Commit {
    on(session).then(Change::AppendUser(UserMessage::new(text)))
}

pub(crate) async fn create(store: &PostgresStore, session: &str) -> SessionId {
    let state = SessionState::new(id(session), "adder", NOW);
    let creating = on(session)
        .when(Precondition::Absent)
        .then(Change::Create(Box::new(state)));
    store.commit(creating).await.unwrap();
    id(session)
}

/// The number of messages of a session.
pub(crate) async fn count(store: &PostgresStore, session: &str) -> usize {
    let session: SessionId = id(session);
    let messages = store.messages(session.as_root(), Page::ALL).await.unwrap();
    messages.items.len()
}

/// The record of a run that starts.
pub(crate) fn run(session: &SessionId) -> RunRecord {
    let run: RunId = id("run-1");
    RunRecord::started(run, session.clone(), RunTrigger::Execute, "local", NOW)
}

/// A chunk of a text.
pub(crate) fn delta(session: &SessionId, text: &str) -> Chunk {
    let payload = ChunkPayload::TextDelta {
        delta: text.to_owned(),
    };
    let base = ChunkOrigin::new(id("agent"), "adder", session.clone(), id("run-1"), 1);
    Chunk::new(Arc::new(base), NOW, payload)
}

/// The two commits of a step that calls `add`: the reply, and its settlement.
pub(crate) fn step(session: &SessionId, number: usize) -> [Commit; 2] {
    let run: RunId = id("run-1");
    let count = u32::try_from(number).unwrap();
    let call = ToolCall::new(
        id(&format!("call-{number:036}")),
        "add",
        json!({ "a": number, "b": 1 }),
    );
    let said = AssistantMessage::new(vec![AssistantPart::ToolCall(call.clone())]);
    let open = OpenStep::new(
        id(&format!("step-{number:036}")),
        run.clone(),
        count,
        said.clone(),
        |_| OpenCall::new(CallPhase::Regular, CallState::Ready),
    );
    let reply = Commit::new(session.clone(), NOW)
        .then(Change::OpenStep(Some(Arc::new(open))))
        .say(delta(session, "calls"));
    let result = create_tool_result_message(ToolResultInput {
        tool_call_id: call.id,
        tool_name: call.name,
        result: Ok(json!({ "sum": number + 1 })),
    });
    let checkpoint = Checkpoint {
        id: id(&format!("cp-{number:036}")),
        session_id: session.clone(),
        run_id: run,
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
        .say(delta(session, "settled"));
    [reply, settled]
}
