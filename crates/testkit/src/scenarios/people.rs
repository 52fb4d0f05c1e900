//! Scenarios about calls that wait for a client or a person.

use helix_agents_core::ToolResult;
use helix_agents_core::store::{Page, PendingQuery};
use helix_agents_core::tool::{Tool, ToolCx, ToolError};
use serde_json::{Value, json};

use super::{agent, built, calls, client, gated, note, noted};
use crate::crash::Scenario;

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

/// A call that a person approves.
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

/// A call that a person denies.
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

/// An answer that arrives while another call of the step still runs: the same run uses it.
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
