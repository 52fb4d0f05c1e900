use helix_agents_core::stored::decode;
use helix_agents_core::stream::ChunkPayload;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Rows that were written stay readable: these texts are never changed, only joined by others when
/// the version is raised.
const FIRST: &str = concat!(
    r#"[1,[{"agentId":"s","agentType":"a","sessionId":"s","runId":"r","step":1},"#,
    r#"{"agentId":"s","agentType":"a","sessionId":"s","runId":"r","step":2}],"#,
    r#"[0,5],"He","llo",{"type":"run_resumed"},[1,7],"!"]"#
);

const SECOND: &str = concat!(
    r#"[2,0,1,[0,3,1],-9,"He","llo",[1,"hm"],[1,"",1],[2,"c1","add"],[3,0,"{}"],[4,0],[0],"#,
    r#"[5,0,0,{"a":1}],[2,"c2",0],"#,
    r#"[0,0,0,2,1],7,{"type":"run_resumed"},[6,1,0,3],[6,0,0,null,0],[6,0,0,null,0,"no"],"#,
    r#"[8,4],2,[7,"~18Q1cBIR8kkWW-3"],[7,"cp-1"],[9],"-",[9,7],"-",[10,2],"-",[8,5,"cp-2"]]"#
);

/// The time in the ids of the checkpoints.
const TIME: u64 = 0x01a1_e2dc_7e61 + 3;

fn author(number: u64) -> Result<Arc<ChunkOrigin>, OperationError> {
    let name = if number == 0 { "s" } else { "child" };
    let origin = json!({
        "agentId": name, "agentType": "a", "sessionId": name, "runId": "r", "step": 0,
    });
    Ok(Arc::new(serde_json::from_value(origin).unwrap()))
}

fn chunk(author_number: u64, step: u32, millis: u64, payload: Value) -> Chunk {
    let mut origin = ChunkOrigin::clone(&author(author_number).unwrap());
    origin.step = step;
    let payload: ChunkPayload = serde_json::from_value(payload).unwrap();
    Chunk::new(Arc::new(origin), Timestamp::from_millis(millis), payload)
}

fn text(delta: &str) -> Value {
    json!({ "type": "text_delta", "delta": delta })
}

fn author_of(chunk: &Chunk) -> u64 {
    u64::from(chunk.base.session_id.as_str() != "s")
}

fn packed(chunks: &[Chunk], gaps: &[u64], millis: u64) -> String {
    let authors: Vec<u64> = chunks.iter().map(author_of).collect();
    pack(&Batch {
        chunks,
        authors: &authors,
        gaps,
        time: Timestamp::from_millis(millis),
    })
    .unwrap()
}

fn unpacked(text: &str, millis: u64) -> Result<Vec<StoredChunk>, OperationError> {
    unpack(text, Sequence(7), Timestamp::from_millis(millis), author)
}

/// The chunks with their sequences from 7.
fn numbered(chunks: &[Chunk], gaps: &[u64]) -> Vec<StoredChunk> {
    let mut next = 7;
    let mut stored = Vec::new();
    for (at, chunk) in chunks.iter().enumerate() {
        next += gaps.get(at).copied().unwrap_or_default();
        stored.push(StoredChunk::new(Sequence(next), chunk.clone()));
        next += 1;
    }
    stored
}

#[test]
fn rows_of_the_first_format_are_read() {
    let expected = vec![
        chunk(0, 1, 5, text("He")),
        chunk(0, 1, 5, text("llo")),
        chunk(0, 1, 5, json!({ "type": "run_resumed" })),
        chunk(0, 2, 7, text("!")),
    ];
    assert_eq!(unpacked(FIRST, 99).unwrap(), numbered(&expected, &[]));
}

#[test]
fn rows_of_the_second_format_are_read_and_written_unchanged() {
    let call = |kind: &str, id: &str, more: Value| {
        let mut payload = json!({ "type": kind, "toolCallId": id });
        let fields = payload.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        payload
    };
    let thinking = |content: &str, is_complete: bool| json!({ "type": "thinking", "content": content, "isComplete": is_complete });
    let checkpoint = |id: &str| json!({ "type": "checkpoint_created", "checkpointId": id });
    let add = || json!({ "toolName": "add" });
    let start = |id| call("tool_arg_stream_start", id, add());
    let mut streamed: Vec<Chunk> = [
        text("He"),
        text("llo"),
        thinking("hm", false),
        thinking("", true),
        start("c1"),
        call("tool_arg_stream_delta", "c1", json!({ "delta": "{}" })),
        call("tool_arg_stream_end", "c1", json!({})),
    ]
    .map(|payload| chunk(0, 1, TIME - 9, payload))
    .into();
    for chunk in &mut streamed {
        let origin = ChunkOrigin::clone(&chunk.base).of_attempt(3, 1);
        chunk.base = Arc::new(origin);
    }
    let arguments = json!({ "toolName": "add", "arguments": { "a": 1 } });
    let end = |id, more: Value| {
        let mut end = json!({ "toolName": "add", "result": null });
        end.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        call("tool_end", id, end)
    };
    let mut expected = streamed;
    expected.extend(
        [call("tool_start", "c1", arguments), start("c2")]
            .map(|payload| chunk(0, 1, TIME - 9, payload)),
    );
    expected.extend(
        [
            json!({ "type": "run_resumed" }),
            end("c1", json!({ "result": 3, "success": true })),
            end("c2", json!({ "success": false })),
            end("c2", json!({ "success": false, "error": "no" })),
            json!({ "type": "step_committed", "messageCount": 4 }),
        ]
        .map(|payload| chunk(1, 2, TIME - 2, payload)),
    );
    let ids = ["cp-01a1e2dc7e617486a0672d26c8bef820", "cp-1"];
    expected.extend(ids.map(|id| chunk(1, 2, TIME, checkpoint(id))));
    expected.extend([3, 4, 4].map(|step| chunk(1, step, TIME, text("-"))));
    let pair = [
        json!({ "type": "step_committed", "messageCount": 5 }),
        checkpoint("cp-2"),
    ];
    expected.extend(pair.map(|payload| chunk(1, 4, TIME, payload)));
    let mut gaps = vec![0; expected.len()];
    let tail = gaps.len() - 4;
    gaps[tail..].copy_from_slice(&[7, 2, 0, 0]);
    assert_eq!(packed(&expected, &gaps, TIME), SECOND);
    assert_eq!(unpacked(SECOND, TIME).unwrap(), numbered(&expected, &gaps));
}

