//! Replies that come in unusual forms.

use helix_agents_core::model::ModelErrorKind;

use super::*;

fn reader(is_stored: bool) -> ResponsesReply {
    ResponsesReply::new("m", is_stored)
}

/// Returns what a reader makes of these events, up to an error.
fn read(mut reader: ResponsesReply, events: &[Value]) -> (Vec<ModelEvent>, Option<ReadError>) {
    let mut out = VecDeque::new();
    for event in events {
        let data = event.to_string();
        let name = event["type"].as_str().unwrap_or_default();
        let event = SseEvent { name, data: &data };
        if let Err(error) = reader.read(event, &mut out) {
            return (out.into(), Some(error));
        }
    }
    (out.into(), None)
}

fn done(index: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": index, "item": item })
}

fn completed() -> Value {
    json!({ "type": "response.completed", "response": { "status": "completed" } })
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

fn finished(stop_reason: StopReason) -> ModelEvent {
    let usage = TokenUsage::default();
    ModelEvent::Finished { stop_reason, usage }
}

#[test]
fn items_that_come_only_as_a_whole_are_read() {
    let call = |id: &str| json!({ "type": "function_call", "call_id": id, "name": "f", "arguments": "{\"a\":1}" });
    let parts =
        json!([{ "type": "output_text", "text": "a" }, { "type": "output_text", "text": "b" }]);
    let reasoning = json!({ "type": "reasoning", "id": "rs", "encrypted_content": "x", "summary": [{ "text": "Hm" }] });
    let (events, error) = read(
        reader(false),
        &[
            done(0, &reasoning),
            done(1, &json!({ "type": "message", "content": parts })),
            done(2, &call("c0")),
            done(3, &call("c1")),
            completed(),
        ],
    );
    assert!(error.is_none());
    let start = |id: &str| ModelEvent::CallStart {
        id: Some(id.to_owned()),
        name: "f".to_owned(),
    };
    let arguments = |call| ModelEvent::CallArguments {
        call,
        delta: "{\"a\":1}".to_owned(),
    };
    let end = |call| ModelEvent::CallEnd {
        call,
        provider_metadata: None,
    };
    let item = json!({ "type": "reasoning", "id": "rs", "encrypted_content": "x" });
    let kept = json!({ "openai-responses": { "model": "m", "item": item } });
    let no_data = ModelEvent::TextEnd {
        provider_metadata: None,
    };
    assert_eq!(
        events,
        [
            ModelEvent::Thinking("Hm".to_owned()),
            thinking_end(Some(kept)),
            text("a"),
            text("b"),
            no_data,
            start("c0"),
            arguments(0),
            end(0),
            start("c1"),
            arguments(1),
            end(1),
            finished(StopReason::ToolUse),
        ]
    );
}

#[test]
fn pieces_of_two_open_calls_are_told_apart() {
    let added = |index: u64| {
        let item = json!({ "type": "function_call", "call_id": format!("c{index}"), "name": "f" });
        json!({ "type": "response.output_item.added", "output_index": index, "item": item })
    };
    let piece = |index: u64, delta: &str| json!({ "type": "response.function_call_arguments.delta", "output_index": index, "delta": delta });
    let foreign = piece(9, "of a tool of the provider");
    let (events, _) = read(
        reader(false),
        &[
            added(3),
            added(4),
            piece(4, "{}"),
            piece(3, "[]"),
            foreign,
            completed(),
        ],
    );
    let arguments: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::CallArguments { call, delta } => Some((*call, delta.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(arguments, [(1, "{}"), (0, "[]")]);
    let ends = |event: &&ModelEvent| matches!(event, ModelEvent::CallEnd { .. });
    assert_eq!(events.iter().filter(ends).count(), 2);
}

#[test]
fn reasoning_that_the_provider_cannot_know_again_is_shown_and_not_kept() {
    let piece = json!({ "type": "response.reasoning_summary_text.delta", "delta": "Hm" });
    let item = json!({ "type": "reasoning", "id": "rs", "encrypted_content": null, "summary": [{ "text": "Hm" }] });
    let events = [piece, done(0, &item), completed()];
    let kept = |is_stored: bool| match &read(reader(is_stored), &events).0[..] {
        [
            ModelEvent::Thinking(_),
            ModelEvent::ThinkingEnd {
                provider_metadata, ..
            },
            ModelEvent::Finished { .. },
        ] => provider_metadata.is_some(),
        other => panic!("{other:?}"),
    };
    assert!(!kept(false));
    assert!(kept(true));
    let open = json!({ "type": "reasoning", "id": "rs", "summary": [], "content": [{ "type": "reasoning_text", "text": "Hm" }] });
    let (events, _) = read(reader(false), &[done(0, &open)]);
    let kept = json!({ "openai-responses": { "model": "m", "item": open } });
    assert_eq!(
        events,
        [
            ModelEvent::Thinking("Hm".to_owned()),
            thinking_end(Some(kept))
        ]
    );
}

#[test]
fn reasons_to_stop_are_told_apart() {
    let stopped = |event: Value| match read(reader(false), &[event]).0.pop() {
        Some(ModelEvent::Finished { stop_reason, .. }) => stop_reason,
        other => panic!("{other:?}"),
    };
    let incomplete = |details: Value| json!({ "type": "response.incomplete", "response": { "incomplete_details": details } });
    for (details, reason) in [
        (
            json!({ "reason": "max_output_tokens" }),
            StopReason::MaxTokens,
        ),
        (
            json!({ "reason": "content_filter" }),
            StopReason::ContentFilter,
        ),
        (json!({ "reason": "steered" }), StopReason::Unknown),
        (Value::Null, StopReason::Unknown),
    ] {
        assert_eq!(stopped(incomplete(details)), reason);
    }
    assert_eq!(stopped(completed()), StopReason::EndTurn);
}

#[test]
fn errors_are_read_in_each_of_their_forms() {
    let code = "rate_limit_exceeded";
    for event in [
        json!({ "type": "error", "code": code, "message": "m", "param": null }),
        json!({ "type": "error", "error": { "code": code, "message": "m" } }),
        json!({ "type": "error", "error": { "code": null, "type": code, "message": "m" } }),
        json!({ "error": { "code": code, "message": "m" } }),
        json!({ "type": "response.failed", "response": { "error": { "code": code, "message": "m" } } }),
    ] {
        let (_, error) = read(reader(false), std::slice::from_ref(&event));
        let Some(ReadError::Provider(failure)) = error else {
            panic!("{event}: {error:?}");
        };
        assert_eq!(failure.kind(None), ModelErrorKind::RateLimited, "{event}");
        assert_eq!(
            (failure.code.as_str(), failure.message.as_str()),
            (code, "m")
        );
    }
}

#[test]
fn unknown_events_are_skipped_and_nothing_follows_the_end() {
    let (events, error) = read(
        reader(false),
        &[
            json!({ "type": "keepalive", "delta": { "not": "a text" } }),
            json!({ "delta": ["nameless"] }),
            completed(),
            json!({ "type": "response.output_text.delta", "delta": "late" }),
        ],
    );
    assert!(error.is_none());
    assert_eq!(events, [finished(StopReason::EndTurn)]);
}
