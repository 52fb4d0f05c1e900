//! Streams of servers that are almost like OpenAI's.

use super::*;
use serde_json::json;

/// Returns the events of these chunks, up to the end of the stream.
fn read(chunks: &[Value]) -> Vec<ModelEvent> {
    let mut reply = ChatReply::new("m");
    let mut out = VecDeque::new();
    for chunk in chunks {
        let data = chunk.to_string();
        let event = SseEvent {
            name: "",
            data: &data,
        };
        reply.read(event, &mut out).unwrap();
    }
    reply.end(&mut out).unwrap();
    out.into()
}

fn delta(delta: &Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta }] })
}

fn stop(reason: &str) -> Value {
    json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })
}

/// Returns the name and the arguments of each call.
fn calls(chunks: &[Value]) -> Vec<(String, String)> {
    let mut calls: Vec<(String, String)> = Vec::new();
    for event in read(chunks) {
        match event {
            ModelEvent::CallStart { name, .. } => calls.push((name, String::new())),
            ModelEvent::CallArguments { call, delta } => calls[call].1.push_str(&delta),
            _ => {}
        }
    }
    calls
}

#[test]
fn calls_are_told_apart_however_a_server_numbers_them() {
    let piece = |index: Value, id: Value, name: Value, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        delta(&json!({ "tool_calls": [{ "index": index, "id": id, "function": function }] }))
    };
    let null = Value::Null;
    let numbered = |one: [Value; 2], two: [Value; 2], ids: [Value; 2], names: [Value; 2]| {
        let [a, b] = [json!("call_a"), json!("call_b")];
        calls(&[
            piece(one[0].clone(), a, json!("f"), "{\"x\""),
            piece(one[1].clone(), ids[0].clone(), names[0].clone(), ":1}"),
            piece(two[0].clone(), b, json!("g"), "{\"y\""),
            piece(two[1].clone(), ids[1].clone(), names[1].clone(), ":2}"),
            stop("tool_calls"),
        ])
    };
    let expected = [("f", "{\"x\":1}"), ("g", "{\"y\":2}")];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let none = || [null.clone(), null.clone()];
    let zero = || [json!(0), json!(0)];
    let ids = || [json!("call_a"), json!("call_b")];
    let names = || [json!("f"), json!("g")];
    // As OpenAI does it; with ids repeated; with ids and names repeated.
    assert_eq!(
        numbered(zero(), [json!(1), json!(1)], none(), none()),
        expected
    );
    assert_eq!(
        numbered(zero(), [json!(1), json!(1)], ids(), none()),
        expected
    );
    assert_eq!(
        numbered(zero(), [json!(1), json!(1)], ids(), names()),
        expected
    );
    // With empty texts in place of what is missing.
    let empty = || [json!(""), json!("")];
    assert_eq!(
        numbered(zero(), [json!(1), json!(1)], empty(), empty()),
        expected
    );
    // Without an index, and with one index for all calls.
    assert_eq!(numbered(none(), none(), none(), none()), expected);
    assert_eq!(numbered(none(), none(), ids(), names()), expected);
    assert_eq!(numbered(zero(), zero(), none(), none()), expected);
    assert_eq!(numbered(zero(), zero(), ids(), names()), expected);
}

#[test]
fn calls_without_ids_and_with_one_id_for_all_are_told_apart_by_their_index() {
    for id in [Value::Null, json!("call_0")] {
        let call = |index: u32, name: &str| json!({ "index": index, "id": id, "function": { "name": name, "arguments": "{}" } });
        let both = delta(&json!({ "tool_calls": [call(0, "f"), call(1, "g")] }));
        let names: Vec<_> = calls(&[both, stop("stop")])
            .into_iter()
            .map(|it| it.0)
            .collect();
        assert_eq!(names, ["f", "g"], "{id}");
    }
}

#[test]
fn arguments_may_be_a_value() {
    let call = |arguments: Value| {
        let function = json!({ "name": "f", "arguments": arguments });
        delta(&json!({ "tool_calls": [{ "id": "a", "function": function }] }))
    };
    let text = |arguments: Value| calls(&[call(arguments), stop("stop")])[0].1.clone();
    assert_eq!(text(json!({ "x": 1 })), "{\"x\":1}");
    assert_eq!(text(Value::Null), "");
}

