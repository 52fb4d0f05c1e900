//! The counters of a tree of sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Budget, BudgetAction, BudgetAmount, BudgetChange, BudgetScope, BudgetUnit, Budgets};
use crate::id::{RunId, SessionId};
use crate::time::Timestamp;

/// The counters of all sessions of a tree: amounts used and reserved, kept in the header of the root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BudgetLedger {
    /// The amount that all sessions have used, of the units that the tree limits.
    #[serde(default, skip_serializing_if = "BudgetAmount::is_zero")]
    pub tree: BudgetAmount,
    /// The sessions that have limits, or a run under those of the tree.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sessions: BTreeMap<SessionId, BudgetAccount>,
}

/// The counters and the limits of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct BudgetAccount {
    /// The limits of the agent when the last run started.
    #[serde(skip_serializing_if = "Budgets::is_empty")]
    pub agent: Budgets,
    /// The limits that requests have set. They outrank those of the agent.
    #[serde(skip_serializing_if = "Budgets::is_empty")]
    pub requested: Budgets,
    /// The amount that the turn of the last run has used.
    #[serde(skip_serializing_if = "BudgetAmount::is_zero")]
    pub run: BudgetAmount,
    /// The amount that the session has used, in all its turns.
    #[serde(skip_serializing_if = "BudgetAmount::is_zero")]
    pub session: BudgetAmount,
    /// The most that the next model call may use, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<BudgetAmount>,
    /// The reservation of the model call in progress, or of the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<BudgetReservation>,
    /// The limit because of which the run makes no further model call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<BudgetRefusal>,
    /// The instant, by the clock of the store, from which on the time of the run is not counted yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// A reservation for one model call. Attempts at the same step share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BudgetReservation {
    /// The run of the call.
    pub run: RunId,
    /// The step of the call.
    pub step: u32,
    /// The most that the call may use.
    pub amount: BudgetAmount,
}

/// The limit that stops a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BudgetRefusal {
    /// The run that is stopped.
    pub run: RunId,
    /// The work that the limit covers.
    pub scope: BudgetScope,
    /// The quantity that is limited.
    pub unit: BudgetUnit,
    /// The limit.
    pub limit: u64,
    /// The amount that would be used with the call that was not made.
    pub needed: u64,
}

impl BudgetAccount {
    /// Returns the limits that are in force.
    pub fn limits(&self) -> Budgets {
        self.agent.overlaid(&self.requested)
    }
}

impl BudgetLedger {
    /// Returns the limits of a scope for a session. Those of the tree are set at its root.
    pub fn limits(&self, root: &SessionId, session: &SessionId, scope: BudgetScope) -> Budget {
        let of = match scope {
            BudgetScope::Run | BudgetScope::Session => session,
            BudgetScope::Tree => root,
        };
        let account = self.sessions.get(of);
        account.map_or_else(Budget::new, |account| account.limits().get(scope))
    }

    /// Returns what was used in a scope.
    #[must_use]
    pub fn used(&self, session: &SessionId, scope: BudgetScope) -> BudgetAmount {
        let account = self.sessions.get(session);
        let used = match scope {
            BudgetScope::Run => account.map(|account| account.run),
            BudgetScope::Session => account.map(|account| account.session),
            BudgetScope::Tree => Some(self.tree),
        };
        used.unwrap_or_default()
    }

    /// Returns what is reserved in a scope, but for the reservation of one session.
    fn reserved_by_others(
        &self,
        session: &SessionId,
        scope: BudgetScope,
        limit: Budget,
    ) -> BudgetAmount {
        let mut sum = BudgetAmount::default();
        if scope == BudgetScope::Tree {
            let others = self.sessions.iter().filter(|(id, _)| *id != session);
            for reserved in others.filter_map(|(_, account)| account.reserved.as_ref()) {
                sum.add_limited(&reserved.amount, limit);
            }
        }
        sum
    }

    /// Whether any limit applies to a session.
    #[must_use]
    pub fn is_limited(&self, root: &SessionId, session: &SessionId) -> bool {
        let mut scopes = BudgetScope::ALL.into_iter();
        scopes.any(|scope| !self.limits(root, session, scope).is_empty())
    }

