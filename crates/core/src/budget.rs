//! Budgets: limits of what a run, a session, or a tree of sessions may use.
//!
//! A model call is admitted before it is made: what it may use at most is reserved in the commit that
//! precedes the call, and settled with what it did use in the commit that follows it. A call whose
//! reservation does not fit is not made: its run ends as interrupted, its session is paused, and a resume
//! with a raised limit continues the turn.
//!
//! The counters of all sessions of a tree are one [`BudgetLedger`] in the header of the root, which only
//! [`plan`](crate::store::plan) changes. A session without limits has none.

mod amount;
mod change;
mod estimate;
mod ledger;
mod limits;
mod report;

pub use amount::BudgetAmount;
pub use change::{BudgetAction, BudgetChange};
pub use estimate::{BudgetTerms, DEFAULT_MAX_OUTPUT_TOKENS, UnpricedModel};
pub(crate) use estimate::{CallEstimate, text_tokens};
pub use ledger::{BudgetAccount, BudgetLedger, BudgetRefusal, BudgetReservation};
pub use limits::{Budget, BudgetScope, BudgetUnit, Budgets};
pub use report::{BudgetReport, BudgetUse};
