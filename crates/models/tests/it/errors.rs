//! Tests of failures that a script asks for.

use std::time::Duration;

use helix_agents_core::Coded;
use helix_agents_core::model::{ModelError, ModelErrorKind, ModelEvent};
use serde_json::{Value, json};

use crate::scene::{Failure, Scene, model, one_step};

fn attempts(step: Value, count: u32) -> Vec<Result<String, ModelErrorKind>> {
    let model = one_step(step);
    (1..=count)
        .map(|attempt| {
            let reply = Scene::user("go").attempt(attempt).try_reply(&model);
            match reply {
                Ok(reply) => Ok(reply.message.content().unwrap_or_default()),
                Err(failure) => Err(failure.kind),
            }
        })
        .collect()
}

/// The events that are streamed before the failure.
fn said_before(step: Value) -> Vec<ModelEvent> {
    let mut events = Scene::user("go").events(&one_step(step));
    let failure = events.pop().unwrap().unwrap_err();
    assert_eq!(failure.kind, ModelErrorKind::Transport);
    events.into_iter().map(Result::unwrap).collect()
}

/// proves: LLM-04
#[test]
fn every_error_kind_has_a_name_and_a_retry_rule() {
    for (name, kind, retryable) in [
        ("rate_limited", ModelErrorKind::RateLimited, true),
        ("overloaded", ModelErrorKind::Overloaded, true),
        ("context_length", ModelErrorKind::ContextLength, false),
        ("content_filter", ModelErrorKind::ContentFilter, false),
        ("refusal", ModelErrorKind::Refusal, false),
        ("auth", ModelErrorKind::Auth, false),
        ("invalid", ModelErrorKind::Invalid, false),
        ("transport", ModelErrorKind::Transport, true),
    ] {
        let events = Scene::user("go").events(&one_step(json!({ "error": { "kind": name } })));
        let failure = Failure {
            kind,
            detail: "the script fails all attempts of this step; this is 1".into(),
            retry_after: None,
        };
        assert_eq!(events, [Err(failure)]);
        assert_eq!(
            ModelError::new(kind, "").is_retryable(),
            retryable,
            "{name}"
        );
    }
}

#[test]
fn the_first_attempts_fail_and_the_next_succeeds() {
    let step = json!({ "text": "ok", "error": { "kind": "overloaded", "attempts": 2 } });
    let overloaded = Err(ModelErrorKind::Overloaded);
    assert_eq!(
        attempts(step, 4),
        [
            overloaded.clone(),
            overloaded,
            Ok("ok".into()),
            Ok("ok".into())
        ]
    );
}

#[test]
fn an_error_with_zero_attempts_never_fails() {
    let step = json!({ "text": "ok", "error": { "kind": "overloaded", "attempts": 0 } });
    assert_eq!(attempts(step, 1), [Ok("ok".into())]);
}

#[test]
fn a_failure_names_its_attempt_and_the_retry_delay() {
    let step = json!({
        "error": { "kind": "rate_limited", "attempts": 2, "retry_after_ms": 10 },
    });
    let failure = Failure {
        kind: ModelErrorKind::RateLimited,
        detail: "the script fails the first 2 attempts of this step; this is 2".into(),
        retry_after: Some(Duration::from_millis(10)),
    };
    let scene = Scene::user("go").attempt(2);
    assert_eq!(scene.try_reply(&one_step(step)), Err(failure));
}

#[test]
fn a_failure_affects_only_its_own_step() {
    let model = model(json!({ "default": [
        { "text": "one" },
        { "text": "two", "error": { "kind": "transport", "attempts": 1 } },
    ] }));
    let mut scene = Scene::user("go");
    scene.step(&model, []);
    assert_eq!(
        scene.try_reply(&model).unwrap_err().kind,
        ModelErrorKind::Transport
    );
    assert_eq!(scene.attempt(2).text(&model), "two");
}

#[test]
fn a_failing_reply_stops_after_the_given_number_of_characters() {
    let thinking = |text: &str| ModelEvent::Thinking(text.to_owned());
    let text = |text: &str| ModelEvent::Text(text.to_owned());
    let end = || ModelEvent::ThinkingEnd {
        signature: None,
        redacted: None,
        provider_metadata: None,
    };
    let said = |after_chars: usize| {
        said_before(json!({
            "thinking": "öööö",
            "text": "abcdefgh",
            "tool_calls": [ { "name": "t" } ],
            "chunk_chars": 3,
            "error": { "kind": "transport", "after_chars": after_chars },
        }))
    };
    assert_eq!(said(0), []);
    assert_eq!(said(2), [thinking("öö")]);
    assert_eq!(said(3), [thinking("ööö")]);
    assert_eq!(said(4), [thinking("ööö"), thinking("ö")]);
    assert_eq!(said(5), [thinking("ööö"), thinking("ö"), end(), text("a")]);
    let all = [
        thinking("ööö"),
        thinking("ö"),
        end(),
        text("abc"),
        text("def"),
        text("gh"),
    ];
    assert_eq!(said(12), all);
    assert_eq!(said(100), all, "a shorter reply stops before its calls");
}

#[test]
fn a_failing_step_without_text_stops_before_its_calls() {
    let step = json!({
        "tool_calls": [ { "name": "t" } ],
        "error": { "kind": "transport", "after_chars": 3 },
    });
    assert_eq!(said_before(step), []);
}
