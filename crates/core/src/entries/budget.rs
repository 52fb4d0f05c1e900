//! The budgets under which an entry starts a run.

use std::sync::Arc;

use super::EntryError;
use crate::agent::Agent;
use crate::budget::{BudgetAction, BudgetChange, BudgetLedger, BudgetTerms, Budgets};
use crate::session::{RunRecord, RunTrigger, SessionStatus};
use crate::store::{Change, Commit, Snapshot};
use crate::time::Timestamp;

/// The limits with which a run starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BudgetRequest {
    /// The limits that the request sets. They outrank those of the agent, and stay with the session; those
    /// of the run stay for its turn.
    pub limits: Option<Box<Budgets>>,
    /// The limits of the agent.
    pub terms: BudgetTerms,
}

impl BudgetRequest {
    /// Creates a request that sets no limits of its own for an agent.
    pub(super) fn of<Out>(agent: &Agent<Out>) -> Self {
        Self {
            limits: None,
            terms: BudgetTerms::of_agent(agent),
        }
    }

    /// Sets limits, on top of those that are set.
    pub(crate) fn set(&mut self, budgets: &Budgets) {
        if budgets.is_empty() {
            return;
        }
        let limits = self.limits.get_or_insert_default();
        **limits = limits.overlaid(budgets);
    }
}

/// Adds the limits of a run that starts to its commit, and the reservation of the model call with which it
/// begins. `step` is the step of that call, if the run begins with one. Where nothing is limited, nothing is
/// added.
///
/// # Errors
/// [`EntryError::BudgetExhausted`] if a budget has paused the session, and there is still no room.
pub(super) fn start_budget(
    commit: Commit,
    found: &Snapshot,
    run: &RunRecord,
    request: &BudgetRequest,
    step: Option<u32>,
) -> Result<Commit, EntryError> {
    let requested = request.limits.as_deref().copied().unwrap_or_default();
    let agent = request.terms.agent();
    let sets_none = requested.is_empty() && agent.is_none_or(|agent| agent.is_empty());
    if found.budget.is_none() && sets_none {
        return Ok(commit);
    }
    let (session, root) = (&found.state.session_id, found.state.root());
    let is_new = found.run.is_none() && found.message_count == 0;
    let action = BudgetAction::Start {
        agent,
        requested,
        new_turn: matches!(run.trigger, RunTrigger::Execute | RunTrigger::WithMessage),
        next: request.terms.first().filter(|_| is_new),
        step,
    };
    let change = BudgetChange::new(session.clone(), run.id.clone(), action);
    if found.state.status == SessionStatus::Paused {
        refuse_unless_raised(found, &change, commit.at)?;
    }
    Ok(commit.then_in(root.clone(), Change::Budget(Box::new(change))))
}

/// Adds to the commit of a take-over that the time until now was not spent on the run.
pub(super) fn recover_budget(commit: Commit, found: &Snapshot, run: &RunRecord) -> Commit {
    if found.budget.is_none() {
        return commit;
    }
    let session = found.state.session_id.clone();
    let change = BudgetChange::new(session, run.id.clone(), BudgetAction::Recover);
    let root = found.state.root().clone();
    commit.then_in(root, Change::Budget(Box::new(change)))
}

/// Refuses to start a run that would be paused at once, as the one before it was.
fn refuse_unless_raised(
    found: &Snapshot,
    change: &BudgetChange,
    now: Timestamp,
) -> Result<(), EntryError> {
    let (session, root) = (&found.state.session_id, found.state.root());
    let mut after: Option<Arc<BudgetLedger>> = found.budget.clone();
    BudgetLedger::apply(&mut after, root, change.clone(), now);
    let account = after.as_ref().and_then(|after| after.sessions.get(session));
    match account.and_then(|account| account.refused.clone()) {
        None => Ok(()),
        Some(refused) => Err(EntryError::BudgetExhausted {
            session: session.clone(),
            refused: Box::new(refused),
        }),
    }
}
