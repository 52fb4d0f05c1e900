//! The scenarios that every host and every store has to get through, at every point of death.

use std::sync::Arc;

use helix_agents_core::agent::AgentBuilder;
use helix_agents_core::model::Model;
use helix_agents_core::store::{Page, PendingQuery};
use helix_agents_core::tool::{Tool, ToolBuilder, ToolCx, ToolError};
use helix_agents_core::usage::CustomUsage;
use helix_agents_core::{Agent, ToolResult};
use helix_agents_models::{Script, ScriptedModel};
use serde_json::{Value, json};

use crate::crash::{Scenario, World};

/// Makes one test per scenario: `$store` gives a new, empty backend, `$host` is the host.
#[macro_export]
macro_rules! crash_tests {
    ($host:expr, $store:expr) => {
        $crate::crash_tests!(@ $host, $store,
            plain_text three_tools_in_parallel a_tool_that_fails structured_output
            forced_completion finish_beside_other_calls a_client_tool an_approval_that_is_given
            an_approval_that_is_denied a_mixed_batch two_pauses_in_one_turn
            an_answer_while_siblings_run a_call_that_is_not_idempotent a_finishing_tool
            a_model_that_fails_first a_tool_that_ends_the_run several_turns a_slow_reply
        );
    };
    (@ $host:expr, $store:expr, $($name:ident)*) => {$(
        #[test]
        fn $name() {
            let scenario = $crate::scenarios::$name();
            let test = $crate::crash::CrashTest::new(scenario).on($host);
            let report = $crate::block_on(test.every_point($store));
            assert!(report.points >= 6, "{report:?}");
            report.check();
        }
    )*};
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Scenario> {
    vec![
        plain_text(),
        three_tools_in_parallel(),
        a_tool_that_fails(),
        structured_output(),
        forced_completion(),
        finish_beside_other_calls(),
        a_client_tool(),
        an_approval_that_is_given(),
        an_approval_that_is_denied(),
        a_mixed_batch(),
        two_pauses_in_one_turn(),
        an_answer_while_siblings_run(),
        a_call_that_is_not_idempotent(),
        a_finishing_tool(),
        a_model_that_fails_first(),
        a_tool_that_ends_the_run(),
        several_turns(),
        a_slow_reply(),
    ]
}

/// A model that says this, step by step, whatever it is told.
fn model(steps: &Value) -> Arc<dyn Model> {
    let script = json!({ "default": steps }).to_string();
    match Script::parse(&script) {
        Ok(script) => Arc::new(ScriptedModel::new(script)),
        Err(error) => unreachable!("a scenario's script is wrong: {error}"),
    }
}

/// An agent that begins with a few things in its state.
fn agent(steps: &Value) -> AgentBuilder {
    Agent::builder("worker")
        .model(model(steps))
        .system_prompt("You work.")
        .initial_state(json!({ "notes": [], "count": 0, "last": null }))
}

fn built(agent: AgentBuilder) -> Agent {
    match agent.build() {
        Ok(agent) => agent,
        Err(error) => unreachable!("a scenario's agent is wrong: {error}"),
    }
}

fn with_output(agent: AgentBuilder) -> AgentBuilder {
    agent.output_schema(json!({
        "type": "object",
        "required": ["summary"],
        "properties": { "summary": { "type": "string" } },
    }))
}

/// A tool that notes what it is told, in the state and in the stream, and dies where it is told to.
fn note(world: &World, name: &str) -> ToolBuilder {
    let switch = world.switch.clone();
    let name = name.to_owned();
    let inside = name.clone();
    Tool::raw(
        name,
        "Notes something.",
        json!({ "type": "object", "properties": { "text": { "type": "string" } } }),
        move |arguments: Value, cx: ToolCx| {
            let switch = switch.clone();
            let name = inside.clone();
            async move {
                let text = arguments.get("text").cloned().unwrap_or_default();
                cx.edit_state(|draft| {
                    draft.push("/notes", text.clone())?;
                    draft.increment("/count", 1)?;
                    draft.set("/last", name.as_str())
                })?;
                switch.pass(&format!("inside of {name}")).await;
                cx.emit("noted", &text)?;
                cx.record_usage(CustomUsage::new("ink", 1.0));
                let result: ToolResult<Value> = Ok(json!({ "noted": text }));
                result
            }
        },
    )
    .idempotent()
}

/// A call of a tool, for a script.
fn call(id: &str, name: &str) -> Value {
    json!({ "id": id, "name": name, "arguments": { "text": id } })
}

fn calls(calls: &[(&str, &str)]) -> Value {
    let calls: Vec<_> = calls.iter().map(|(id, name)| call(id, name)).collect();
    json!({ "text": "Let me see.", "tool_calls": calls })
}

/// The state after these notes, the last of them by this tool.
fn noted(notes: &[&str], last: impl Into<Value>) -> Value {
    json!({ "notes": notes, "count": notes.len(), "last": last.into() })
}

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

/// Three calls in one reply, which write to the same places.
#[must_use]
pub fn three_tools_in_parallel() -> Scenario {
    Scenario::new("three tools in parallel", |world| {
        built(
            agent(&json!([
                calls(&[("c1", "one"), ("c2", "two"), ("c3", "three")]),
                { "text": "Done." },
            ]))
            .tools([note(world, "one"), note(world, "two"), note(world, "three")]),
        )
    })
    .says("Go")
    .leaves(noted(&["c1", "c2", "c3"], "three"))
}

/// A call whose tool fails, one that panics, one with wrong arguments, and one of no tool at all.
#[must_use]
pub fn a_tool_that_fails() -> Scenario {
    Scenario::new("a tool that fails", |world| {
        let broken = Tool::raw(
            "broken",
            "Fails.",
            json!({ "type": "object" }),
            |_: Value, _: ToolCx| async move {
                Err::<Value, _>(ToolError::tell_model("out of paper"))
            },
        );
        let wrong = json!({ "id": "c3", "name": "note", "arguments": { "text": 7 } });
        built(
            agent(&json!([
                { "tool_calls": [call("c1", "broken"), call("c2", "note"), wrong, call("c4", "nobody")] },
                { "text": "So be it." },
            ]))
            .tools([broken.idempotent(), note(world, "note")]),
        )
    })
    .says("Go")
}

/// A reply that is the output.
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

/// Text instead of an output, then one that does not fit, then one that does.
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

/// The output beside calls, which are not executed.
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

fn client(name: &str) -> ToolBuilder {
    Tool::client_raw(name, "Asks the browser.", json!({ "type": "object" }))
}

/// A call that the client runs.
#[must_use]
pub fn a_client_tool() -> Scenario {
    Scenario::new("a client tool", |_| {
        built(
            agent(&json!([calls(&[("c1", "color")]), { "text": "Nice color." }]))
                .tools(client("color")),
        )
    })
    .says("Pick one")
    .answers("color", |call| call.result("teal"))
}

fn gated(world: &World) -> ToolBuilder {
    note(world, "refund").approval()
}

/// A call that a person agrees to.
#[must_use]
pub fn an_approval_that_is_given() -> Scenario {
    Scenario::new("an approval that is given", |world| {
        built(
            agent(&json!([calls(&[("c1", "refund")]), { "text": "Refunded." }]))
                .tools(gated(world)),
        )
    })
    .says("Refund it")
    .answers("refund", |call| call.approve())
    .leaves(noted(&["c1"], "refund"))
}

/// A call that a person refuses.
#[must_use]
pub fn an_approval_that_is_denied() -> Scenario {
    Scenario::new("an approval that is denied", |world| {
        built(
            agent(&json!([calls(&[("c1", "refund")]), { "text": "Then not." }]))
                .tools(gated(world)),
        )
    })
    .says("Refund it")
    .answers("refund", |call| call.deny("not today"))
    .leaves(noted(&[], Value::Null))
}

/// Server, client and gated calls in one reply, and one that may end the turn but fails.
#[must_use]
pub fn a_mixed_batch() -> Scenario {
    Scenario::new("a mixed batch", |world| {
        let close = Tool::raw(
            "close",
            "Ends the turn.",
            json!({ "type": "object" }),
            |_: Value, _: ToolCx| async move { Err::<Value, _>(ToolError::tell_model("not yet")) },
        );
        built(
            agent(&json!([
                calls(&[
                    ("c1", "note"), ("c2", "color"), ("c3", "close"), ("c4", "refund"),
                    ("c5", "note"), ("c6", "color"),
                ]),
                { "text": "All of it." },
            ]))
            .tools([
                note(world, "note"),
                client("color"),
                close.finish_with().idempotent(),
                gated(world),
            ]),
        )
    })
    .says("Everything")
    .answers("color", |call| {
        if call.tool_call_id.as_str() == "c6" {
            call.error("the browser was closed")
        } else {
            call.result(json!({ "color": "teal" }))
        }
    })
    .answers("refund", |call| call.approve())
    .leaves(noted(&["c1", "c5", "c4"], "refund"))
}

/// A pause, an answer, another pause, another answer.
#[must_use]
pub fn two_pauses_in_one_turn() -> Scenario {
    Scenario::new("two pauses in one turn", |world| {
        built(
            agent(&json!([
                calls(&[("c1", "color"), ("c2", "note")]),
                calls(&[("c3", "refund")]),
                { "text": "Both done." },
            ]))
            .tools([client("color"), gated(world), note(world, "note")]),
        )
    })
    .says("Go")
    .answers("color", |call| call.result("red"))
    .answers("refund", |call| call.approve())
    .leaves(noted(&["c2", "c3"], "refund"))
}

/// An answer that arrives while a sibling of its call still runs: the same run goes on with it.
#[must_use]
pub fn an_answer_while_siblings_run() -> Scenario {
    Scenario::new("an answer while siblings run", |world| {
        let (entries, backend) = (world.entries(), world.backend.clone());
        let session = world.session.clone();
        let impatient = Tool::raw(
            "impatient",
            "Answers the other questions of its step.",
            json!({ "type": "object" }),
            move |_: Value, _: ToolCx| {
                let (entries, backend) = (entries.clone(), backend.clone());
                let session = session.clone();
                async move {
                    let query = PendingQuery {
                        root: Some(session),
                        page: Page::ALL,
                        ..PendingQuery::default()
                    };
                    for call in backend.store.pending(&query).await?.items {
                        let answer = match call.approval_id {
                            Some(_) => call.approve(),
                            None => call.result("blue"),
                        };
                        entries.submit(&answer).await?;
                    }
                    let result: ToolResult<Value> = Ok(json!("answered"));
                    result
                }
            },
        );
        built(
            agent(&json!([
                calls(&[("c1", "color"), ("c2", "impatient"), ("c3", "refund")]),
                { "text": "Quick." },
            ]))
            .tools([client("color"), impatient.idempotent(), gated(world)]),
        )
    })
    .says("Go")
    .answers("color", |call| call.result("blue"))
    .answers("refund", |call| call.approve())
}

/// A call that must not be run twice, and may be killed inside of its execution.
#[must_use]
pub fn a_call_that_is_not_idempotent() -> Scenario {
    Scenario::new("a call that is not idempotent", |world| {
        let switch = world.switch.clone();
        let charge = Tool::raw(
            "charge",
            "Charges a card.",
            json!({ "type": "object" }),
            move |_: Value, _: ToolCx| {
                let switch = switch.clone();
                async move {
                    switch.pass("inside of charge, before the card").await;
                    switch.pass("inside of charge, after the card").await;
                    let result: ToolResult<Value> = Ok(json!({ "charged": true }));
                    result
                }
            },
        );
        built(
            agent(&json!([
                calls(&[("c1", "charge"), ("c2", "note")]),
                calls(&[("c3", "charge")]),
                { "text": "Charged." },
            ]))
            .tools(vec![charge, note(world, "note")]),
        )
    })
    .says("Charge it")
}

/// Calls that may end the turn: the first fails, the second ends it, the third is not executed.
#[must_use]
pub fn a_finishing_tool() -> Scenario {
    Scenario::new("a finishing tool", |world| {
        let close = Tool::raw(
            "close",
            "Ends the turn.",
            json!({ "type": "object", "properties": { "text": { "type": "string" } } }),
            |arguments: Value, cx: ToolCx| async move {
                if arguments.get("text") == Some(&json!("c2")) {
                    return Err(ToolError::tell_model("not this one"));
                }
                let state: Value = cx.get_state()?;
                let count = state.get("count").cloned();
                cx.edit_state(|draft| draft.set("/closed", true))?;
                Ok(json!({ "counted": count }))
            },
        );
        built(
            agent(&json!([calls(&[
                ("c1", "close"),
                ("c2", "close"),
                ("c3", "note"),
                ("c4", "close")
            ]),]))
            .tools([close.finish_with().idempotent(), note(world, "note")]),
        )
    })
    .says("Close it")
}

/// A model that is overloaded twice, once after it had begun to speak.
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

/// A tool that ends the run while others wait.
#[must_use]
pub fn a_tool_that_ends_the_run() -> Scenario {
    Scenario::new("a tool that ends the run", |world| {
        let fatal = Tool::raw(
            "fatal",
            "Ends the run.",
            json!({ "type": "object" }),
            |_: Value, _: ToolCx| async move { Err::<Value, _>(ToolError::fatal("no more paper")) },
        );
        built(
            agent(&json!([calls(&[
                ("c1", "note"),
                ("c2", "fatal"),
                ("c3", "color")
            ])]))
            .tools([note(world, "note"), fatal.idempotent(), client("color")]),
        )
    })
    .says("Go")
    .leaves(noted(&["c1"], "note"))
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