    /// Returns the smallest rest of a unit in any scope, with its scope; `None` if it is not limited.
    #[must_use]
    pub fn left(
        &self,
        root: &SessionId,
        session: &SessionId,
        unit: BudgetUnit,
    ) -> Option<(u64, BudgetScope)> {
        let rests = BudgetScope::ALL.into_iter().filter_map(|scope| {
            let limit = self.limits(root, session, scope).get(unit)?;
            let used = self.used(session, scope).get(unit);
            Some((limit.saturating_sub(used), scope))
        });
        rests.min_by_key(|(rest, _)| *rest)
    }

    /// Whether the tree may make so many more tool calls.
    pub(crate) fn tree_admits(&self, root: &SessionId, tool_calls: u64) -> bool {
        let limit = self.limits(root, root, BudgetScope::Tree);
        let used = self.tree.get(BudgetUnit::ToolCalls);
        let limit = limit.get(BudgetUnit::ToolCalls);
        limit.is_none_or(|limit| used.saturating_add(tool_calls) <= limit)
    }

    /// Returns the first limit that an amount would cross. A call needs some time, too.
    fn crossed(
        &self,
        root: &SessionId,
        session: &SessionId,
        run: &RunId,
        want: &BudgetAmount,
    ) -> Option<BudgetRefusal> {
        BudgetScope::ALL.into_iter().find_map(|scope| {
            let limits = self.limits(root, session, scope);
            let used = self.used(session, scope);
            let others = self.reserved_by_others(session, scope, limits);
            limits.limits().find_map(|(unit, limit)| {
                let want = match unit {
                    BudgetUnit::WallClockMs => 1,
                    _ => want.get(unit),
                };
                let taken = used.get(unit).saturating_add(others.get(unit));
                let needed = taken.saturating_add(want);
                (needed > limit).then(|| BudgetRefusal {
                    run: run.clone(),
                    scope,
                    unit,
                    limit,
                    needed,
                })
            })
        })
    }

    /// Counts what a session used, in every scope that limits it.
    fn count(&mut self, root: &SessionId, session: &SessionId, used: &BudgetAmount) {
        let limits = |scope| self.limits(root, session, scope);
        let (run, whole, tree) = (
            limits(BudgetScope::Run),
            limits(BudgetScope::Session),
            limits(BudgetScope::Tree),
        );
        self.tree.add_limited(used, tree);
        if let Some(account) = self.sessions.get_mut(session) {
            account.run.add_limited(used, run);
            account.session.add_limited(used, whole);
        }
    }

    /// Reserves the next model call of a run, or notes the limit that refuses it. Reserving the same
    /// step again changes nothing but the amount.
    fn reserve(&mut self, root: &SessionId, session: &SessionId, run: &RunId, step: u32) {
        let Some(account) = self.sessions.get_mut(session) else {
            return;
        };
        let next = account.next;
        account.reserved = None;
        if account.refused.as_ref().is_some_and(|one| one.run == *run) {
            return;
        }
        // What is not known is asked for by the call itself.
        let Some(next) = next else { return };
        let amount = BudgetAmount { steps: 1, ..next };
        let refused = self.crossed(root, session, run, &amount);
        let Some(account) = self.sessions.get_mut(session) else {
            return;
        };
        if refused.is_none() {
            account.reserved = Some(BudgetReservation {
                run: run.clone(),
                step,
                amount,
            });
        }
        account.refused = refused;
    }

    /// Applies a change to the ledger of a root, which is made when the first limit is set and removed
    /// with the last one. `now` is the instant by the clock of the store.
    pub(crate) fn apply(
        ledger: &mut Option<Arc<Self>>,
        root: &SessionId,
        change: BudgetChange,
        now: Timestamp,
    ) {
        if matches!(change.action, BudgetAction::Start { .. }) {
            ledger.get_or_insert_default();
        }
        let Some(present) = ledger else { return };
        let all = Arc::make_mut(present);
        all.change(root, change, now);
        if all.sessions.is_empty() {
            *ledger = None;
        }
    }

