//! Tests of the delay between deltas.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::Stream;
use helix_agents_core::id::SessionId;
use helix_agents_core::model::{
    Model, ModelConfig, ModelErrorKind, ModelEvent, ModelRequest, ToolChoice,
};
use helix_agents_core::step::{SystemPrompt, build_messages_for_llm};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_testkit::VirtualClock;
use serde_json::json;

use crate::scene::{Scene, one_step};

/// The text of each delta, with the milliseconds at which it arrives.
fn deltas(step: serde_json::Value) -> Vec<(u64, String)> {
    let events = Scene::user("go").timed_events(&one_step(step)).into_iter();
    let deltas = events.filter_map(|(at, event)| match event.ok()? {
        ModelEvent::Text(text) | ModelEvent::Thinking(text) => Some((at, text)),
        ModelEvent::CallArguments { delta, .. } => Some((at, delta)),
        _ => None,
    });
    deltas.collect()
}

#[test]
fn a_delay_comes_between_two_deltas_of_any_kind() {
    let step = json!({
        "thinking": "aab",
        "text": "ccd",
        "tool_calls": [ { "name": "t", "arguments": [1] } ],
        "finish": 7,
        "chunk_chars": 2,
        "delay_ms": 5,
    });
    let expected = [
        (0, "aa"),
        (5, "b"),
        (10, "cc"),
        (15, "d"),
        (20, "[1"),
        (25, "]"),
        (30, "7"),
    ];
    assert_eq!(
        deltas(step),
        expected.map(|(at, text)| (at, text.to_owned()))
    );
}

#[test]
fn a_reply_of_one_delta_takes_no_time() {
    let events = Scene::user("go").timed_events(&one_step(json!({
        "text": "short",
        "delay_ms": 1000,
    })));
    assert!(events.iter().all(|(at, _)| *at == 0), "{events:?}");
}

#[test]
fn a_failure_comes_at_once_after_the_last_delta() {
    let events = Scene::user("go").timed_events(&one_step(json!({
        "text": "abc",
        "chunk_chars": 1,
        "delay_ms": 5,
        "error": { "kind": "transport", "after_chars": 2 },
    })));
    let times: Vec<_> = events
        .into_iter()
        .map(|(at, event)| (at, event.map_err(|failure| failure.kind)))
        .collect();
    let text = |text: &str| Ok(ModelEvent::Text(text.to_owned()));
    assert_eq!(
        times,
        [
            (0, text("a")),
            (5, text("b")),
            (5, Err(ModelErrorKind::Transport))
        ]
    );
}

#[test]
fn the_model_waits_on_the_clock_of_the_request() {
    let model = one_step(json!({ "text": "ab", "chunk_chars": 1, "delay_ms": 5 }));
    let scene = Scene::user("go");
    let clock = VirtualClock::new(Timestamp::from_millis(100));
    let system = SystemPrompt::from("");
    let prompt = build_messages_for_llm(&scene.history, &system, &scene.state);
    let (config, session) = (ModelConfig::default(), SessionId::new("s1").unwrap());
    let request = ModelRequest {
        prompt,
        config: &config,
        state: &scene.state,
        agent_type: "support",
        session_id: &session,
        clock: &clock,
        tools: &[],
        tool_choice: ToolChoice::Auto,
        native_output: None,
        attempt: 1,
    };

    let mut events = pin!(model.stream(request));
    let mut context = Context::from_waker(Waker::noop());
    let mut poll = || {
        let event = events.as_mut().poll_next(&mut context);
        event.map(|event| event.map(Result::unwrap))
    };
    assert_eq!(poll(), Poll::Ready(Some(ModelEvent::Text("a".into()))));
    assert_eq!(poll(), Poll::Pending);
    assert_eq!(clock.next_deadline(), Some(Timestamp::from_millis(105)));
    clock.advance(Duration::from_millis(4));
    assert_eq!(poll(), Poll::Pending);
    clock.advance(Duration::from_millis(1));
    assert_eq!(poll(), Poll::Ready(Some(ModelEvent::Text("b".into()))));
}

/// A clock that panics when it is used.
#[derive(Debug)]
struct NoClock;

#[async_trait::async_trait]
impl Clock for NoClock {
    fn now(&self) -> Timestamp {
        panic!("asked for the time")
    }

    async fn sleep_until(&self, _deadline: Timestamp) {
        panic!("asked to wait")
    }
}

#[test]
fn without_a_delay_the_clock_is_not_used() {
    let model = one_step(json!({ "text": "abc", "chunk_chars": 1 }));
    assert_eq!(Scene::user("go").events_on(&NoClock, &model).len(), 4);
}

#[test]
fn a_reply_of_many_deltas_is_not_slow() {
    let long = "0123456789".repeat(20_000);
    let model = one_step(json!({ "text": "{{last_user}}", "chunk_chars": 1 }));
    assert_eq!(Scene::user(&long).text(&model), long);
}
