//! Builders of sessions, commits, messages and chunks for the cases.

use std::sync::Arc;

use helix_agents_core::message::{
    AssistantMessage, AssistantPart, Message, ToolCall, ToolMessage, UserMessage,
};
use helix_agents_core::session::{
    Answer, CallPhase, CallState, Checkpoint, OpenCall, OpenStep, PendingCall, RunRecord,
    RunTrigger, SessionStatus, StopKind, StopRequest,
};
use helix_agents_core::state::StepWrites;
use helix_agents_core::step::{ToolResultInput, create_tool_result_message};
use helix_agents_core::store::{Change, Commit, Fence, NewSession, Receipt, SessionReceipt};
use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload};
use helix_agents_core::transcript::PairedStep;
use helix_agents_core::{
    AgentId, ApprovalId, CallId, CheckpointId, RunId, SessionId, StepId, UsageId, UserId,
};
use serde_json::{Value, json};

use super::Subject;

macro_rules! ids {
    ($($name:ident -> $id:ident;)*) => {$(
        pub(super) fn $name(text: &str) -> $id {
            $id::new(text).expect("an id of the contract suite is a good one")
        }
    )*};
}

ids! {
    session -> SessionId;
    run -> RunId;
    step -> StepId;
    call -> CallId;
    checkpoint -> CheckpointId;
    approval -> ApprovalId;
    usage_id -> UsageId;
    user -> UserId;
}

/// Creates a session of that name.
pub(super) async fn created(on: &Subject, name: &str) -> SessionId {
    let id = session(name);
    let new = NewSession::of("agent");
    on.sessions()
        .create_session(&id, new)
        .await
        .expect("a session whose id is free is created");
    id
}

/// Creates a child of a session.
pub(super) async fn child_of(
    on: &Subject,
    parent: &SessionId,
    root: &SessionId,
    name: &str,
) -> SessionId {
    let id = session(name);
    let mut new = NewSession::of("helper");
    new.family = Some((parent.clone(), root.clone()));
    on.sessions()
        .create_session(&id, new)
        .await
        .expect("a child whose id is free is created");
    id
}

/// The root of a session, which may be itself.
pub(super) async fn root_of(on: &Subject, session: &SessionId) -> SessionId {
    let root = on.store.root_of(session).await.unwrap();
    root.unwrap_or_else(|| session.clone())
}

/// A commit on a root, made now.
pub(super) fn commit(on: &Subject, root: &SessionId) -> Commit {
    Commit::new(root.clone(), on.now())
}

/// Makes a commit that must be accepted.
pub(super) async fn accepted(on: &Subject, commit: Commit) -> Receipt {
    let shown = format!("{commit:?}");
    match on.store.commit(commit).await {
        Ok(receipt) => receipt,
        Err(error) => panic!("this commit must be accepted: {shown}\nbut: {error:?}"),
    }
}

/// Makes one change that must be accepted.
pub(super) async fn changed(on: &Subject, id: &SessionId, change: Change) -> SessionReceipt {
    let commit = commit(on, &root_of(on, id).await).then_in(id.clone(), change);
    let mut receipt = accepted(on, commit).await;
    receipt
        .sessions
        .remove(id)
        .expect("a receipt tells of every session that the commit changed")
}

/// A run that starts.
pub(super) fn started(on: &Subject, session: &SessionId, name: &str) -> RunRecord {
    let trigger = RunTrigger::Execute;
    RunRecord::started(run(name), session.clone(), trigger, "local", on.now())
}

/// Starts a run as an executor does: a new run at a new fence.
pub(super) async fn running(on: &Subject, session: &SessionId, name: &str) -> (RunId, Fence) {
    let record = started(on, session, name);
    let commit = commit(on, &root_of(on, session).await)
        .then_in(session.clone(), Change::RaiseFence)
        .then_in(session.clone(), Change::StartRun(Box::new(record)));
    let receipt = accepted(on, commit).await;
    (run(name), receipt.sessions[session].fence)
}

