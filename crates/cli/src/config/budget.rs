//! `[agents.NAME.budget]`: what the runs of an agent may use.

use std::time::Duration;

use helix_agents_core::budget::{Budget, Budgets};

use super::{ConfigError, Section};

/// Reads the budgets of an agent.
pub(super) fn read(agent: &Section<'_>) -> Result<Budgets, ConfigError> {
    let Some(section) = agent.section("budget")? else {
        return Ok(Budgets::new());
    };
    let budgets = Budgets::new()
        .run(limits(section.section("run")?)?)
        .session(limits(section.section("session")?)?)
        .tree(limits(section.section("tree")?)?);
    section.finish()?;
    Ok(budgets)
}

fn limits(section: Option<Section<'_>>) -> Result<Budget, ConfigError> {
    let Some(section) = section else {
        return Ok(Budget::new());
    };
    let mut budget = Budget::new();
    if let Some(limit) = section.count("steps", 1)? {
        budget = budget.steps(limit.value);
    }
    if let Some(limit) = section.count("tokens", 1)? {
        budget = budget.tokens(limit.value);
    }
    if let Some(limit) = section.count("micro_dollars", 1)? {
        budget = budget.micro_dollars(limit.value);
    }
    if let Some(limit) = section.count("tool_calls", 1)? {
        budget = budget.tool_calls(limit.value);
    }
    if let Some(limit) = section.count("wall_clock_ms", 1)? {
        budget = budget.wall_clock(Duration::from_millis(limit.value));
    }
    section.finish()?;
    Ok(budget)
}
