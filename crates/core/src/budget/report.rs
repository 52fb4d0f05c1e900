//! A budget as readers are shown it.

use serde::{Deserialize, Serialize};

use super::{Budget, BudgetAmount, BudgetLedger, BudgetRefusal, BudgetScope};
use crate::id::SessionId;

/// The limits of one scope, and what is used and reserved of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BudgetUse {
    /// The limits.
    pub limit: Budget,
    /// The amount that was used.
    pub used: BudgetAmount,
    /// The amount that is reserved for model calls that were not settled yet.
    pub reserved: BudgetAmount,
}

/// The budgets of a session, its latest run and its tree; a scope without limits is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BudgetReport {
    /// The latest run, with the runs that it continues or retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<BudgetUse>,
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<BudgetUse>,
    /// The tree of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<BudgetUse>,
    /// The limit because of which the session is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<BudgetRefusal>,
}

impl BudgetLedger {
    /// Reports the budgets of a session; `None` if nothing limits it.
    #[must_use]
    pub fn report(&self, root: &SessionId, session: &SessionId) -> Option<BudgetReport> {
        let of = |scope| {
            let limit = self.limits(root, session, scope);
            if limit.is_empty() {
                return None;
            }
            let mut reserved = BudgetAmount::default();
            let holders = self.sessions.iter();
            let holders = holders.filter(|(id, _)| scope == BudgetScope::Tree || *id == session);
            for held in holders.filter_map(|(_, account)| account.reserved.as_ref()) {
                reserved.add_limited(&held.amount, limit);
            }
            let used = self.used(session, scope).of_limited(limit);
            Some(BudgetUse {
                limit,
                used,
                reserved,
            })
        };
        let refused = self.sessions.get(session);
        self.is_limited(root, session).then(|| BudgetReport {
            run: of(BudgetScope::Run),
            session: of(BudgetScope::Session),
            tree: of(BudgetScope::Tree),
            refused: refused.and_then(|account| account.refused.clone()),
        })
    }
}
