//! The options that raise the budgets of a session.

use std::time::Duration;

use clap::Args;
use helix_agents_core::budget::{Budget, BudgetScope, Budgets};

/// Limits for a session that is resumed.
#[derive(Debug, Clone, Args)]
pub(crate) struct BudgetArgs {
    /// Raise the limit of steps
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    budget_steps: Option<u64>,
    /// Raise the limit of tokens
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    budget_tokens: Option<u64>,
    /// Raise the limit of micro-dollars
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    budget_micro_dollars: Option<u64>,
    /// Raise the limit of tool calls
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    budget_tool_calls: Option<u64>,
    /// Raise the limit of time, in milliseconds
    #[arg(long, value_name = "MS", value_parser = at_least_one())]
    budget_wall_clock_ms: Option<u64>,
    /// Which limits are raised: those of the run, the session or the tree
    #[arg(long, value_name = "SCOPE", value_enum, default_value = "run")]
    budget_scope: Scope,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Scope {
    Run,
    Session,
    Tree,
}

fn at_least_one() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..)
}

impl BudgetArgs {
    /// The limits that the options set.
    pub(crate) fn budgets(&self) -> Budgets {
        let mut budget = Budget::new();
        if let Some(limit) = self.budget_steps {
            budget = budget.steps(limit);
        }
        if let Some(limit) = self.budget_tokens {
            budget = budget.tokens(limit);
        }
        if let Some(limit) = self.budget_micro_dollars {
            budget = budget.micro_dollars(limit);
        }
        if let Some(limit) = self.budget_tool_calls {
            budget = budget.tool_calls(limit);
        }
        if let Some(limit) = self.budget_wall_clock_ms {
            budget = budget.wall_clock(Duration::from_millis(limit));
        }
        let scope = match self.budget_scope {
            Scope::Run => BudgetScope::Run,
            Scope::Session => BudgetScope::Session,
            Scope::Tree => BudgetScope::Tree,
        };
        Budgets::new().set(scope, budget)
    }
}