    fn change(&mut self, root: &SessionId, change: BudgetChange, now: Timestamp) {
        let BudgetChange {
            session,
            run,
            action,
        } = change;
        match action {
            BudgetAction::Start {
                agent,
                requested,
                new_turn,
                next,
                step,
            } => {
                let account = self.sessions.entry(session.clone()).or_default();
                account.start(agent, &requested, new_turn, next, now);
                self.keep_denial(root, &session, &run, new_turn);
                if let Some(step) = step {
                    self.reserve(root, &session, &run, step);
                }
                if !self.is_limited(root, &session) {
                    self.sessions.remove(&session);
                }
            }
            BudgetAction::Recover => {
                if let Some(account) = self.sessions.get_mut(&session) {
                    account.since = Some(now);
                }
            }
            BudgetAction::Tick => self.tick(root, &session, now),
            BudgetAction::Reserve { step, next } => {
                let account = self.sessions.entry(session.clone()).or_default();
                account.since.get_or_insert(now);
                account.next = next.or(account.next);
                self.reserve(root, &session, &run, step);
            }
            BudgetAction::Settle {
                step,
                used,
                denied,
                next,
            } => {
                self.count(root, &session, &used);
                let refused = denied.map(|(scope, unit)| {
                    let limit = self.limits(root, &session, scope).get(unit);
                    BudgetRefusal {
                        run: run.clone(),
                        scope,
                        unit,
                        limit: limit.unwrap_or_default(),
                        needed: self.used(&session, scope).get(unit).saturating_add(1),
                    }
                });
                let Some(account) = self.sessions.get_mut(&session) else {
                    return;
                };
                let is_its = |one: &BudgetReservation| one.run == run && one.step == step;
                if account.reserved.as_ref().is_some_and(is_its) {
                    account.reserved = None;
                }
                account.next = next.or(account.next);
                account.refused = refused.or(account.refused.take());
            }
            BudgetAction::End => {
                let Some(account) = self.sessions.get_mut(&session) else {
                    return;
                };
                account.reserved = None;
                account.since = None;
                // A session that only shared the limits of its tree leaves nothing behind.
                if account.limits().is_empty() && session != *root {
                    self.sessions.remove(&session);
                }
            }
            BudgetAction::Leave => {
                self.sessions.remove(&session);
            }
        }
    }

    /// Counts the time since the last commit of a run.
    fn tick(&mut self, root: &SessionId, session: &SessionId, now: Timestamp) {
        let Some(account) = self.sessions.get_mut(session) else {
            return;
        };
        let Some(since) = account.since.replace(now) else {
            account.since = None;
            return;
        };
        let passed = now.since(since).as_millis();
        let used = BudgetAmount {
            wall_clock_ms: u64::try_from(passed).unwrap_or(u64::MAX),
            ..BudgetAmount::default()
        };
        self.count(root, session, &used);
    }

    /// Keeps a run from starting while the limit holds because of which tool calls were not executed.
    fn keep_denial(&mut self, root: &SessionId, session: &SessionId, run: &RunId, new_turn: bool) {
        let account = self.sessions.get_mut(session);
        let denied = account.and_then(|account| account.refused.take());
        let Some(denied) = denied.filter(|one| one.unit == BudgetUnit::ToolCalls) else {
            return;
        };
        if new_turn && denied.scope == BudgetScope::Run {
            return;
        }
        let limit = self.limits(root, session, denied.scope).get(denied.unit);
        let used = self.used(session, denied.scope).get(denied.unit);
        let Some(limit) = limit.filter(|limit| used >= *limit) else {
            return;
        };
        if let Some(account) = self.sessions.get_mut(session) {
            account.refused = Some(BudgetRefusal {
                run: run.clone(),
                limit,
                ..denied
            });
        }
    }
}

impl BudgetAccount {
    fn start(
        &mut self,
        agent: Option<Budgets>,
        requested: &Budgets,
        new_turn: bool,
        next: Option<BudgetAmount>,
        now: Timestamp,
    ) {
        self.agent = agent.unwrap_or(self.agent);
        if new_turn {
            // A limit that a request set for its run does not outlive the turn.
            self.requested = self.requested.set(BudgetScope::Run, Budget::new());
            self.run = BudgetAmount::default();
        }
        self.requested = self.requested.overlaid(requested);
        self.next = self.next.or(next);
        self.reserved = None;
        self.since = Some(now);
    }
}
