//! The budgets of a request, and who may set them.

use helix_agents_core::SessionId;
use helix_agents_core::agent::AgentContext;
use helix_agents_core::budget::{Budget, BudgetScope, BudgetUnit, Budgets};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::ApiError;
use crate::builder::App;
use crate::caller::Caller;

/// Limits for the run, its session and its tree.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BudgetsBody {
    run: Option<BudgetBody>,
    session: Option<BudgetBody>,
    tree: Option<BudgetBody>,
}

/// Limits of what some work may use; what is left out is not changed.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BudgetBody {
    #[schema(minimum = 1)]
    steps: Option<u64>,
    #[schema(minimum = 1)]
    tokens: Option<u64>,
    #[schema(minimum = 1)]
    micro_dollars: Option<u64>,
    #[schema(minimum = 1)]
    tool_calls: Option<u64>,
    #[schema(minimum = 1)]
    wall_clock_ms: Option<u64>,
}

impl BudgetBody {
    fn read(self) -> Budget {
        let limits = [
            (BudgetUnit::Steps, self.steps),
            (BudgetUnit::Tokens, self.tokens),
            (BudgetUnit::MicroDollars, self.micro_dollars),
            (BudgetUnit::ToolCalls, self.tool_calls),
            (BudgetUnit::WallClockMs, self.wall_clock_ms),
        ];
        let limits = limits.into_iter();
        let set = limits.filter_map(|(unit, limit)| Some((unit, limit?)));
        set.fold(Budget::new(), |all, (unit, limit)| all.limit(unit, limit))
    }
}

impl BudgetsBody {
    /// Reads the limits of a request for a session of this agent. Only administrators may set a limit above
    /// the one that the agent has.
    pub(crate) fn allowed(
        self,
        app: &App,
        caller: &Caller,
        agent: &str,
        session: &SessionId,
    ) -> Result<Budgets, ApiError> {
        let read = |body: Option<BudgetBody>| body.unwrap_or_default().read();
        let budgets = Budgets::new()
            .run(read(self.run))
            .session(read(self.session))
            .tree(read(self.tree));
        if let Some((scope, unit)) = budgets.zero_limit() {
            let detail = format!("the limit of {unit} for the {scope} is 0; give 1 or more");
            return Err(ApiError::invalid(detail));
        }
        if caller.principal.admin || budgets.is_empty() {
            return Ok(budgets);
        }
        let mut context = AgentContext::new(session.clone());
        context.user_id.clone_from(&caller.principal.user);
        let agent = app.runtime.agents().resolve(agent, &context)?;
        for scope in BudgetScope::ALL {
            for (unit, limit) in budgets.get(scope).limits() {
                let most = agent.budgets().get(scope).get(unit);
                if let Some(most) = most.filter(|most| limit > *most) {
                    let detail = format!(
                        "the agent limits {unit} for the {scope} to {most}; only an administrator may set \
                         more"
                    );
                    return Err(ApiError::forbidden(detail));
                }
            }
        }
        Ok(budgets)
    }
}
