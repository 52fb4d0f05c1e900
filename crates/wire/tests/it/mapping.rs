//! From our chunks to those of the AI SDK.

use helix_agents_core::canonical::Digest;
use helix_agents_core::error::ErrorCode;
use helix_agents_core::session::{RunStatus, RunTrigger};
use helix_agents_core::state::PatchOp;
use helix_agents_core::stream::{ChunkPayload as P, Sequence, StoredChunk};
use helix_agents_core::{ApprovalId, CheckpointId};
use helix_agents_wire::{FinishReason, StreamTransformer, UiChunk};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kit::{bubble, call, check, kept, of_child, of_root, options, session, types};

fn text(delta: &str) -> P {
    P::TextDelta {
        delta: delta.into(),
    }
}

fn thinking(content: &str, is_complete: bool) -> P {
    P::Thinking {
        content: content.into(),
        is_complete,
    }
}

fn start(id: &str, tool: &str) -> P {
    P::ToolStart {
        tool_call_id: call(id),
        tool_name: tool.into(),
        arguments: json!({ "n": 1 }).into(),
    }
}

fn end(id: &str, tool: &str) -> P {
    P::ToolEnd {
        tool_call_id: call(id),
        tool_name: tool.into(),
        result: json!({ "ok": true }),
        success: true,
        error: None,
    }
}

fn failed(id: &str, tool: &str) -> P {
    P::ToolError {
        tool_call_id: call(id),
        tool_name: tool.into(),
        error: "boom".into(),
    }
}

fn asked(id: &str, tool: &str) -> P {
    P::ToolApprovalRequest {
        tool_call_id: call(id),
        tool_name: tool.into(),
        approval_id: ApprovalId::new(format!("ap-{id}")).unwrap(),
        input: json!({ "n": 1 }).into(),
        digest: Digest::of_call(tool, &json!({ "n": 1 })),
    }
}

fn decided(id: &str, approved: bool) -> P {
    P::ToolApprovalResponse {
        tool_call_id: call(id),
        approval_id: ApprovalId::new(format!("ap-{id}")).unwrap(),
        approved,
        reason: Some("because".into()),
        decided_by: None,
    }
}

fn committed() -> P {
    P::StepCommitted { message_count: 2 }
}

fn paused() -> P {
    P::RunPaused {
        status: RunStatus::SuspendedClientTool,
        tool_call_ids: vec![call("c1")],
    }
}

/// The chunks of the root's first step, in order.
fn in_order(payloads: Vec<P>) -> Vec<StoredChunk> {
    let numbered = (1..).zip(payloads);
    numbered
        .map(|(at, payload)| of_root(at, 1, payload))
        .collect()
}

fn read(payloads: Vec<P>) -> Vec<UiChunk> {
    let all = bubble(options(), &in_order(payloads));
    check(&all);
    all
}

/// Text and reasoning are blocks that are closed before anything else begins.
///
/// proves: TRN-01
#[test]
fn text_and_reasoning_become_blocks() {
    let all = read(vec![
        thinking("Hm", false),
        thinking("m.", true),
        text("Hel"),
        text("lo."),
        committed(),
        text("More."),
    ]);
    assert_eq!(
        kept(&all),
        [
            json!({ "type": "start", "messageId": "msg-1" }),
            json!({ "type": "start-step" }),
            json!({ "type": "reasoning-start", "id": "reasoning-1" }),
            json!({ "type": "reasoning-delta", "id": "reasoning-1", "delta": "Hm" }),
            json!({ "type": "reasoning-delta", "id": "reasoning-1", "delta": "m." }),
            json!({ "type": "reasoning-end", "id": "reasoning-1" }),
            json!({ "type": "text-start", "id": "text-3" }),
            json!({ "type": "text-delta", "id": "text-3", "delta": "Hel" }),
            json!({ "type": "text-delta", "id": "text-3", "delta": "lo." }),
            json!({ "type": "text-end", "id": "text-3" }),
            json!({ "type": "finish-step" }),
            json!({ "type": "start-step" }),
            json!({ "type": "text-start", "id": "text-6" }),
            json!({ "type": "text-delta", "id": "text-6", "delta": "More." }),
            json!({ "type": "text-end", "id": "text-6" }),
            json!({ "type": "finish-step" }),
            json!({ "type": "finish", "finishReason": "stop" }),
        ]
    );
}