#[test]
fn a_reply_with_calls_stops_for_them_whatever_the_server_says() {
    let call = json!({ "tool_calls": [{ "id": "a", "function": { "name": "f" } }] });
    let events = read(&[delta(&call), stop("stop")]);
    let Some(ModelEvent::Finished { stop_reason, .. }) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(*stop_reason, StopReason::ToolUse);
}

#[test]
fn usage_that_every_event_repeats_is_told_when_it_changes() {
    let used = |output: u64| {
        json!({
            "choices": [{ "index": 0, "delta": { "content": "a" } }],
            "usage": { "prompt_tokens": 3, "completion_tokens": output },
        })
    };
    let events = read(&[used(1), used(1), used(2), stop("stop")]);
    let told = |event: &ModelEvent| match event {
        ModelEvent::Usage(usage) => Some(usage.output),
        _ => None,
    };
    let told: Vec<_> = events.iter().filter_map(told).collect();
    assert_eq!(told, [1, 2]);
    let last = TokenUsage::new(3, 2);
    assert!(matches!(events.last(), Some(ModelEvent::Finished { usage, .. }) if *usage == last));
}

#[test]
fn reasoning_comes_back_in_the_field_in_which_it_came() {
    let details = json!([{ "type": "reasoning.encrypted", "data": "x", "index": 0 }]);
    for (pieces, kept) in [
        (
            vec![json!({ "reasoning_content": "Hm" })],
            json!({ "model": "m", "field": "reasoning_content" }),
        ),
        (
            vec![json!({ "reasoning": "Hm" })],
            json!({ "model": "m", "field": "reasoning" }),
        ),
        (
            vec![
                json!({ "reasoning": "Hm" }),
                json!({ "reasoning_details": details }),
            ],
            json!({ "model": "m", "details": details }),
        ),
    ] {
        let mut chunks: Vec<_> = pieces.iter().map(delta).collect();
        chunks.extend([delta(&json!({ "content": "a" })), stop("stop")]);
        let events = read(&chunks);
        assert_eq!(
            events[..3],
            [
                ModelEvent::Thinking("Hm".to_owned()),
                ModelEvent::ThinkingEnd {
                    signature: None,
                    redacted: None,
                    provider_metadata: Some(json!({ "openai": kept })),
                },
                ModelEvent::Text("a".to_owned()),
            ]
        );
    }
}

#[test]
fn content_may_be_parts_of_which_some_are_thinking() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let thinking = |parts: Value| json!({ "type": "thinking", "thinking": parts });
    let other = json!({ "type": "reference", "reference_ids": [1] });
    let events = read(&[
        delta(&json!({ "content": [thinking(json!([text("H"), other]))] })),
        delta(&json!({ "content": [thinking(json!("m"))] })),
        delta(&json!({ "content": [thinking(json!([])), text("a"), other] })),
        delta(&json!({ "content": "b" })),
        delta(&json!({ "content": null })),
        stop("stop"),
    ]);
    let kept = json!({ "openai": { "model": "m", "field": "content" } });
    let expected = [
        ModelEvent::Thinking("H".to_owned()),
        ModelEvent::Thinking("m".to_owned()),
        ModelEvent::ThinkingEnd {
            signature: None,
            redacted: None,
            provider_metadata: Some(kept),
        },
        ModelEvent::Text("a".to_owned()),
        ModelEvent::Text("b".to_owned()),
    ];
    assert_eq!(events[..5], expected);
    assert_eq!(events.len(), 6);
}

#[test]
fn a_stream_without_a_reason_to_stop_is_not_whole() {
    let events = read(&[delta(&json!({ "content": "a" }))]);
    assert_eq!(events, [ModelEvent::Text("a".to_owned())]);
}

#[test]
fn an_error_with_a_status_is_of_its_kind() {
    let mut reply = ChatReply::new("m");
    let data = r#"{"error":{"code":502,"message":"Upstream failed"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#;
    let event = SseEvent { name: "", data };
    let failed = reply.read(event, &mut VecDeque::new()).unwrap_err();
    let ReadError::Provider(failure) = failed else {
        panic!("{failed:?}");
    };
    let kind = failure.kind(None);
    assert_eq!(kind, helix_agents_core::model::ModelErrorKind::Overloaded);
}
