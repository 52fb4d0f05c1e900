//! Chunks that are made for tests, and the rules of the strictest client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload, Sequence, StoredChunk};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{AgentId, CallId, RunId, SessionId};
use helix_agents_wire::{
    FinishReason, StreamTransformer, ToolKind, ToolKinds, TransformerOptions, UiChunk,
};
use serde_json::{Value, json};

pub(crate) fn session(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

pub(crate) fn call(id: &str) -> CallId {
    CallId::new(id).unwrap()
}

/// A chunk of the root, in this step.
pub(crate) fn of_root(sequence: u64, step: u32, payload: ChunkPayload) -> StoredChunk {
    of("root", "agent", sequence, step, payload)
}

/// A chunk of a sub-agent.
pub(crate) fn of_child(sequence: u64, payload: ChunkPayload) -> StoredChunk {
    of("child", "helper", sequence, 1, payload)
}

fn of(id: &str, agent: &str, sequence: u64, step: u32, payload: ChunkPayload) -> StoredChunk {
    let origin = ChunkOrigin::new(
        AgentId::new(format!("{agent}-{id}")).unwrap(),
        agent,
        session(id),
        RunId::new("run-1").unwrap(),
        step,
    );
    let at = Timestamp::from_millis(1_000 + sequence);
    StoredChunk::new(
        Sequence(sequence),
        Chunk::new(Arc::new(origin), at, payload),
    )
}

/// `pick` is the client's tool, everything else the server's.
pub(crate) fn options() -> TransformerOptions {
    let tools = ToolKinds::new(|_, tool| match tool {
        "pick" => ToolKind::Client,
        _ => ToolKind::Server,
    });
    TransformerOptions::new(session("root")).tools(tools)
}

/// Everything that a client reads of these chunks.
pub(crate) fn bubble(options: TransformerOptions, chunks: &[StoredChunk]) -> Vec<UiChunk> {
    let mut transformer = StreamTransformer::new(options);
    let mut all = vec![transformer.start("msg-1")];
    for chunk in chunks {
        all.extend(transformer.transform(chunk));
    }
    all.extend(transformer.finalize(FinishReason::Stop));
    all
}

/// The chunks as JSON, without those that are only told.
pub(crate) fn kept(chunks: &[UiChunk]) -> Vec<Value> {
    let all = chunks
        .iter()
        .map(|chunk| serde_json::to_value(chunk).unwrap());
    all.filter(|chunk| chunk.get("transient").is_none())
        .collect()
}

/// The types of the chunks, without those that are only told.
pub(crate) fn types(chunks: &[UiChunk]) -> Vec<String> {
    let all = kept(chunks).into_iter();
    all.map(|chunk| chunk["type"].as_str().unwrap().to_owned())
        .collect()
}

/// The fields that every client accepts, required ones first.
fn fields(kind: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    Some(match kind {
        "start" => (&["messageId"], &[]),
        "finish" => (&[], &["finishReason"]),
        "start-step" | "finish-step" => (&[], &[]),
        "error" => (&["errorText"], &[]),
        "text-start" | "text-end" | "reasoning-start" | "reasoning-end" => (&["id"], &[]),
        "text-delta" | "reasoning-delta" => (&["id", "delta"], &[]),
        "tool-input-start" => (
            &["toolCallId", "toolName"],
            &["providerExecuted", "dynamic"],
        ),
        "tool-input-delta" => (&["toolCallId", "inputTextDelta"], &[]),
        "tool-input-available" => (
            &["toolCallId", "toolName", "input"],
            &["providerExecuted", "dynamic"],
        ),
        "tool-input-error" => (
            &["toolCallId", "toolName", "input", "errorText"],
            &["providerExecuted", "dynamic"],
        ),
        "tool-approval-request" => (&["approvalId", "toolCallId"], &[]),
        "tool-output-available" => (&["toolCallId", "output"], &["providerExecuted", "dynamic"]),
        "tool-output-error" => (
            &["toolCallId", "errorText"],
            &["providerExecuted", "dynamic"],
        ),
        "tool-output-denied" => (&["toolCallId"], &[]),
        data if data.starts_with("data-") => (&["data"], &["id", "transient"]),
        _ => return None,
    })
}

/// Reads a stream as the strictest client does, and fails where that would.
pub(crate) fn check(chunks: &[UiChunk]) {
    let mut open = BTreeSet::new();
    let mut calls = BTreeMap::new();
    let mut is_in_step = false;
    let mut has_failed = false;
    for chunk in chunks {
        let json = serde_json::to_value(chunk).unwrap();
        assert!(!has_failed, "nothing is read after an error: {json}");
        let kind = json["type"].as_str().unwrap().to_owned();
        let (required, optional) = fields(&kind).unwrap_or_else(|| panic!("unknown type: {json}"));
        let object = json.as_object().unwrap();
        for field in required {
            assert!(object.contains_key(*field), "{field} is missing: {json}");
        }
        for (field, value) in object.iter().filter(|(field, _)| *field != "type") {
            let is_known = required.contains(&field.as_str()) || optional.contains(&field.as_str());
            assert!(is_known, "{field} is unknown: {json}");
            let may_be_null = ["input", "output", "data"].contains(&field.as_str());
            assert!(may_be_null || !value.is_null(), "{field} is null: {json}");
        }
        let id = || json["id"].as_str().unwrap().to_owned();
        let call = || json["toolCallId"].as_str().unwrap().to_owned();
        match kind.as_str() {
            "start-step" => {
                assert!(!is_in_step, "a step begins in a step");
                is_in_step = true;
            }
            "finish-step" => {
                assert!(is_in_step, "a step ends that has not begun");
                assert_eq!(
                    open,
                    BTreeSet::new(),
                    "blocks are open at the end of their step"
                );
                is_in_step = false;
            }
            "text-start" | "reasoning-start" => assert!(open.insert(id()), "{json}"),
            "text-delta" | "reasoning-delta" => assert!(open.contains(&id()), "{json}"),
            "text-end" | "reasoning-end" => assert!(open.remove(&id()), "{json}"),
            "tool-input-start" | "tool-input-available" | "tool-input-error" => {
                assert_eq!(
                    open,
                    BTreeSet::new(),
                    "blocks are open before a call: {json}"
                );
                calls.insert(call(), kind.clone());
            }
            "tool-input-delta" => {
                let known = calls.get(&call());
                assert_eq!(
                    known.map(String::as_str),
                    Some("tool-input-start"),
                    "{json}"
                );
            }
            "tool-output-available"
            | "tool-output-error"
            | "tool-output-denied"
            | "tool-approval-request" => {
                assert!(calls.contains_key(&call()), "an unknown call: {json}");
            }
            "error" => has_failed = true,
            _ => {}
        }
        // What ends a call may come after the step that made it: then that step waited for somebody.
        let needs_step = ["text-", "reasoning-", "tool-input-", "tool-approval-"];
        if needs_step.iter().any(|prefix| kind.starts_with(prefix)) {
            assert!(is_in_step, "content outside of a step: {json}");
        }
    }
    assert!(!is_in_step, "a step is never ended");
    if !has_failed {
        let last = chunks
            .last()
            .map(|last| serde_json::to_value(last).unwrap());
        assert_eq!(last.unwrap_or(json!({}))["type"], "finish");
    }
}
