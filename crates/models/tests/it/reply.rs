//! Tests of the events of a reply.

use helix_agents_core::message::{AssistantMessage, AssistantPart, Thinking};
use helix_agents_core::model::{ModelEvent, ModelReply, TokenUsage};
use helix_agents_core::step::StopReason;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::scene::{Scene, call, model, one_step};

fn text(delta: &str) -> ModelEvent {
    ModelEvent::Text(delta.to_owned())
}

fn thinking(delta: &str) -> ModelEvent {
    ModelEvent::Thinking(delta.to_owned())
}

fn thinking_end() -> ModelEvent {
    ModelEvent::ThinkingEnd {
        signature: None,
        redacted: None,
        provider_metadata: None,
    }
}

fn call_start(id: Option<&str>, name: &str) -> ModelEvent {
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

fn call_end(call: usize) -> ModelEvent {
    ModelEvent::CallEnd {
        call,
        provider_metadata: None,
    }
}

fn finished(stop_reason: StopReason, usage: TokenUsage) -> ModelEvent {
    ModelEvent::Finished { stop_reason, usage }
}

fn events(step: Value) -> Vec<ModelEvent> {
    let events = Scene::user("go").events(&one_step(step));
    events.into_iter().map(Result::unwrap).collect()
}

/// proves: LLM-01
#[test]
fn a_reply_is_thinking_text_calls_and_finish_in_this_order() {
    let said = events(json!({
        "finish": { "ok": true },
        "tool_calls": [
            { "id": "c1", "name": "lookup", "arguments": { "order": 1234567 } },
            { "name": "clock" },
        ],
        "text": "One moment please.",
        "thinking": "check first",
        "usage": { "input": 12, "output": 3 },
    }));
    assert_eq!(
        said,
        [
            thinking("check fi"),
            thinking("rst"),
            thinking_end(),
            text("One mome"),
            text("nt pleas"),
            text("e."),
            call_start(Some("c1"), "lookup"),
            arguments(0, r#"{"order""#),
            arguments(0, ":1234567"),
            arguments(0, "}"),
            call_end(0),
            call_start(None, "clock"),
            arguments(1, "{}"),
            call_end(1),
            call_start(None, "__finish__"),
            arguments(2, r#"{"ok":tr"#),
            arguments(2, "ue}"),
            call_end(2),
            finished(StopReason::ToolUse, TokenUsage::new(12, 3)),
        ]
    );
}

#[test]
fn an_empty_step_only_finishes() {
    for step in [json!({}), json!({ "thinking": "", "text": "" })] {
        let end = finished(StopReason::EndTurn, TokenUsage::default());
        assert_eq!(events(step), [end]);
    }
}

#[test]
fn deltas_count_characters_and_not_bytes() {
    let said = events(json!({ "text": "aé漢🦀b", "chunk_chars": 2 }));
    let end = finished(StopReason::EndTurn, TokenUsage::default());
    assert_eq!(said, [text("aé"), text("漢🦀"), text("b"), end]);
}

#[test]
fn the_stop_reason_follows_from_the_calls_unless_it_is_given() {
    let stop_reason = |step| Scene::user("go").reply(&one_step(step)).stop_reason;
    let call = json!([{ "name": "t" }]);
    assert_eq!(stop_reason(json!({ "text": "t" })), StopReason::EndTurn);
    assert_eq!(
        stop_reason(json!({ "tool_calls": call })),
        StopReason::ToolUse
    );
    assert_eq!(stop_reason(json!({ "finish": {} })), StopReason::ToolUse);
    for (name, reason) in [
        ("end_turn", StopReason::EndTurn),
        ("stop_sequence", StopReason::StopSequence),
        ("tool_use", StopReason::ToolUse),
        ("max_tokens", StopReason::MaxTokens),
        ("content_filter", StopReason::ContentFilter),
        ("refusal", StopReason::Refusal),
        ("error", StopReason::Error),
        ("unknown", StopReason::Unknown),
    ] {
        let step = json!({ "tool_calls": call, "stop_reason": name });
        assert_eq!(stop_reason(step), reason);
    }
}

#[test]
fn usage_is_taken_from_the_script() {
    let usage = |usage| {
        let step = json!({ "usage": usage });
        Scene::user("go").reply(&one_step(step)).usage
    };
    let mut all = TokenUsage::new(12, 3);
    all.cached = Some(5);
    all.reasoning = Some(1);
    let written = json!({ "input": 12, "output": 3, "cached": 5, "reasoning": 1 });
    assert_eq!(usage(written), all);
    assert_eq!(usage(json!({ "output": 3 })), TokenUsage::new(0, 3));
}

#[test]
fn call_ids_are_kept_renamed_or_generated() {
    let step = json!({ "tool_calls": [
        { "id": "c1", "name": "a" },
        { "id": "c1", "name": "b" },
        { "name": "c" },
        { "id": "c2", "name": "d" },
    ] });
    let model = model(json!({ "default": [step.clone(), step] }));
    let mut scene = Scene::user("go");
    let named = |ids: [&str; 4]| {
        let calls = ids.into_iter().zip(["a", "b", "c", "d"]);
        calls
            .map(|(id, name)| call(id, name, json!({})))
            .collect::<Vec<_>>()
    };
    assert_eq!(scene.calls(&model), named(["c1", "c1_2", "call-1", "c2"]));
    scene.step(&model, [json!(1), json!(2), json!(3), json!(4)]);
    assert_eq!(
        scene.calls(&model),
        named(["c1_3", "c1_4", "call-3", "c2_2"])
    );
}

#[test]
fn finish_is_a_call_after_the_others() {
    let step = json!({
        "thinking": "enough",
        "text": "Here.",
        "tool_calls": [ { "id": "c1", "name": "log", "arguments": { "n": 1 } } ],
        "finish": { "summary": "Echo: {{last_user}}" },
    });
    let expected = AssistantMessage::new(vec![
        AssistantPart::Thinking(Thinking::new("enough")),
        AssistantPart::text("Here."),
        AssistantPart::ToolCall(call("c1", "log", json!({ "n": 1 }))),
        AssistantPart::ToolCall(call(
            "call-1",
            "__finish__",
            json!({ "summary": "Echo: go" }),
        )),
    ]);
    assert_eq!(
        Scene::user("go").reply(&one_step(step)),
        ModelReply::new(expected)
    );
}

#[test]
fn arguments_may_be_any_json() {
    for value in [
        json!({ "a": [1, -2.5, true, null, "x\"\\\n{{", {}], "k\"ey": { "b": [] } }),
        json!(null),
        json!("not an object"),
        json!([]),
        json!(7),
    ] {
        let step = json!({ "tool_calls": [ { "id": "c", "name": "t", "arguments": value } ] });
        let calls = Scene::user("go").calls(&one_step(step));
        assert_eq!(calls, [call("c", "t", value)]);
    }
}

/// Splits a text into pieces of `chars` characters.
fn pieces(text: &str, chars: usize) -> Vec<String> {
    let text: Vec<_> = text.chars().collect();
    text.chunks(chars).map(String::from_iter).collect()
}

proptest! {
    #[test]
    fn joined_deltas_equal_the_text(
        user in prop::collection::vec(any::<char>(), 0..60).prop_map(String::from_iter),
        chars in 1_usize..12,
    ) {
        let scene = Scene::user(&user);
        let model = one_step(json!({
            "thinking": "{{last_user}}",
            "text": "{{last_user}}",
            "tool_calls": [ { "id": "c", "name": "t", "arguments": { "k": "<{{last_user}}>" } } ],
            "chunk_chars": chars,
        }));

        let (mut thinking, mut text, mut arguments) = (vec![], vec![], vec![]);
        for event in scene.events(&model) {
            match event.unwrap() {
                ModelEvent::Thinking(delta) => thinking.push(delta),
                ModelEvent::Text(delta) => text.push(delta),
                ModelEvent::CallArguments { delta, .. } => arguments.push(delta),
                _ => {}
            }
        }
        let given = json!({ "k": format!("<{user}>") });
        prop_assert_eq!(text.concat(), user.as_str());
        prop_assert_eq!(text, pieces(&user, chars));
        prop_assert_eq!(thinking, pieces(&user, chars));
        prop_assert_eq!(arguments, pieces(&given.to_string(), chars));
        prop_assert_eq!(scene.calls(&model), [call("c", "t", given)]);
    }
}
