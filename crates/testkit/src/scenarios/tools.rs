//! Scenarios about tool calls: parallel, failing, not idempotent, finishing the turn, ending the run.

use helix_agents_core::ToolResult;
use helix_agents_core::tool::{Tool, ToolCx, ToolError};
use serde_json::{Value, json};

use super::{agent, built, call, calls, client, note, noted};
use crate::crash::Scenario;

/// Three calls in one reply, which write to the same keys of the state.
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

/// A call whose tool fails, one that panics, one with wrong arguments, and one of an unknown tool.
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

/// A tool that ends the run while other calls wait.
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
