use helix_agents_core::Transcript;
use helix_agents_core::message::{AssistantMessage, AssistantPart, Thinking};
use helix_agents_core::model::{
    ModelErrorKind, ModelEvent, ModelReply, ReplyBuilder, ReplyDelta, TokenUsage,
};
use helix_agents_core::step::StopReason;
use helix_agents_core::transcript::PairedStep;
use helix_agents_testkit::SequentialIds;
use serde_json::json;

use crate::make::{call, call_id, calling, result};

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

fn start(id: Option<&str>, name: &str) -> ModelEvent {
    ModelEvent::CallStart {
        id: id.map(str::to_owned),
        name: name.to_owned(),
    }
}

fn arguments(call: usize, delta: &str) -> ModelEvent {
    ModelEvent::CallArguments {
        call,
        delta: delta.to_owned(),
    }
}

fn finished() -> ModelEvent {
    ModelEvent::Finished {
        stop_reason: StopReason::ToolUse,
        usage: TokenUsage::new(12, 3),
    }
}

fn build(
    history: &Transcript,
    events: Vec<ModelEvent>,
) -> (Vec<ReplyDelta>, Result<ModelReply, ModelErrorKind>) {
    let ids = SequentialIds::new();
    let mut builder = ReplyBuilder::new(history);
    let mut deltas = Vec::new();
    for event in events {
        match builder.push(event, &ids) {
            Ok(delta) => deltas.extend(delta),
            Err(error) => return (deltas, Err(error.kind)),
        }
    }
    (deltas, builder.finish().map_err(|error| error.kind))
}

#[test]
fn parts_keep_the_models_order_and_pieces_are_joined() {
    let thinking_end = ModelEvent::ThinkingEnd {
        signature: Some("sig".to_owned()),
        redacted: None,
        provider_metadata: None,
    };
    let (deltas, reply) = build(
        &Transcript::new(),
        vec![
            ModelEvent::Thinking("let me ".to_owned()),
            ModelEvent::Thinking("see".to_owned()),
            thinking_end,
            text("I will "),
            text("look."),
            start(Some("c1"), "lookup"),
            start(Some("c2"), "lookup"),
            arguments(1, "{\"id\":"),
            arguments(0, "{}"),
            arguments(1, "7}"),
            ModelEvent::CallEnd {
                call: 0,
                provider_metadata: Some(json!({"sig": 1})),
            },
            ModelEvent::Thinking("unsigned".to_owned()),
            text("Done."),
            finished(),
        ],
    );
    let mut first = call("c1", "lookup", json!({}));
    first.provider_metadata = Some(json!({"sig": 1}));
    let expected = AssistantMessage::new(vec![
        AssistantPart::Thinking(Thinking::new("let me see").signed("sig")),
        AssistantPart::text("I will look."),
        AssistantPart::ToolCall(first),
        AssistantPart::ToolCall(call("c2", "lookup", json!({"id": 7}))),
        AssistantPart::Thinking(Thinking::new("unsigned")),
        AssistantPart::text("Done."),
    ]);
    let usage = TokenUsage::new(12, 3);
    assert_eq!(reply, Ok(ModelReply::new(expected).with_usage(usage)));
    assert_eq!(deltas.len(), 13);
    assert_eq!(deltas[2], ReplyDelta::ThinkingEnd);
    let piece = ReplyDelta::CallArguments {
        id: call_id("c2"),
        delta: "7}".to_owned(),
    };
    assert_eq!(deltas[9], piece);
}

#[test]
fn texts_keep_what_their_provider_expects_back() {
    let end = |provider_metadata| ModelEvent::TextEnd { provider_metadata };
    let signed = |text: &str, signature| AssistantPart::Text {
        text: text.to_owned(),
        provider_metadata: Some(json!({ "signature": signature })),
    };
    let (deltas, reply) = build(
        &Transcript::new(),
        vec![
            end(None),
            text("o"),
            text("ne"),
            end(Some(json!({ "signature": 1 }))),
            text("two"),
            end(None),
            text("three"),
            ModelEvent::Thinking("hm".to_owned()),
            end(Some(json!({ "signature": 2 }))),
            finished(),
        ],
    );
    let expected = AssistantMessage::new(vec![
        signed("one", 1),
        AssistantPart::text("two"),
        AssistantPart::text("three"),
        AssistantPart::Thinking(Thinking::new("hm")),
        signed("", 2),
    ]);
    assert_eq!(expected.content().as_deref(), Some("onetwothree"));
    assert_eq!(reply.unwrap().message, expected);
    assert_eq!(deltas.len(), 5, "readers see no ends of texts");
}

