//! Scenarios about replies of the model.

use serde_json::{Value, json};

use super::{agent, built, call, calls, note, noted, with_output};
use crate::crash::Scenario;

/// One reply without calls.
#[must_use]
pub fn plain_text() -> Scenario {
    Scenario::new("plain text", |_| {
        built(agent(&json!([{ "text": "Hello, how are you today?" }])))
    })
    .says("Hi")
}

/// A reply that comes slowly, so that it is streamed in several writes.
#[must_use]
pub fn a_slow_reply() -> Scenario {
    Scenario::new("a slow reply", |world| {
        built(
            agent(&json!([
                { "text": "One moment.", "delay_ms": 10, "tool_calls": [call("c1", "note")] },
                { "text": "It takes its time to say this.", "delay_ms": 10 },
            ]))
            .tools(note(world, "note")),
        )
    })
    .says("Hi")
}

/// A reply with the output of the agent.
#[must_use]
pub fn structured_output() -> Scenario {
    Scenario::new("structured output", |world| {
        built(
            with_output(agent(&json!([
                calls(&[("c1", "note")]),
                { "finish": { "summary": "all noted" } },
            ])))
            .tools(note(world, "note")),
        )
    })
    .says("Go")
}

/// A text instead of an output, then an invalid output, then a valid one.
#[must_use]
pub fn forced_completion() -> Scenario {
    Scenario::new("forced completion", |_| {
        built(with_output(agent(&json!([
            { "text": "I think it is fine." },
            { "finish": { "sum": 1 } },
            { "finish": { "summary": "fine" } },
        ]))))
    })
    .says("Go")
}

/// An output together with other calls, which are not executed.
#[must_use]
pub fn finish_beside_other_calls() -> Scenario {
    Scenario::new("`__finish__` beside other calls", |world| {
        built(
            with_output(agent(&json!([{
                "tool_calls": [
                    call("c1", "note"),
                    { "id": "c2", "name": "__finish__", "arguments": { "summary": "done" } },
                    call("c3", "note"),
                ],
            }])))
            .tools(note(world, "note")),
        )
    })
    .says("Go")
    .leaves(noted(&[], Value::Null))
}

/// A model that is overloaded twice, once after a part of its reply.
#[must_use]
pub fn a_model_that_fails_first() -> Scenario {
    Scenario::new("a model that fails first", |_| {
        built(agent(&json!([{
            "text": "At last, here I am.",
            "chunk_chars": 4,
            "delay_ms": 10,
            "error": { "kind": "overloaded", "attempts": 2, "after_chars": 12 },
        }])))
    })
    .says("Hi")
}

/// Several turns in one session, with call ids that the model repeats.
#[must_use]
pub fn several_turns() -> Scenario {
    Scenario::new("several turns", |world| {
        built(
            agent(&json!([calls(&[("c1", "note"), ("c1", "note")]), { "text": "Turn {{turn}}." }]))
                .tools(note(world, "note")),
        )
    })
    .says("One")
    .says("Two")
    .says("Three")
    .leaves(noted(&["c1", "c1", "c1", "c1", "c1", "c1"], "note"))
}