/// A call of the server's, with streamed arguments, and one of the client's.
///
/// proves: TRN-01
#[test]
fn calls_become_dynamic_tools() {
    let begin = P::ToolArgStreamStart {
        tool_call_id: call("c1"),
        tool_name: "look".into(),
    };
    let delta = P::ToolArgStreamDelta {
        tool_call_id: call("c1"),
        delta: r#"{"n":1}"#.into(),
    };
    let complete = P::ToolArgStreamEnd {
        tool_call_id: call("c1"),
    };
    let all = read(vec![
        text("Well."),
        begin,
        delta,
        complete,
        start("c1", "look"),
        start("c2", "pick"),
        end("c1", "look"),
        failed("c2", "pick"),
        committed(),
    ]);
    assert_eq!(
        kept(&all)[5..12],
        [
            json!({ "type": "tool-input-start", "toolCallId": "c1", "toolName": "look", "dynamic": true }),
            json!({ "type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": "{\"n\":1}" }),
            json!({ "type": "tool-input-available", "toolCallId": "c1", "toolName": "look", "input": { "n": 1 },
                    "providerExecuted": true, "dynamic": true }),
            json!({ "type": "tool-input-available", "toolCallId": "c2", "toolName": "pick", "input": { "n": 1 },
                    "dynamic": true }),
            json!({ "type": "tool-output-available", "toolCallId": "c1", "output": { "ok": true },
                    "providerExecuted": true, "dynamic": true }),
            json!({ "type": "tool-output-error", "toolCallId": "c2", "errorText": "boom", "dynamic": true }),
            json!({ "type": "finish-step" }),
        ]
    );
}

/// A gated call is not the server's before it has run; a denied one has no output.
///
/// proves: TRN-01
#[test]
fn approvals_have_the_states_of_the_stock_client() {
    let all = read(vec![
        asked("c1", "pay"),
        asked("c2", "pay"),
        paused(),
        decided("c1", true),
        start("c1", "pay"),
        decided("c2", false),
        failed("c2", "pay"),
        end("c1", "pay"),
        committed(),
    ]);
    let all = kept(&all);
    assert_eq!(
        all[2..4],
        [
            json!({ "type": "tool-input-available", "toolCallId": "c1", "toolName": "pay", "input": { "n": 1 },
                    "dynamic": true }),
            json!({ "type": "tool-approval-request", "approvalId": "ap-c1", "toolCallId": "c1" }),
        ]
    );
    let of =
        |kind: &str| -> Vec<&Value> { all.iter().filter(|chunk| chunk["type"] == kind).collect() };
    assert_eq!(
        of("tool-input-available").len(),
        2,
        "no arguments are shown twice"
    );
    assert_eq!(
        of("tool-output-denied"),
        [&json!({ "type": "tool-output-denied", "toolCallId": "c2" })]
    );
    assert_eq!(of("tool-output-available")[0]["providerExecuted"], true);
    assert_eq!(of("data-approval")[1]["data"]["approved"], false);
    assert_eq!(
        of("start-step").len(),
        2,
        "a step follows, or the client would send the answers again"
    );
}

/// In a replay, a request that was answered is not shown again, and a recovery is over.
///
/// proves: CHT-12
#[test]
fn a_replay_leaves_out_what_is_over() {
    let resync = |reason: &str| P::StreamResync {
        reason: reason.into(),
    };
    let chunks = in_order(vec![
        asked("c1", "pay"),
        asked("c2", "pay"),
        resync("old"),
        asked("c3", "pay"),
        resync("new"),
    ]);
    let open = [ApprovalId::new("ap-c2").unwrap()];
    let all = bubble(options().replaying(Sequence(3), open), &chunks);
    check(&all);
    let requests = types(&all)
        .iter()
        .filter(|kind| *kind == "tool-approval-request")
        .count();
    assert_eq!(
        requests, 2,
        "the one that is open, and the one that came after"
    );
    let all: Vec<Value> = all
        .iter()
        .map(|chunk| serde_json::to_value(chunk).unwrap())
        .collect();
    let resyncs: Vec<_> = all
        .iter()
        .filter(|chunk| chunk["type"] == "data-stream-resync")
        .collect();
    assert_eq!(
        resyncs,
        [&json!({ "type": "data-stream-resync", "data": { "reason": "new" }, "transient": true })]
    );
}