#[test]
fn a_block_that_nobody_can_read_is_kept_and_not_shown() {
    let block = ModelEvent::ThinkingEnd {
        signature: None,
        redacted: Some("b64".to_owned()),
        provider_metadata: None,
    };
    let (deltas, reply) = build(&Transcript::new(), vec![block, text("Hi"), finished()]);
    let message = reply.unwrap().message;
    assert_eq!(
        message.thinking().next().unwrap().redacted.as_deref(),
        Some("b64")
    );
    assert_eq!(deltas, [ReplyDelta::Text("Hi".to_owned())]);
}

#[test]
fn the_last_usage_is_that_of_the_reply() {
    let used = |output| ModelEvent::Usage(TokenUsage::new(12, output));
    let mut builder = ReplyBuilder::new(&Transcript::new());
    let ids = SequentialIds::new();
    assert_eq!(builder.usage(), None);
    for event in [used(1), text("Hi"), used(2)] {
        builder.push(event, &ids).unwrap();
    }
    assert_eq!(builder.usage(), Some(TokenUsage::new(12, 2)));
    builder.push(finished(), &ids).unwrap();
    assert_eq!(builder.finish().unwrap().usage, TokenUsage::new(12, 3));
}

#[test]
fn call_ids_are_unique_before_anything_shows_them() {
    let mut history = Transcript::new();
    let step = PairedStep::new(calling(&["call_0"]), [result("call_0")]).unwrap();
    history.push_step(step).unwrap();
    let (deltas, reply) = build(
        &history,
        vec![
            start(Some("call_0"), "t"),
            start(Some("call_0"), "t"),
            start(None, "t"),
            start(Some("not/an/id"), "t"),
            finished(),
        ],
    );
    let shown: Vec<_> = deltas
        .iter()
        .map(|delta| match delta {
            ReplyDelta::CallStart { id, .. } => id.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(shown, ["call_0_2", "call_0_3", "call-1", "call-2"]);
    let message = reply.unwrap().message;
    let stored: Vec<_> = message.tool_calls().map(|call| call.id.as_str()).collect();
    assert_eq!(stored, shown);
}

#[test]
fn arguments_that_are_not_json_are_kept_as_text() {
    let (_, reply) = build(
        &Transcript::new(),
        vec![
            start(Some("a"), "t"),
            arguments(0, "{\"cut\": "),
            start(Some("b"), "t"),
            finished(),
        ],
    );
    let message = reply.unwrap().message;
    let found: Vec<_> = message
        .tool_calls()
        .map(|call| call.arguments.clone())
        .collect();
    assert_eq!(found, [json!("{\"cut\": "), json!({})]);
}

#[test]
fn arguments_too_deep_to_be_stored_are_kept_as_text() {
    let deep = format!("{}1{}", "[".repeat(101), "]".repeat(101));
    let (_, reply) = build(
        &Transcript::new(),
        vec![start(Some("a"), "t"), arguments(0, &deep), finished()],
    );
    let message = reply.unwrap().message;
    let call = message.tool_calls().next().unwrap();
    assert_eq!(call.arguments, json!(deep));
}

/// Some providers send empty text beside reasoning and calls; an empty piece is not a part.
#[test]
fn empty_pieces_are_not_parts() {
    let (deltas, reply) = build(
        &Transcript::new(),
        vec![
            ModelEvent::Thinking("a".to_owned()),
            text(""),
            ModelEvent::Thinking("b".to_owned()),
            text(""),
            start(Some("c1"), "t"),
            finished(),
        ],
    );
    let expected = AssistantMessage::new(vec![
        AssistantPart::Thinking(Thinking::new("ab")),
        AssistantPart::ToolCall(call("c1", "t", json!({}))),
    ]);
    assert_eq!(reply.unwrap().message, expected);
    assert_eq!(deltas.len(), 3);
}

#[test]
fn a_stream_that_ends_before_the_reply_is_a_transport_error() {
    let (_, reply) = build(&Transcript::new(), vec![text("half a sen")]);
    assert_eq!(reply, Err(ModelErrorKind::Transport));
    let (_, reply) = build(&Transcript::new(), vec![finished(), text("more")]);
    assert_eq!(reply, Err(ModelErrorKind::Transport));
    let (_, reply) = build(&Transcript::new(), vec![arguments(0, "{}")]);
    assert_eq!(reply, Err(ModelErrorKind::Transport));
}