#[test]
fn a_broken_row_is_not_read() {
    for broken in [
        FIRST.replacen("[1,", "[3,", 1),
        SECOND.replacen("[2,", "[3,", 1),
        SECOND.replacen("[4,0]", "[4,2]", 1),
        SECOND.replacen("[4,0]", "[99,0]", 1),
        SECOND.replacen("[4,0]", "[4]", 1),
        SECOND.replacen("~18Q", "~!8Q", 1),
        SECOND.replacen("[10,2]", "[10]", 1),
        SECOND.replacen("[10,2]", &format!("[10,{}]", u64::MAX), 1),
        format!("{SECOND}]"),
        "[2,0]".to_owned(),
        "[]".to_owned(),
    ] {
        assert!(unpacked(&broken, TIME).is_err(), "{broken}");
    }
}

#[test]
fn an_author_that_cannot_be_read_is_the_error() {
    let missing = |_| Err(OperationError::corrupt("chunk", "its author is missing"));
    let error = unpack(SECOND, Sequence(1), Timestamp::default(), missing).unwrap_err();
    let error = helix_agents_core::store::StoreError::from(error).to_string();
    assert!(error.contains("author is missing"), "{error}");
}

/// A payload of every kind.
fn samples() -> Vec<ChunkPayload> {
    include_str!("../../../../core/tests/golden/chunk.v1.jsonl")
        .lines()
        .map(|line| decode::<Chunk>(line).unwrap().payload)
        .collect()
}

/// Payloads that share ids, names and texts.
fn frequent() -> impl Strategy<Value = ChunkPayload> {
    let word = prop_oneof![
        Just("a"),
        Just("b"),
        Just("cp-01a1e2dc7e617486a0672d26c8bef820")
    ];
    let value = prop_oneof![
        Just(json!(null)),
        Just(json!({ "a": [1, 0.5, "x"] })),
        any::<String>().prop_map(Value::from),
    ];
    (
        0..8,
        word.clone(),
        word,
        any::<String>(),
        value,
        any::<bool>(),
    )
        .prop_map(|(kind, id, name, delta, value, flag)| {
            let (tool_call_id, tool_name) = (id.parse().unwrap(), name.into());
            match kind {
                0 => ChunkPayload::TextDelta { delta },
                1 => ChunkPayload::Thinking {
                    content: delta,
                    is_complete: flag,
                },
                2 => ChunkPayload::ToolArgStreamStart {
                    tool_call_id,
                    tool_name,
                },
                3 => ChunkPayload::ToolArgStreamDelta {
                    tool_call_id,
                    delta,
                },
                4 => ChunkPayload::ToolArgStreamEnd { tool_call_id },
                5 => ChunkPayload::ToolStart {
                    tool_call_id,
                    tool_name,
                    arguments: value.into(),
                },
                6 => ChunkPayload::ToolEnd {
                    tool_call_id,
                    tool_name,
                    error: (delta.len() > 9).then_some(delta),
                    result: value,
                    success: flag,
                },
                7 => ChunkPayload::CheckpointCreated {
                    checkpoint_id: id.parse().unwrap(),
                },
                _ => ChunkPayload::StepCommitted {
                    message_count: delta.len(),
                },
            }
        })
}

fn chunks() -> impl Strategy<Value = Vec<Chunk>> {
    let payload = prop_oneof![3 => frequent(), 1 => proptest::sample::select(samples())];
    let time = prop_oneof![8 => TIME - 2..TIME + 2, 1 => any::<u64>()];
    let small = || prop_oneof![8 => 0..2_u32, 1 => any::<u32>()];
    let one = (0..2_u64, small(), small(), small(), time, payload);
    let one = one.prop_map(|(number, step, effect, attempt, time, payload)| {
        let mut origin = ChunkOrigin::clone(&author(number).unwrap());
        origin.step = step;
        let origin = Arc::new(origin.of_attempt(effect, attempt));
        Chunk::new(origin, Timestamp::from_millis(time), payload)
    });
    proptest::collection::vec(one, 1..40)
}

proptest! {
    #[test]
    fn every_batch_is_read_back(
        chunks in chunks(),
        gaps in proptest::collection::vec(0..3_u64, 40),
        time: u64,
    ) {
        for millis in [time, TIME] {
            for gaps in [&gaps[..], &[]] {
                let text = packed(&chunks, gaps, millis);
                prop_assert_eq!(unpacked(&text, millis).unwrap(), numbered(&chunks, gaps));
            }
        }
    }
}
