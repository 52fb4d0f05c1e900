//! What a bubble shows of its sub-agents, and how often.

use helix_agents_core::stream::ChunkPayload;
use serde_json::json;

use crate::kit::{bubble, call, kept, of_child, options};

fn start(id: &str) -> ChunkPayload {
    ChunkPayload::ToolStart {
        tool_call_id: call(id),
        tool_name: "look".into(),
        arguments: json!({}).into(),
    }
}

fn end(id: &str) -> ChunkPayload {
    ChunkPayload::ToolEnd {
        tool_call_id: call(id),
        tool_name: "look".into(),
        result: json!(1),
        success: true,
        error: None,
    }
}

/// All of a sub-agent is written each time, so it is not written for each of its calls.
#[test]
fn the_calls_of_a_sub_agent_cost_about_the_same_however_many_there_are() {
    let bytes_per_call = |calls: u32, said: usize| {
        let mut chunks = vec![of_child(
            1,
            ChunkPayload::TextDelta {
                delta: "x".repeat(said),
            },
        )];
        for at in 1..=u64::from(calls) {
            let id = format!("k{at}");
            chunks.push(of_child(at * 3, start(&id)));
            chunks.push(of_child(at * 3 + 1, end(&id)));
            let committed = ChunkPayload::StepCommitted { message_count: 2 };
            chunks.push(of_child(at * 3 + 2, committed));
        }
        let shown = kept(&bubble(options(), &chunks));
        let data = shown.iter().filter(|one| one["type"] == "data-subagent");
        let last = &data.clone().next_back().unwrap()["data"];
        // The end has all of it.
        let tools = last["tools"].as_array().unwrap();
        let calls = usize::try_from(calls).unwrap();
        assert_eq!(tools.len(), calls);
        assert!(tools.iter().all(|tool| tool["state"] == "completed"));
        assert_eq!(last["text"].as_str().unwrap().len(), said);
        data.map(|one| one.to_string().len()).sum::<usize>() / calls
    };
    for (calls, said) in [(20, 0), (1000, 0), (1000, 20_000)] {
        let bytes = bytes_per_call(calls, said);
        assert!(bytes < 4096, "{calls} calls after {said} bytes: {bytes}");
    }
}

/// The first calls of a sub-agent that has said little are shown at once.
#[test]
fn the_first_calls_of_a_sub_agent_are_shown_at_once() {
    let chunks = [of_child(1, start("k1")), of_child(2, end("k1"))];
    let shown = kept(&bubble(options(), &chunks));
    let states: Vec<_> = shown
        .iter()
        .filter(|one| one["type"] == "data-subagent")
        .map(|one| one["data"]["tools"][0]["state"].clone())
        .collect();
    assert_eq!(states, ["running", "completed"]);
}
