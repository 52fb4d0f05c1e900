//! Events of adapters that tell calls and ends in their own ways.

use ::genai::chat::{MessageContent, StreamChunk, ToolChunk};

use super::*;

fn read(events: Vec<ChatStreamEvent>) -> Result<Vec<ModelEvent>, ModelError> {
    let mut reply = GenaiReply::new("groq::m");
    let mut out = VecDeque::new();
    for event in events {
        reply.read(event, &mut out)?;
    }
    Ok(out.into())
}

fn call(id: &str, arguments: Value) -> ToolCall {
    ToolCall {
        call_id: id.to_owned(),
        fn_name: "f".to_owned(),
        fn_arguments: arguments,
        thought_signatures: None,
    }
}

fn chunk(id: &str, arguments: Value) -> ChatStreamEvent {
    let tool_call = call(id, arguments);
    ChatStreamEvent::ToolCallChunk(ToolChunk { tool_call })
}

fn text(content: &str) -> StreamChunk {
    StreamChunk {
        content: content.to_owned(),
    }
}

fn end(parts: Vec<ContentPart>, reason: Option<&str>) -> ChatStreamEvent {
    ChatStreamEvent::End(StreamEnd {
        captured_stop_reason: reason.map(|reason| Reason::from(reason.to_owned())),
        captured_content: Some(MessageContent::from_parts(parts)),
        ..StreamEnd::default()
    })
}

fn ended(ids: &[&str]) -> ChatStreamEvent {
    let calls = ids.iter().map(|id| call(id, json!({})).into());
    end(calls.collect(), Some("stop"))
}

/// The ids and the arguments of the calls in these events.
fn calls(events: &[ModelEvent]) -> Vec<(String, String)> {
    let mut calls: Vec<(String, String)> = Vec::new();
    for event in events {
        match event {
            ModelEvent::CallStart { id, .. } => calls.push((id.clone().unwrap(), String::new())),
            ModelEvent::CallArguments { call, delta } => calls[*call].1.push_str(delta),
            _ => {}
        }
    }
    calls
}

#[test]
fn arguments_that_grow_are_told_in_pieces() {
    let events = read(vec![
        chunk("a", json!("")),
        chunk("a", json!("{\"x\"")),
        chunk("b", json!("{")),
        chunk("a", json!("{\"x\":1}")),
        chunk("b", json!("{}")),
        ended(&["a", "b"]),
    ])
    .unwrap();
    let pair = |id: &str, text: &str| (id.to_owned(), text.to_owned());
    assert_eq!(calls(&events), [pair("a", "{\"x\":1}"), pair("b", "{}")]);
    let Some(ModelEvent::Finished { stop_reason, .. }) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(*stop_reason, StopReason::ToolUse);
}

#[test]
fn whole_calls_of_one_id_are_two() {
    let events = read(vec![
        chunk("f", json!({ "x": 1 })),
        chunk("f", json!({ "x": 2 })),
        ended(&["f", "f"]),
    ])
    .unwrap();
    let arguments: Vec<_> = calls(&events).into_iter().map(|call| call.1).collect();
    assert_eq!(arguments, ["{\"x\":1}", "{\"x\":2}"]);
}

#[test]
fn calls_that_do_not_fit_together_fail_the_attempt() {
    for events in [
        // One call that changed its id in the middle would be made twice.
        vec![
            chunk("a", json!("{")),
            chunk("b", json!("{}")),
            ended(&["b"]),
        ],
        vec![chunk("a", json!("{}")), ended(&["b"])],
        vec![chunk("a", json!("{\"x\"")), chunk("a", json!(":1}"))],
    ] {
        let error = read(events).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Transport, "{error}");
    }
    // An adapter fills gaps between the numbers of calls with copies.
    let events = read(vec![chunk("a", json!("{}")), ended(&["a", "a"])]).unwrap();
    assert_eq!(calls(&events).len(), 1);
}

#[test]
fn an_end_without_a_reason_is_a_stream_that_broke() {
    let events = vec![ChatStreamEvent::Chunk(text("Hel")), end(Vec::new(), None)];
    assert_eq!(read(events).unwrap_err().kind, ModelErrorKind::Transport);
}

#[test]
fn reasoning_is_kept_with_its_signatures() {
    let signed = vec![
        ContentPart::ThoughtSignature("sig".to_owned()),
        ContentPart::ReasoningContent("Hm".to_owned()),
    ];
    let parts = serde_json::to_value(&signed).unwrap();
    let events = read(vec![
        ChatStreamEvent::ReasoningChunk(text("Hm")),
        ChatStreamEvent::ThoughtSignatureChunk(text("sig")),
        ChatStreamEvent::Chunk(text("a")),
        end(signed, Some("end_turn")),
    ])
    .unwrap();
    let kept = |parts: Option<Value>| GenaiReply::new("groq::m").kept(parts);
    let usage = TokenUsage::default();
    assert_eq!(
        events,
        [
            ModelEvent::Thinking("Hm".to_owned()),
            thinking_end(kept(None)),
            ModelEvent::Text("a".to_owned()),
            ModelEvent::Usage(usage),
            thinking_end(kept(Some(parts))),
            ModelEvent::Finished {
                stop_reason: StopReason::EndTurn,
                usage,
            },
        ]
    );
}

#[test]
fn reasons_to_stop_are_those_of_all_models() {
    for (raw, expected) in [
        ("length", StopReason::MaxTokens),
        ("refusal", StopReason::Refusal),
        ("content_filter", StopReason::ContentFilter),
        ("stop_sequence", StopReason::StopSequence),
        ("ERROR", StopReason::Error),
        ("load", StopReason::Unknown),
    ] {
        let reason = Reason::from(raw.to_owned());
        assert_eq!(stop_reason(&reason), expected, "{raw}");
    }
}
