//! Every chunk, with and without its optional fields.

use std::sync::Arc;

use helix_agents_core::canonical::Digest;
use helix_agents_core::error::ErrorCode;
use helix_agents_core::session::{RunStatus, RunTrigger};
use helix_agents_core::state::PatchOp;
use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload};
use helix_agents_core::{AgentId, ApprovalId, CheckpointId, UserId};
use serde_json::{Value, json};

use super::records::{RUN_STATUSES, RUN_TRIGGERS, at, run, session};
use crate::make::call_id;

pub(super) fn chunks() -> Vec<Chunk> {
    let agent = AgentId::new("s1").unwrap();
    let base = Arc::new(ChunkOrigin::new(agent, "support", session("s1"), run(), 2));
    let payloads = [
        text(),
        arguments(),
        tools(),
        questions(),
        sub_agents(),
        state(),
        ends(),
        runs(),
        steps(),
    ];
    let chunks = payloads.into_iter().flatten();
    let chunks = chunks.map(|payload| Chunk::new(Arc::clone(&base), at(11), payload));
    let mut chunks: Vec<_> = chunks.collect();
    // Deltas name the attempt that streamed them.
    let streamed = Arc::new(ChunkOrigin::clone(&base).of_attempt(3, 1));
    let texts = text().into_iter().take(1);
    chunks.extend(texts.map(|payload| Chunk::new(Arc::clone(&streamed), at(11), payload)));
    chunks
}

fn tool() -> String {
    "refund".to_owned()
}

fn approval() -> ApprovalId {
    ApprovalId::new("ap-1").unwrap()
}

fn text() -> Vec<ChunkPayload> {
    let thinking = |is_complete| ChunkPayload::Thinking {
        content: "let me see".to_owned(),
        is_complete,
    };
    let delta = "One moment.".to_owned();
    vec![
        ChunkPayload::TextDelta { delta },
        thinking(false),
        thinking(true),
    ]
}

fn arguments() -> Vec<ChunkPayload> {
    vec![
        ChunkPayload::ToolArgStreamStart {
            tool_call_id: call_id("c2"),
            tool_name: tool().into(),
        },
        ChunkPayload::ToolArgStreamDelta {
            tool_call_id: call_id("c2"),
            delta: "{\"cents\"".to_owned(),
        },
        ChunkPayload::ToolArgStreamEnd {
            tool_call_id: call_id("c2"),
        },
    ]
}

fn tools() -> Vec<ChunkPayload> {
    let end = |result: Value, error: Option<&str>| ChunkPayload::ToolEnd {
        tool_call_id: call_id("c2"),
        tool_name: tool().into(),
        result,
        success: error.is_none(),
        error: error.map(str::to_owned),
    };
    vec![
        ChunkPayload::ToolStart {
            tool_call_id: call_id("c2"),
            tool_name: tool().into(),
            arguments: json!({"cents": 5}).into(),
        },
        end(json!({"ok": true}), None),
        end(Value::Null, Some("the shop is closed")),
        ChunkPayload::ToolError {
            tool_call_id: call_id("c2"),
            tool_name: tool().into(),
            error: "the shop is closed".to_owned(),
        },
        ChunkPayload::ToolInputError {
            tool_call_id: call_id("c2"),
            tool_name: tool().into(),
            input: json!({"cents": "all"}).into(),
            error: "cents is a number".to_owned(),
        },
        ChunkPayload::ToolOutputError {
            tool_call_id: call_id("c2"),
            tool_name: tool().into(),
            error: "the receipt has no number".to_owned(),
        },
    ]
}

fn questions() -> Vec<ChunkPayload> {
    let by_alice = ChunkPayload::ToolApprovalResponse {
        tool_call_id: call_id("c2"),
        approval_id: approval(),
        approved: true,
        reason: None,
        decided_by: Some(UserId::new("alice").unwrap()),
    };
    let response = |approved, reason: Option<&str>| ChunkPayload::ToolApprovalResponse {
        tool_call_id: call_id("c2"),
        approval_id: approval(),
        approved,
        reason: reason.map(str::to_owned),
        decided_by: None,
    };
    vec![
        ChunkPayload::ToolApprovalRequest {
            tool_call_id: call_id("c2"),
            tool_name: tool().into(),
            approval_id: approval(),
            input: json!({"cents": 5}).into(),
            digest: Digest::of_call("refund", &json!({"cents": 5})),
        },
        response(true, None),
        response(false, Some("too much")),
        by_alice,
    ]
}

fn sub_agents() -> Vec<ChunkPayload> {
    let end = |success, result| ChunkPayload::SubagentEnd {
        tool_call_id: call_id("c3"),
        sub_agent_type: "writer".to_owned(),
        sub_session_id: session("child"),
        success,
        result,
    };
    vec![
        ChunkPayload::SubagentStart {
            tool_call_id: call_id("c3"),
            sub_agent_type: "writer".to_owned(),
            sub_session_id: session("child"),
        },
        end(true, Some(json!({"text": "done"}))),
        end(true, Some(Value::Null)),
        end(false, None),
    ]
}

fn state() -> Vec<ChunkPayload> {
    let path = |text: &str| text.parse().unwrap();
    let patches = vec![
        PatchOp::Add {
            path: path("/notes/-"),
            value: json!("b"),
        },
        PatchOp::Remove { path: path("/old") },
        PatchOp::Replace {
            path: path("/a~1b"),
            value: json!({"x": null}),
        },
    ];
    let conflicts = serde_json::from_value(json!([
        { "path": "/topic", "winner": "c2", "losers": ["c1"], "reason": { "kind": "overlap" } },
        { "path": "/count", "winner": null, "losers": ["c1"],
          "reason": { "kind": "inapplicable", "error": "no number" } },
    ]))
    .unwrap();
    vec![
        ChunkPayload::StatePatch { patches },
        ChunkPayload::StateConflict { conflicts },
    ]
}

fn ends() -> Vec<ChunkPayload> {
    let error = |detail: Option<&str>, recoverable| ChunkPayload::Error {
        error: "The agent reached its step limit.".to_owned(),
        detail: detail.map(str::to_owned),
        code: ErrorCode::MaxSteps,
        recoverable,
    };
    vec![
        ChunkPayload::Custom {
            event_name: "progress".to_owned(),
            data: json!({"percent": 40}),
        },
        error(Some("50 steps"), false),
        error(None, true),
        ChunkPayload::Output {
            output: json!({"summary": "ok"}),
        },
    ]
}

fn runs() -> Vec<ChunkPayload> {
    let started = |trigger: RunTrigger| ChunkPayload::RunStarted { trigger, turn: 2 };
    let paused = |status: RunStatus| ChunkPayload::RunPaused {
        status,
        tool_call_ids: vec![call_id("c2")],
    };
    let mut payloads: Vec<_> = RUN_TRIGGERS.map(started).into();
    payloads.extend([
        ChunkPayload::RunInterrupted {
            reason: Some("user".to_owned()),
        },
        ChunkPayload::RunInterrupted { reason: None },
        ChunkPayload::RunResumed {},
    ]);
    payloads.extend(RUN_STATUSES.map(paused));
    payloads
}

fn steps() -> Vec<ChunkPayload> {
    let reason = || "a new attempt".to_owned();
    vec![
        ChunkPayload::CheckpointCreated {
            checkpoint_id: CheckpointId::new("cp-1").unwrap(),
        },
        ChunkPayload::StepCommitted { message_count: 7 },
        ChunkPayload::StepDiscarded { reason: reason() },
        ChunkPayload::StreamResync { reason: reason() },
        ChunkPayload::ExecutorSuperseded {},
    ]
}