/// A client that comes back with a position inside of an attempt that was thrown away meanwhile has something to take
/// back, although the stream does not have it any more. One that comes back with a position before it has not.
///
/// proves: CHT-12
#[test]
fn a_client_inside_of_a_discarded_attempt_must_look_again() {
    let numbered = |at, payload| of_root(at, 1, payload);
    // 4 to 9 were thrown away.
    let chunks = [
        numbered(
            1,
            P::RunStarted {
                trigger: RunTrigger::Execute,
                turn: 1,
            },
        ),
        numbered(2, text("One.")),
        numbered(3, committed()),
        numbered(
            10,
            P::StepDiscarded {
                reason: "again".into(),
            },
        ),
        numbered(11, text("Two.")),
    ];
    let resyncs = |seen: u64| {
        let options = options()
            .replaying(Sequence(11), [])
            .continuing(Sequence(seen));
        let all = bubble(options, &chunks);
        let is_resync = |chunk: &&UiChunk| matches!(chunk, UiChunk::Data(data) if data.name() == "stream-resync");
        all.iter().filter(is_resync).count()
    };
    assert_eq!(
        (resyncs(2), resyncs(3), resyncs(7), resyncs(10)),
        (0, 0, 1, 0)
    );
}

/// An attempt that is thrown away ends what it has shown, and only then the client must look again.
///
/// proves: CHT-12
#[test]
fn a_discarded_attempt_ends_what_it_has_shown() {
    let discarded = || P::StepDiscarded {
        reason: "again".into(),
    };
    let begin = P::ToolArgStreamStart {
        tool_call_id: call("c1"),
        tool_name: "look".into(),
    };
    let all = read(vec![
        discarded(),
        text("Half"),
        begin,
        discarded(),
        text("Whole."),
        start("c1", "look"),
        end("c1", "look"),
    ]);
    assert_eq!(
        types(&all),
        [
            "start",
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "tool-input-start",
            "tool-input-error",
            "finish-step",
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "tool-input-available",
            "tool-output-available",
            "finish-step",
            "finish",
        ]
    );
    let resyncs = all
        .iter()
        .filter(|chunk| matches!(chunk, UiChunk::Data(data) if data.name() == "stream-resync"));
    assert_eq!(resyncs.count(), 1, "the first attempt had shown nothing");
}

/// Control events are told and not kept; data of the session are kept.
///
/// proves: TRN-01
#[test]
fn everything_else_becomes_data() {
    let patch = json!({ "op": "add", "path": "/items/-", "value": "a" });
    let patches: Vec<PatchOp> = vec![serde_json::from_value(patch).unwrap()];
    let all = read(vec![
        P::RunStarted {
            trigger: RunTrigger::Execute,
            turn: 1,
        },
        P::StatePatch { patches },
        P::Custom {
            event_name: "progress".into(),
            data: json!(0.5),
        },
        P::CheckpointCreated {
            checkpoint_id: CheckpointId::new("cp-1").unwrap(),
        },
        P::RunResumed {},
        P::ExecutorSuperseded {},
        P::StateConflict {
            conflicts: Vec::new(),
        },
        P::Output {
            output: json!({ "answer": 42 }),
        },
        P::RunInterrupted { reason: None },
    ]);
    let data: Vec<Value> = all
        .iter()
        .filter(|chunk| matches!(chunk, UiChunk::Data(_)))
        .map(|chunk| serde_json::to_value(chunk).unwrap())
        .collect();
    assert_eq!(
        data,
        [
            json!({ "type": "data-run-started", "transient": true,
                    "data": { "runId": "run-1", "turn": 1, "trigger": "execute" } }),
            json!({ "type": "data-state-patch",
                    "data": { "sequence": 2, "patches": [{ "op": "add", "path": "/items/-", "value": "a" }] } }),
            json!({ "type": "data-progress", "data": 0.5 }),
            json!({ "type": "data-checkpoint-created", "transient": true, "data": { "checkpointId": "cp-1" } }),
            json!({ "type": "data-run-resumed", "transient": true, "data": {} }),
            json!({ "type": "data-executor-superseded", "transient": true, "data": {} }),
            json!({ "type": "data-state-conflict", "transient": true, "data": { "conflicts": [] } }),
            json!({ "type": "data-output", "id": "output", "data": { "answer": 42 } }),
            json!({ "type": "data-run-interrupted", "transient": true, "data": {} }),
        ]
    );
}

