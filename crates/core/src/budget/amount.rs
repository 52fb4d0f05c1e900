//! An amount of each unit.

use serde::{Deserialize, Serialize};

use super::{Budget, BudgetUnit};

/// An amount of each unit, used or reserved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct BudgetAmount {
    /// The number of steps.
    #[serde(skip_serializing_if = "is_zero")]
    pub steps: u64,
    /// The number of tokens.
    #[serde(skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// The price, in millionths of a US dollar.
    #[serde(skip_serializing_if = "is_zero")]
    pub micro_dollars: u64,
    /// The number of tool calls.
    #[serde(skip_serializing_if = "is_zero")]
    pub tool_calls: u64,
    /// The time, in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub wall_clock_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl BudgetAmount {
    /// Returns the amount of a unit.
    #[must_use]
    pub fn get(&self, unit: BudgetUnit) -> u64 {
        match unit {
            BudgetUnit::Steps => self.steps,
            BudgetUnit::Tokens => self.tokens,
            BudgetUnit::MicroDollars => self.micro_dollars,
            BudgetUnit::ToolCalls => self.tool_calls,
            BudgetUnit::WallClockMs => self.wall_clock_ms,
        }
    }

    fn slot(&mut self, unit: BudgetUnit) -> &mut u64 {
        match unit {
            BudgetUnit::Steps => &mut self.steps,
            BudgetUnit::Tokens => &mut self.tokens,
            BudgetUnit::MicroDollars => &mut self.micro_dollars,
            BudgetUnit::ToolCalls => &mut self.tool_calls,
            BudgetUnit::WallClockMs => &mut self.wall_clock_ms,
        }
    }

    /// Whether there is nothing of any unit.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the units that a budget limits. Others are not counted.
    pub(super) fn add_limited(&mut self, other: &Self, budget: Budget) {
        for (unit, _) in budget.limits() {
            let slot = self.slot(unit);
            *slot = slot.saturating_add(other.get(unit));
        }
    }

    /// Returns the part of the units that a budget limits.
    pub(super) fn of_limited(&self, budget: Budget) -> Self {
        let mut part = Self::default();
        part.add_limited(self, budget);
        part
    }
}
