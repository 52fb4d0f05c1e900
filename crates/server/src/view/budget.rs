//! The budgets of a session as JSON.

use helix_agents_core::budget::{Budget, BudgetAmount, BudgetReport, BudgetUnit, BudgetUse};
use serde::Serialize;
use utoipa::ToSchema;

/// The budgets of a session, its latest run and its tree; a scope without limits is left out.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BudgetsView {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    run: Option<BudgetUseView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    session: Option<BudgetUseView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tree: Option<BudgetUseView>,
}

/// The limits of one scope, and what is used and reserved of them.
#[derive(Debug, Serialize, ToSchema)]
struct BudgetUseView {
    limit: AmountsView,
    used: AmountsView,
    reserved: AmountsView,
}

/// Amounts of the units that are limited.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AmountsView {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    steps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    micro_dollars: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tool_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    wall_clock_ms: Option<u64>,
}

impl AmountsView {
    fn of(amount: impl Fn(BudgetUnit) -> Option<u64>) -> Self {
        Self {
            steps: amount(BudgetUnit::Steps),
            tokens: amount(BudgetUnit::Tokens),
            micro_dollars: amount(BudgetUnit::MicroDollars),
            tool_calls: amount(BudgetUnit::ToolCalls),
            wall_clock_ms: amount(BudgetUnit::WallClockMs),
        }
    }

    /// The amounts of the units that a budget limits, also those that are 0.
    fn limited(amount: BudgetAmount, limit: Budget) -> Self {
        Self::of(|unit| limit.get(unit).map(|_| amount.get(unit)))
    }
}

impl From<BudgetUse> for BudgetUseView {
    fn from(found: BudgetUse) -> Self {
        let BudgetUse {
            limit,
            used,
            reserved,
            ..
        } = found;
        Self {
            limit: AmountsView::of(|unit| limit.get(unit)),
            used: AmountsView::limited(used, limit),
            reserved: AmountsView::limited(reserved, limit),
        }
    }
}

impl From<BudgetReport> for BudgetsView {
    fn from(report: BudgetReport) -> Self {
        Self {
            run: report.run.map(Into::into),
            session: report.session.map(Into::into),
            tree: report.tree.map(Into::into),
        }
    }
}
