//! The limits of a run, a session and a tree.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A quantity that a budget limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BudgetUnit {
    /// Model calls that gave a reply.
    Steps,
    /// Input and output tokens of model calls.
    Tokens,
    /// The price of model calls, in millionths of a US dollar.
    MicroDollars,
    /// Tool calls.
    ToolCalls,
    /// The time during which runs were performed, in milliseconds. Pauses do not count.
    WallClockMs,
}

impl BudgetUnit {
    /// Every unit.
    pub const ALL: [Self; 5] = [
        Self::Steps,
        Self::Tokens,
        Self::MicroDollars,
        Self::ToolCalls,
        Self::WallClockMs,
    ];

    /// Returns the unit as it is written in configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Tokens => "tokens",
            Self::MicroDollars => "micro_dollars",
            Self::ToolCalls => "tool_calls",
            Self::WallClockMs => "wall_clock_ms",
        }
    }
}

impl fmt::Display for BudgetUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The work that a limit covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BudgetScope {
    /// A run, and the runs that continue or retry its turn.
    Run,
    /// All runs of a session.
    Session,
    /// All runs of a root session and of the sessions under it.
    Tree,
}

impl BudgetScope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Run, Self::Session, Self::Tree];

    /// Returns the scope as it is written in configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Session => "session",
            Self::Tree => "tree",
        }
    }
}

impl fmt::Display for BudgetScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Limits of what some work may use. A unit without a limit is neither limited nor counted. Where
/// [`Budgets`] are asked for, it limits the run.
///
/// ```
/// use std::time::Duration;
/// use helix_agents::Budget;
///
/// let budget = Budget::new().steps(20).tokens(100_000).wall_clock(Duration::from_secs(600));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[must_use]
pub struct Budget {
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    micro_dollars: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_clock_ms: Option<u64>,
}

impl Budget {
    /// Creates a budget without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the number of steps: model calls that give a reply. A call that is retried is one step.
    pub fn steps(self, limit: u64) -> Self {
        self.limit(BudgetUnit::Steps, limit)
    }

    /// Limits the input and output tokens of model calls.
    pub fn tokens(self, limit: u64) -> Self {
        self.limit(BudgetUnit::Tokens, limit)
    }

    /// Limits the price of model calls, in millionths of a US dollar. The model has to know its prices.
    pub fn micro_dollars(self, limit: u64) -> Self {
        self.limit(BudgetUnit::MicroDollars, limit)
    }

    /// Limits the number of tool calls. Calls of one reply that do not fit are not executed.
    pub fn tool_calls(self, limit: u64) -> Self {
        self.limit(BudgetUnit::ToolCalls, limit)
    }

    /// Limits the time during which runs are performed. Pauses do not count. A model call is ended when
    /// the time is over; a tool that has begun is not.
    pub fn wall_clock(self, limit: Duration) -> Self {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.limit(BudgetUnit::WallClockMs, millis)
    }

    /// Sets one limit.
    pub fn limit(mut self, unit: BudgetUnit, limit: u64) -> Self {
        *self.slot(unit) = Some(limit);
        self
    }

    /// Returns the limit of a unit.
    #[must_use]
    pub fn get(&self, unit: BudgetUnit) -> Option<u64> {
        match unit {
            BudgetUnit::Steps => self.steps,
            BudgetUnit::Tokens => self.tokens,
            BudgetUnit::MicroDollars => self.micro_dollars,
            BudgetUnit::ToolCalls => self.tool_calls,
            BudgetUnit::WallClockMs => self.wall_clock_ms,
        }
    }

    fn slot(&mut self, unit: BudgetUnit) -> &mut Option<u64> {
        match unit {
            BudgetUnit::Steps => &mut self.steps,
            BudgetUnit::Tokens => &mut self.tokens,
            BudgetUnit::MicroDollars => &mut self.micro_dollars,
            BudgetUnit::ToolCalls => &mut self.tool_calls,
            BudgetUnit::WallClockMs => &mut self.wall_clock_ms,
        }
    }

    /// Whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Iterates over the limits that are set.
    pub fn limits(self) -> impl Iterator<Item = (BudgetUnit, u64)> {
        let units = BudgetUnit::ALL.into_iter();
        units.filter_map(move |unit| Some((unit, self.get(unit)?)))
    }

    /// Returns these limits with those of another budget in their place, where it has any.
    pub fn overlaid(self, other: &Self) -> Self {
        other
            .limits()
            .fold(self, |all, (unit, limit)| all.limit(unit, limit))
    }
}

/// The budgets of a run, of its session, and of the tree of sessions under its root.
///
/// ```
/// use helix_agents::{Budget, Budgets};
/// use helix_agents::prelude::*;
///
/// let agent = Agent::builder("assistant")
///     .model("anthropic/claude-sonnet-4-5")
///     .budget(Budgets::new().run(Budget::new().steps(8)).session(Budget::new().tokens(200_000)))
///     .build()?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[must_use]
pub struct Budgets {
    #[serde(skip_serializing_if = "Budget::is_empty")]
    run: Budget,
    #[serde(skip_serializing_if = "Budget::is_empty")]
    session: Budget,
    #[serde(skip_serializing_if = "Budget::is_empty")]
    tree: Budget,
}

impl Budgets {
    /// Creates budgets without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits each run, together with the runs that continue or retry its turn.
    pub fn run(self, budget: Budget) -> Self {
        self.set(BudgetScope::Run, budget)
    }

    /// Limits all runs of a session together.
    pub fn session(self, budget: Budget) -> Self {
        self.set(BudgetScope::Session, budget)
    }

    /// Limits all runs of a root session and of the sessions under it together. Only the agent of the
    /// root, and requests to the root, set it.
    pub fn tree(self, budget: Budget) -> Self {
        self.set(BudgetScope::Tree, budget)
    }

    /// Sets the budget of a scope.
    pub fn set(mut self, scope: BudgetScope, budget: Budget) -> Self {
        match scope {
            BudgetScope::Run => self.run = budget,
            BudgetScope::Session => self.session = budget,
            BudgetScope::Tree => self.tree = budget,
        }
        self
    }

    /// Returns the budget of a scope.
    pub fn get(&self, scope: BudgetScope) -> Budget {
        match scope {
            BudgetScope::Run => self.run,
            BudgetScope::Session => self.session,
            BudgetScope::Tree => self.tree,
        }
    }

    /// Whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these limits with those of others in their place, where they have any.
    pub fn overlaid(self, other: &Self) -> Self {
        BudgetScope::ALL.into_iter().fold(self, |all, scope| {
            all.set(scope, all.get(scope).overlaid(&other.get(scope)))
        })
    }

    /// Whether any scope limits this unit.
    #[must_use]
    pub fn limits_unit(&self, unit: BudgetUnit) -> bool {
        let mut scopes = BudgetScope::ALL.into_iter();
        scopes.any(|scope| self.get(scope).get(unit).is_some())
    }

    /// Returns the first limit that is zero, which nothing fits into.
    #[must_use]
    pub fn zero_limit(&self) -> Option<(BudgetScope, BudgetUnit)> {
        let mut scopes = BudgetScope::ALL.into_iter();
        scopes.find_map(|scope| {
            let mut limits = self.get(scope).limits();
            let (unit, _) = limits.find(|(_, limit)| *limit == 0)?;
            Some((scope, unit))
        })
    }
}

impl From<Budget> for Budgets {
    fn from(run: Budget) -> Self {
        Self::new().run(run)
    }
}
