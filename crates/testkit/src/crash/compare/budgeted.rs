//! Checks of budgets: what is counted is what was used, at every moment.

use helix_agents_core::budget::{BudgetReport, BudgetScope, BudgetUnit};
use helix_agents_core::context::StandIn;
use helix_agents_core::message::Message;
use helix_agents_core::model::TokenUsage;
use helix_agents_core::usage::{UsageEntry, UsageKind, UsageRollup};

use super::Stored;

impl Stored {
    /// The tokens that were recorded.
    pub(super) fn tokens(&self) -> TokenUsage {
        self.usage.iter().collect::<UsageRollup>().tokens
    }

    /// Whether model calls have used tokens and gave no reply.
    pub(super) fn has_paid_failures(&self) -> bool {
        let paid = self.usage.iter();
        let paid = paid.filter(|entry| matches!(entry.kind, UsageKind::Tokens { .. }));
        paid.count() > self.replies() + self.summaries()
    }

    fn replies(&self) -> usize {
        let is_reply = |message: &&Message| matches!(message, Message::Assistant(_));
        self.messages.iter().filter(is_reply).count()
    }

    /// The number of summaries that stand for earlier turns.
    pub(super) fn summaries(&self) -> usize {
        let stand_ins = self.messages.iter().filter_map(StandIn::of);
        stand_ins.filter(|one| one.summary).count()
    }

    /// The budgets of the session.
    pub(super) fn budget(&self) -> Option<BudgetReport> {
        let session = self.session.as_ref()?;
        let id = &session.state.session_id;
        let mut report = session.budget.as_ref()?.report(session.state.root(), id)?;
        // The ids of runs differ between two plays.
        report.refused = None;
        Some(report)
    }

    /// Whether something is reserved for a model call.
    pub(super) fn has_reservation(&self) -> bool {
        let ledger = self.session.as_ref().and_then(|one| one.budget.as_ref());
        ledger.is_some_and(|ledger| {
            let mut accounts = ledger.sessions.values();
            accounts.any(|account| account.reserved.is_some())
        })
    }

    /// The steps and tokens of the session, without those of its sub-agents.
    fn spent(&self) -> [u64; 2] {
        let open = self.session.as_ref().and_then(|one| one.open_step.as_ref());
        let steps = self.replies() + usize::from(open.is_some());
        // The tokens of an open step are recorded when it is settled, or when its run is suspended.
        let unrecorded = open.and_then(|open| open.usage.as_ref());
        let unrecorded = unrecorded.map_or(0, |usage| usage.tokens.total());
        let own = self.usage.iter();
        let own = own.filter(|entry| matches!(entry.kind, UsageKind::Tokens { .. }));
        let own = own.collect::<UsageRollup>().tokens.total();
        [u64::try_from(steps).unwrap_or(u64::MAX), own + unrecorded]
    }

    /// The steps and tokens of the session and of all below it.
    fn spent_in_tree(&self) -> [u64; 2] {
        let own = self.spent();
        let below = self.children.values().map(Self::spent_in_tree);
        below.fold(own, |sum, one| [sum[0] + one[0], sum[1] + one[1]])
    }

    /// Compares the counters of the session with what is stored of its steps. They are changed by the same
    /// commits, so they agree in the middle of a run, too.
    pub(super) fn flaws_of_the_budget(&self) -> Vec<String> {
        let Some(session) = &self.session else {
            return Vec::new();
        };
        let Some(ledger) = &session.budget else {
            return Vec::new();
        };
        let (root, id) = (session.state.root(), &session.state.session_id);
        let mut flaws = Vec::new();
        // Nobody says what a reply cost that was cut off, and some models never do: the reservation is counted.
        let is_free = |entry: &UsageEntry| match &entry.kind {
            UsageKind::Tokens { tokens, .. } => tokens.total() == 0,
            _ => false,
        };
        let is_sure = self.cut_replies() == 0 && !self.usage.iter().any(is_free);
        for (scope, spent) in [
            (BudgetScope::Session, self.spent()),
            (BudgetScope::Tree, self.spent_in_tree()),
        ] {
            for (unit, fact) in [
                (BudgetUnit::Steps, spent[0]),
                (BudgetUnit::Tokens, spent[1]),
            ] {
                let counted = ledger.used(id, scope).get(unit);
                // Going back gives nothing back.
                let may_be_more = session.cuts > 0 || (unit == BudgetUnit::Tokens && !is_sure);
                let is_right = counted == fact || (may_be_more && counted > fact);
                if ledger.limits(root, id, scope).get(unit).is_some() && !is_right {
                    flaws.push(format!(
                        "the budget of the {scope} counts {counted} {unit} instead of {fact}"
                    ));
                }
            }
        }
        flaws
    }
}