pub(super) fn stop(on: &Subject, run: &RunId) -> StopRequest {
    StopRequest::new(run.clone(), StopKind::Interrupt, on.now())
}

pub(super) fn user_message(text: &str) -> Message {
    Message::User(UserMessage::new(text))
}

/// A reply of the model that calls tool `t` once for each id.
pub(super) fn calling(ids: &[&str]) -> AssistantMessage {
    let parts = ids.iter().map(|id| {
        let arguments = json!({ "of": id });
        AssistantPart::ToolCall(ToolCall::new(call(id), "t", arguments))
    });
    AssistantMessage::new(parts.collect())
}

pub(super) fn result(id: &str) -> ToolMessage {
    create_tool_result_message(ToolResultInput {
        tool_call_id: call(id),
        tool_name: "t".into(),
        result: Ok(json!({ "of": id })),
    })
}

/// A step of these calls, paired.
pub(super) fn paired(ids: &[&str]) -> PairedStep {
    let results = ids.iter().map(|id| result(id));
    PairedStep::new(calling(ids), results).expect("each call has its result")
}

/// The messages of a step of these calls.
pub(super) fn step_of(ids: &[&str]) -> Vec<Message> {
    let mut messages = vec![Message::Assistant(calling(ids))];
    messages.extend(ids.iter().map(|id| Message::Tool(result(id))));
    messages
}

/// A step of these calls, each run by the host.
pub(super) fn open_step(run: &RunId, name: &str, ids: &[&str]) -> OpenStep {
    OpenStep::new(step(name), run.clone(), 1, calling(ids), |_| {
        OpenCall::new(CallPhase::Regular, CallState::Ready)
    })
}

/// A call that waits for a client.
pub(super) fn waiting(on: &Subject, session: &SessionId, run: &RunId, id: &str) -> PendingCall {
    let input = json!({ "of": id });
    PendingCall::client(session.clone(), run.clone(), call(id), "t", input, on.now())
}

/// A client's answer to a call.
pub(super) fn answer(on: &Subject, id: &str) -> Answer {
    let submission = json!({
        "kind": "client-tool-result",
        "toolCallId": id,
        "result": { "answer": id },
    });
    let submission = serde_json::from_value(submission).expect("a submission as clients send it");
    Answer::new(submission, on.now())
}

pub(super) fn checkpoint_of(on: &Subject, session: &SessionId, name: &str) -> Checkpoint {
    Checkpoint {
        id: checkpoint(name),
        session_id: session.clone(),
        run_id: run("run"),
        status: SessionStatus::Active,
        timestamp: on.now(),
        step_count: 0,
        message_count: 0,
        state_version: 0,
        open_step: None,
    }
}

/// Operations in their stored form.
pub(super) fn writes(operations: Value) -> StepWrites {
    serde_json::from_value(operations).expect("operations of the contract suite are good ones")
}

/// Sets one key of a state.
pub(super) fn sets(key: &str, value: impl Into<Value>) -> StepWrites {
    let (path, value) = (format!("/{key}"), value.into());
    writes(json!([{ "op": "replace", "path": path, "value": value }]))
}

pub(super) fn chunk(on: &Subject, session: &SessionId, payload: ChunkPayload) -> Chunk {
    let agent = AgentId::new("agent-1").expect("an id of the contract suite is a good one");
    let base = ChunkOrigin::new(agent, "agent", session.clone(), run("run"), 1);
    Chunk::new(Arc::new(base), on.now(), payload)
}

/// A chunk with a piece of text, as a streaming model emits it.
pub(super) fn text(on: &Subject, session: &SessionId, delta: &str) -> Chunk {
    let delta = delta.to_owned();
    chunk(on, session, ChunkPayload::TextDelta { delta })
}

/// A chunk that is not a delta, with this name.
pub(super) fn event(on: &Subject, session: &SessionId, name: &str) -> Chunk {
    let payload = ChunkPayload::Custom {
        event_name: name.to_owned(),
        data: json!({ "name": name }),
    };
    chunk(on, session, payload)
}
