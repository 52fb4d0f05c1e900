//! Scenarios in which the deadline of a call passes.

use std::time::Duration;

use helix_agents_core::entries::ToolAnswer;
use helix_agents_core::session::Submission;
use helix_agents_core::tool::{Tool, ToolBuilder, ToolCx};
use helix_agents_core::{CallId, ToolResult};
use serde_json::{Value, json};

use super::{agent, built, calls, client, gated, note, noted};
use crate::crash::{LateAnswer, Scenario, World};

/// A call of a client that must be answered within ten minutes.
fn limited() -> ToolBuilder {
    client("color").deadline(Duration::from_secs(600))
}

/// An agent that asks for a color.
fn asking(name: &str) -> Scenario {
    Scenario::new(name, |world| {
        let steps = json!([calls(&[("c1", "color"), ("c2", "note")]), { "text": "Then without." }]);
        built(agent(&steps).tools([limited(), note(world, "note")]))
    })
    .answers("color", |call| call.result("teal"))
    .says("Pick one")
}

/// A deadline that passes beside an approval that is given, and a tool.
#[must_use]
pub fn a_deadline_that_passes() -> Scenario {
    Scenario::new("a deadline that passes", |world| {
        let first = calls(&[("c1", "color"), ("c2", "refund"), ("c3", "note")]);
        let steps = json!([first, { "text": "Then without." }]);
        let tools = [limited(), gated(world), note(world, "note")];
        built(agent(&steps).tools(tools))
    })
    .says("Pick one")
    .times_out(LateAnswer::Never)
    .approves()
    .leaves(noted(&["c3", "c2"], "refund"))
    .tells(0)
}

/// A late answer that comes before a run has taken the timeout.
#[must_use]
pub fn a_late_answer_before_the_timeout_is_taken() -> Scenario {
    asking("a late answer before the timeout is taken")
        .times_out(LateAnswer::BeforeItIsTaken)
        .tells(1)
}

/// A late answer that comes when the turn has ended; then another message.
#[must_use]
pub fn a_late_answer_after_the_turn() -> Scenario {
    asking("a late answer after the turn")
        .times_out(LateAnswer::AfterTheTurn)
        .says("Pick another")
        .leaves(noted(&["c2", "c2"], "note"))
        .tells(2)
}

/// A late answer that comes during the run that has taken the timeout.
#[must_use]
pub fn a_late_answer_to_a_run_in_progress() -> Scenario {
    Scenario::new("a late answer to a run in progress", |world| {
        let steps = json!([
            calls(&[("c1", "color")]),
            calls(&[("c2", "tardy"), ("c3", "note")]),
            { "text": "I see." },
        ]);
        let tools = [limited(), tardy(world), note(world, "note")];
        built(agent(&steps).tools(tools))
    })
    .says("Pick one")
    .times_out(LateAnswer::Never)
    .leaves(noted(&["c3"], "note"))
    .tells(1)
}

/// A tool that answers the first call.
fn tardy(world: &World) -> ToolBuilder {
    let (entries, session) = (world.entries(), world.session.clone());
    let tool = Tool::raw(
        "tardy",
        "Answers too late.",
        json!({ "type": "object" }),
        move |_: Value, _: ToolCx| {
            let (entries, session) = (entries.clone(), session.clone());
            async move {
                let submission = Submission::ClientToolResult {
                    tool_call_id: CallId::new("c1")?,
                    result: Some(json!("teal")),
                    error: None,
                    digest: None,
                    run_id: None,
                };
                let answer = ToolAnswer::new(session, submission);
                let outcome = entries.submit(&answer).await?.outcome;
                let result: ToolResult<Value> = Ok(json!(format!("{outcome:?}")));
                result
            }
        },
    );
    tool.idempotent()
}
