//! Scenarios about budgets.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use helix_agents_core::Agent;
use helix_agents_core::agent::AgentBuilder;
use helix_agents_core::budget::{Budget, Budgets};
use helix_agents_core::model::{
    EventStream, Model, ModelError, ModelErrorKind, ModelEvent, ModelLimits, ModelRequest,
    TokenUsage,
};
use serde_json::{Value, json};

use super::{built, call, model, note, noted};
use crate::crash::Scenario;

/// A model with prices that fails in its first attempts, and says what those have used.
#[derive(Debug)]
struct Priced {
    model: Arc<dyn Model>,
    failures: u32,
}

impl Model for Priced {
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        if request.attempt > self.failures {
            return self.model.stream(request);
        }
        let used = Ok(ModelEvent::Usage(TokenUsage::new(30, 4)));
        let error = ModelError::new(ModelErrorKind::Overloaded, "it is overloaded");
        stream::iter([used, Err(error)]).boxed()
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::new(100_000, 1_000)
    }

    fn cost(&self, tokens: &TokenUsage) -> Option<u64> {
        Some(3 * tokens.input + 15 * tokens.output)
    }
}

/// A model that has prices and gives these replies.
pub(super) fn priced_model(steps: &Value, failures: u32) -> Arc<dyn Model> {
    Arc::new(Priced {
        model: model(steps),
        failures,
    })
}

/// An agent whose model has prices and gives these replies.
pub(super) fn priced(steps: &Value, failures: u32) -> AgentBuilder {
    Agent::builder("worker")
        .model(priced_model(steps, failures))
        .system_prompt("You work.")
        .initial_state(json!({ "notes": [], "count": 0, "last": null }))
}

/// A reply with these calls, and what it used.
pub(super) fn calls(ids: &[&str], input: u64) -> Value {
    let calls: Vec<_> = ids.iter().map(|id| call(id, "note")).collect();
    json!({ "text": "Let me see.", "tool_calls": calls, "usage": { "input": input, "output": 7 } })
}

pub(super) fn text(text: &str, input: u64) -> Value {
    json!({ "text": text, "usage": { "input": input, "output": 5 } })
}

/// Limits that count everything that does not depend on the time, and stop nothing.
pub(super) fn wide() -> Budget {
    Budget::new()
        .steps(1_000)
        .tokens(1_000_000)
        .micro_dollars(100_000_000)
        .tool_calls(1_000)
}

/// A turn with more steps than its budget, which is raised.
#[must_use]
pub fn a_budget_of_steps_that_is_raised() -> Scenario {
    Scenario::new("a budget of steps that is raised", |world| {
        let replies = json!([
            calls(&["c1"], 100),
            calls(&["c2", "c3"], 140),
            calls(&["c4"], 190),
            text("Done.", 230),
        ]);
        let budgets = Budgets::new()
            .run(wide().steps(2))
            .session(wide())
            .tree(wide());
        built(
            priced(&replies, 0)
                .tools(note(world, "note"))
                .budget(budgets),
        )
    })
    .says("Go")
    .raises(Budget::new().steps(5))
    .leaves(noted(&["c1", "c2", "c3", "c4"], "note"))
}

/// A budget of tokens that the second turn uses up, and that is raised for the session.
#[must_use]
pub fn a_budget_of_tokens_that_is_raised() -> Scenario {
    Scenario::new("a budget of tokens that is raised", |world| {
        let replies = json!([calls(&["c1"], 400), text("Turn {{turn}}.", 450)]);
        let budgets = Budgets::new().session(wide().tokens(2_500)).tree(wide());
        built(
            priced(&replies, 0)
                .tools(note(world, "note"))
                .budget(budgets),
        )
    })
    .says("One")
    .says("Two")
    .raises(Budgets::new().session(Budget::new().tokens(50_000)))
    .leaves(noted(&["c1", "c1"], "note"))
}

/// A reply with more calls than the budget allows.
#[must_use]
pub fn tool_calls_beyond_a_budget() -> Scenario {
    Scenario::new("tool calls beyond a budget", |world| {
        let replies = json!([
            calls(&["c1", "c2", "c3"], 100),
            calls(&["c4"], 150),
            text("Done.", 200),
        ]);
        let budgets = Budgets::new().run(wide().tool_calls(2)).session(wide());
        built(
            priced(&replies, 0)
                .tools(note(world, "note"))
                .budget(budgets),
        )
    })
    .says("Go")
    .raises(Budget::new().tool_calls(10))
    .leaves(noted(&["c1", "c2", "c4"], "note"))
}

/// A model call that is paid for twice before it gives a reply.
#[must_use]
pub fn a_model_that_fails_under_a_budget() -> Scenario {
    Scenario::new("a model that fails under a budget", |world| {
        let replies = json!([calls(&["c1"], 100), text("Done.", 150)]);
        let budgets = Budgets::new().run(wide()).session(wide()).tree(wide());
        built(
            priced(&replies, 2)
                .tools(note(world, "note"))
                .budget(budgets),
        )
    })
    .says("Go")
    .leaves(noted(&["c1"], "note"))
}