/// An error that ends the run is the last that a client reads; its details come right before.
///
/// proves: TRN-01
#[test]
fn an_error_ends_the_stream() {
    let error = |recoverable| P::Error {
        error: "It broke.".into(),
        detail: Some("secret".into()),
        code: ErrorCode::ProviderError,
        recoverable,
    };
    let all = read(vec![error(true), text("Partial "), error(false)]);
    assert_eq!(
        types(&all),
        [
            "start",
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "finish-step",
            "error"
        ]
    );
    let json = serde_json::to_value(&all).unwrap();
    let details = &json[json.as_array().unwrap().len() - 2];
    assert_eq!(
        *details,
        json!({ "type": "data-error", "transient": true,
                "data": { "errorText": "It broke.", "code": "provider_error", "recoverable": false } })
    );
    assert!(!json.to_string().contains("secret"));
}

/// The options: a filter of chunks, and streams without steps.
///
/// proves: TRN-01
#[test]
fn chunks_can_be_left_out() {
    let chunks = in_order(vec![
        text("Hi."),
        P::StatePatch {
            patches: Vec::new(),
        },
    ]);
    let filtered = options().chunk_filter(|chunk| !matches!(chunk.payload, P::StatePatch { .. }));
    assert!(!types(&bubble(filtered, &chunks)).contains(&"data-state-patch".to_owned()));
    let bare = types(&bubble(options().include_step_events(false), &chunks));
    assert!(!bare.iter().any(|kind| kind.ends_with("-step")), "{bare:?}");
}

/// A sub-agent's text is data; a call of it that waits is a call of the bubble, under an id of its own where another
/// session has a call of that id.
///
/// proves: TRN-01
#[test]
fn a_sub_agent_is_data_and_its_open_calls_are_calls() {
    let begins = P::SubagentStart {
        tool_call_id: call("c1"),
        sub_agent_type: "helper".into(),
        sub_session_id: session("child"),
    };
    let ends = P::SubagentEnd {
        tool_call_id: call("c1"),
        sub_agent_type: "helper".into(),
        sub_session_id: session("child"),
        success: true,
        result: Some(json!("done")),
    };
    let chunks = [
        of_root(1, 1, start("c1", "subagent__helper")),
        of_root(2, 1, begins),
        of_child(3, text("I am helping. ")),
        of_child(4, start("k1", "look")),
        of_child(5, end("k1", "look")),
        of_child(6, asked("c1", "pay")),
        of_child(7, start("k2", "pick")),
        of_root(8, 1, paused()),
        of_child(9, decided("c1", true)),
        of_child(10, start("c1", "pay")),
        of_child(11, end("c1", "pay")),
        of_child(12, end("k2", "pick")),
        of_child(12, committed()),
        of_child(13, text("Helped.")),
        of_root(14, 1, ends),
        of_root(15, 1, end("c1", "subagent__helper")),
        of_root(16, 1, committed()),
    ];
    let all = bubble(options(), &chunks);
    check(&all);
    let all = kept(&all);
    let ids = |kind: &str| -> Vec<&str> {
        let of_kind = all.iter().filter(|chunk| chunk["type"] == kind);
        of_kind
            .map(|chunk| chunk["toolCallId"].as_str().unwrap())
            .collect()
    };
    assert_eq!(ids("tool-input-available"), ["c1", "child/c1", "k2"]);
    assert_eq!(ids("tool-approval-request"), ["child/c1"]);
    assert_eq!(ids("tool-output-available"), ["child/c1", "k2", "c1"]);
    assert!(
        !all.iter().any(|chunk| chunk["type"] == "text-delta"),
        "its text is not the bubble's"
    );
    let shown: Vec<_> = all
        .iter()
        .filter(|chunk| chunk["type"] == "data-subagent")
        .collect();
    let last = shown.last().unwrap();
    assert_eq!(last["id"], "subagent-child");
    assert_eq!(
        last["data"],
        json!({ "sessionId": "child", "agentType": "helper", "toolCallId": "c1", "status": "completed",
                "text": "I am helping. \n\nHelped.", "tools": [
                    { "toolCallId": "k1", "toolName": "look", "state": "completed" },
                    { "toolCallId": "child/c1", "toolName": "pay", "state": "completed" },
                    { "toolCallId": "k2", "toolName": "pick", "state": "completed" },
                ] })
    );
}

