//! The usage of a session as JSON.

use crate::view::BudgetsView;
use crate::view::schemas::UsageEntrySchema;
use helix_agents_core::budget::BudgetReport;
use helix_agents_core::store::Paged;
use helix_agents_core::usage::{UsageEntry, UsageRollup};
use serde::Serialize;
use utoipa::ToSchema;

/// The usage of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UsageView {
    tokens: TokensView,
    tools: ToolsView,
    /// The price of the tokens whose price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cost: Option<CostView>,
    /// The budgets of the session, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    budget: Option<BudgetsView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<UsageEntrySchema>)]
    entries: Option<Vec<UsageEntry>>,
    /// Whether more entries follow; present only with `entries`.
    #[serde(rename = "hasMore", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    has_more: Option<bool>,
}

#[derive(Debug, Serialize, ToSchema)]
struct TokensView {
    input: u64,
    output: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cached: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reasoning: Option<u64>,
    total: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct ToolsView {
    calls: u64,
    failures: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct CostView {
    /// In millionths of a US dollar.
    micro_dollars: u64,
}

impl UsageView {
    pub(crate) fn new(
        sum: &UsageRollup,
        budget: Option<BudgetReport>,
        entries: Option<Paged<UsageEntry>>,
    ) -> Self {
        let (tokens, tools) = (sum.tokens, sum.tools);
        Self {
            tokens: TokensView {
                input: tokens.input,
                output: tokens.output,
                cached: tokens.cached,
                reasoning: tokens.reasoning,
                total: tokens.total(),
            },
            tools: ToolsView {
                calls: tools.calls,
                failures: tools.failures,
            },
            cost: sum
                .micro_dollars
                .map(|micro_dollars| CostView { micro_dollars }),
            budget: budget.map(Into::into),
            has_more: entries.as_ref().map(|entries| entries.has_more),
            entries: entries.map(|entries| entries.items),
        }
    }
}
