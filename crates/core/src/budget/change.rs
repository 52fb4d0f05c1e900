//! Changes of a ledger, as commits carry them.

use super::{BudgetAmount, BudgetScope, BudgetUnit, Budgets};
use crate::id::{RunId, SessionId};

/// A change of what a session has used or reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetChange {
    /// The session that uses it: the root, or one under it.
    pub session: SessionId,
    /// The run that uses it.
    pub run: RunId,
    /// The kind of the change, with its amounts.
    pub action: BudgetAction,
}

impl BudgetChange {
    /// Creates a change by a run of a session.
    #[must_use]
    #[doc(hidden)]
    pub fn new(session: SessionId, run: RunId, action: BudgetAction) -> Self {
        Self {
            session,
            run,
            action,
        }
    }
}

/// The kind of a change of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "commits hold it in a box, and only a start is large"
)]
pub enum BudgetAction {
    /// A run starts, under these limits.
    Start {
        /// The limits of the agent. `None` where the entry does not know the agent, so that those of the
        /// last run stay in force.
        agent: Option<Budgets>,
        /// The limits that the request sets.
        requested: Budgets,
        /// Whether a message begins a turn, so that the budget of the run begins anew.
        new_turn: bool,
        /// The most that the first model call may use. A session that has made a call keeps its own figure.
        next: Option<BudgetAmount>,
        /// The step of the model call with which the run begins, if it begins with one.
        step: Option<u32>,
    },
    /// Another process continues the run: the time until now was not spent on it.
    Recover,
    /// Counts the time since the last commit of the run.
    Tick,
    /// Reserves what the next model call may use at most.
    Reserve {
        /// The step of the call.
        step: u32,
        /// The most that the call may use; `None` keeps the figure of the last settlement.
        next: Option<BudgetAmount>,
    },
    /// Counts what a model call used, and drops its reservation.
    Settle {
        /// The step of the call.
        step: u32,
        /// The amount to count: what the call used, and the tool calls of its reply that are executed.
        used: BudgetAmount,
        /// The limit because of which tool calls of the reply are not executed.
        denied: Option<(BudgetScope, BudgetUnit)>,
        /// The most that the next call may use; `None` keeps the figure that is known.
        next: Option<BudgetAmount>,
    },
    /// The run ends: a reservation that it still holds is dropped, and no time counts any more.
    End,
    /// As [`BudgetAction::End`], for a session that has no other run. What it used stays counted in its tree.
    Leave,
}
