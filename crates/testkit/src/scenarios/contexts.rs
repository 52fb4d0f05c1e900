//! Scenarios about conversations near the context limit.

use std::sync::Arc;

use helix_agents_core::agent::AgentBuilder;
use helix_agents_core::budget::Budgets;
use helix_agents_core::context::ContextPolicy;
use serde_json::{Value, json};

use super::budgets::{calls, priced, priced_model, text, wide};
use super::{built, note, noted};
use crate::crash::{Scenario, World};

/// An agent whose every turn is too long for the next one, with a tool.
fn long_winded(world: &World, budgets: Budgets) -> AgentBuilder {
    let replies: Value = json!([calls(&["c1"], 100), text("Turn {{turn}}.", 250)]);
    priced(&replies, 0)
        .tools(note(world, "note"))
        .budget(budgets)
}

/// Three turns, of which the model reads the last only.
#[must_use]
pub fn turns_that_are_left_out() -> Scenario {
    Scenario::new("turns that are left out", |world| {
        let policy = ContextPolicy::keep_turns(1).at_tokens(240);
        built(long_winded(world, Budgets::new()).context(policy))
    })
    .says("One")
    .says("Two")
    .says("Three")
    .tells(2)
    .leaves(noted(&["c1", "c1", "c1"], "note"))
}

/// Three turns under a budget, of which a model summarizes the earlier ones.
#[must_use]
pub fn turns_that_are_summarized() -> Scenario {
    Scenario::new("turns that are summarized", |world| {
        let summary = json!([text("Summary at {{last_user}}", 40)]);
        let summary = priced_model(&summary, 0);
        let policy = ContextPolicy::keep_turns(1).at_tokens(240);
        let policy = policy.summarized_by(Arc::clone(&summary));
        let budgets = Budgets::new().session(wide()).tree(wide());
        built(long_winded(world, budgets).context(policy))
    })
    .says("One")
    .says("Two")
    .says("Three")
    .tells(2)
    .leaves(noted(&["c1", "c1", "c1"], "note"))
}