/// What a sub-agent says costs a small multiple of its length, however small the pieces are.
#[test]
fn the_text_of_a_sub_agent_is_not_written_once_per_piece() {
    let chunks: Vec<_> = (1..=20_000).map(|at| of_child(at, text("abcd "))).collect();
    let bytes: usize = bubble(options(), &chunks)
        .iter()
        .map(|chunk| serde_json::to_string(chunk).unwrap().len())
        .sum();
    assert!(
        bytes < 10 * 64 * 1024,
        "{bytes} bytes for 64 KiB that are shown"
    );
}

fn any_payload() -> impl Strategy<Value = P> {
    let ids = prop::sample::select(vec!["c1", "c2", "c3"]);
    let tools = prop::sample::select(vec![
        "look",
        "pick",
        "pay",
        "__finish__",
        "subagent__helper",
    ]);
    (ids, tools, 0..20_u8).prop_map(|(id, tool, kind)| match kind {
        0 => text("a"),
        1 => text(""),
        2 => thinking("b", false),
        3 => thinking("", true),
        4 => start(id, tool),
        5 => end(id, tool),
        6 => failed(id, tool),
        7 => asked(id, tool),
        8 => decided(id, true),
        9 => decided(id, false),
        10 => committed(),
        11 => paused(),
        12 => P::StepDiscarded {
            reason: "again".into(),
        },
        13 => P::StreamResync {
            reason: "again".into(),
        },
        14 => P::ToolArgStreamStart {
            tool_call_id: call(id),
            tool_name: tool.into(),
        },
        15 => P::ToolArgStreamDelta {
            tool_call_id: call(id),
            delta: "{".into(),
        },
        16 => P::ToolArgStreamEnd {
            tool_call_id: call(id),
        },
        17 => P::ToolInputError {
            tool_call_id: call(id),
            tool_name: tool.into(),
            input: json!({}).into(),
            error: "no".into(),
        },
        18 => P::RunInterrupted {
            reason: Some("stop".into()),
        },
        _ => P::SubagentStart {
            tool_call_id: call(id),
            sub_agent_type: "helper".into(),
            sub_session_id: session("child"),
        },
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    /// Whatever a stream holds, in whatever order and however much of it was lost, the strictest client reads it.
    ///
    /// proves: TRN-01
    #[test]
    fn every_stream_is_one_that_the_strictest_client_reads(
        payloads in prop::collection::vec((any_payload(), any::<bool>()), 0..40),
        fails in any::<bool>(),
    ) {
        let chunks: Vec<_> = (1..)
            .zip(payloads)
            .map(|(at, (payload, is_child))| match is_child {
                true => of_child(at, payload),
                false => of_root(at, 1, payload),
            })
            .collect();
        let mut transformer = StreamTransformer::new(options());
        let mut all = vec![transformer.start("msg-1")];
        for chunk in &chunks {
            all.extend(transformer.transform(chunk));
        }
        if fails {
            all.extend(transformer.fail("It broke.", "provider_error"));
        }
        all.extend(transformer.finalize(FinishReason::Other));
        check(&all);
    }
}
