//! Admits model calls under the budgets of a session, and counts what they used.

use std::sync::Arc;
use std::time::Duration;

use super::commit::CommitOutcome;
use super::scope::{EffectContext, Scope};
use super::{PerformError, SessionView};
use crate::budget::{
    BudgetAction, BudgetAmount, BudgetChange, BudgetLedger, BudgetScope, BudgetUnit, CallEstimate,
    text_tokens,
};
use crate::machine::EffectAddress;
use crate::message::Message;
use crate::model::TokenUsage;
use crate::session::ReplyUsage;
use crate::step::SystemPrompt;
use crate::store::{Precondition, Snapshot};
use crate::transcript::Transcript;

/// The part of a model call that is counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CallUse {
    /// The tokens that the model reported.
    tokens: Option<TokenUsage>,
    /// Their price, where it is known.
    micro_dollars: Option<u64>,
    /// Whether its reply is kept, so that the step counts.
    is_kept: bool,
    /// How many tool calls of the reply may be executed.
    pub(super) tool_calls: u64,
    /// The limit because of which others are not.
    pub(super) denied: Option<(BudgetScope, BudgetUnit)>,
}

impl CallUse {
    /// A call that gave no reply.
    pub(super) fn lost(usage: Option<&ReplyUsage>) -> Self {
        Self {
            tokens: usage.map(|usage| usage.tokens),
            micro_dollars: usage.and_then(|usage| usage.micro_dollars),
            ..Self::default()
        }
    }

    /// A call whose reply is kept.
    pub(super) fn kept(usage: Option<&ReplyUsage>) -> Self {
        Self {
            is_kept: true,
            ..Self::lost(usage)
        }
    }
}

impl<'a> EffectContext<'a> {
    /// The counters that limit the session, if any do.
    pub(super) fn ledger(self) -> Option<&'a BudgetLedger> {
        let (at, ledger) = (self.at(), self.view.budget.as_deref()?);
        let is_limited = ledger.is_limited(&at.root_session_id, &at.session_id);
        is_limited.then_some(ledger)
    }

    /// The rest of a unit in the scope that has the least of it.
    pub(super) fn budget_left(self, unit: BudgetUnit) -> Option<(u64, BudgetScope)> {
        let at = self.at();
        let ledger = self.ledger()?;
        ledger.left(&at.root_session_id, &at.session_id, unit)
    }

    /// The condition that so many tool calls still fit, where a limit of the whole tree counts them: other sessions may
    /// have used what was left when the counters were read.
    pub(super) fn tool_calls_fit(self, calls: u64) -> Option<Precondition> {
        let (at, ledger) = (self.at(), self.ledger()?);
        let tree = ledger.limits(&at.root_session_id, &at.session_id, BudgetScope::Tree);
        tree.get(BudgetUnit::ToolCalls)
            .map(|_| Precondition::ToolCallsFit(calls))
    }

    /// The time that the run may still take.
    pub(super) fn time_left(self) -> Option<Duration> {
        let (millis, _) = self.budget_left(BudgetUnit::WallClockMs)?;
        Some(Duration::from_millis(millis))
    }

    /// A change of the counters by the run. It is boxed, because every future of an effect holds it, and few
    /// sessions have limits.
    pub(super) fn budget_change(self, action: BudgetAction) -> Box<BudgetChange> {
        self.scope.budget_change(action)
    }

    /// Reserves the model call of a step.
    pub(super) fn reservation(self, step: u32) -> Option<Box<BudgetChange>> {
        self.ledger()?;
        Some(self.budget_change(BudgetAction::Reserve { step, next: None }))
    }

    /// Settles the model call of the effect.
    pub(super) fn settlement(self, call: CallUse) -> Option<Box<BudgetChange>> {
        let (at, ledger) = (self.at(), self.ledger()?);
        let account = ledger.sessions.get(&at.session_id);
        let reserved = account.and_then(|account| account.reserved.as_ref());
        let reserved = reserved.map(|reserved| reserved.amount).unwrap_or_default();
        let agent = self.view.agent();
        let model = agent
            .model()
            .find(agent.name(), self.ports().models.as_ref());
        let model = model.ok();
        let estimate = model
            .as_deref()
            .map(|model| CallEstimate::new(agent, model));
        let known = call.tokens.filter(|tokens| tokens.total() > 0);
        let price = call.micro_dollars.unwrap_or(reserved.micro_dollars);
        let (tokens, micro_dollars) = match &known {
            Some(tokens) => (tokens.total(), price),
            // A model that does not say what it used must not be unlimited.
            None if call.is_kept => (reserved.tokens, reserved.micro_dollars),
            None => (0, 0),
        };
        let next = known.filter(|_| call.is_kept);
        let next = next.and_then(|tokens| Some(estimate?.of_prompt(tokens.total())));
        Some(self.budget_change(BudgetAction::Settle {
            step: at.step,
            used: BudgetAmount {
                steps: u64::from(call.is_kept),
                tokens,
                micro_dollars,
                tool_calls: call.tool_calls,
                wall_clock_ms: 0,
            },
            denied: call.denied,
            next,
        }))
    }
}

impl Scope<'_> {
    /// A change of the counters by the run.
    pub(super) fn budget_change(self, action: BudgetAction) -> Box<BudgetChange> {
        let at = self.at();
        let (session, run) = (at.session_id.clone(), at.run_id.clone());
        Box::new(BudgetChange::new(session, run, action))
    }

    /// Whether the model call of the effect may be made. Its reservation was made by the commit before
    /// it, or refused there. Where that commit could not know what the call may use, it is made here.
    pub(super) async fn admit(
        self,
        view: &mut SessionView,
        history: &Transcript,
    ) -> Result<bool, PerformError> {
        let cx = EffectContext::new(self, view);
        let (at, ports) = (self.at(), self.ports);
        let Some(ledger) = cx.ledger() else {
            return Ok(true);
        };
        if let Some(is_admitted) = admission(ledger, at) {
            return Ok(is_admitted);
        }
        let agent = view.agent();
        let Ok(model) = agent.model().find(agent.name(), ports.models.as_ref()) else {
            // The call itself reports it.
            return Ok(true);
        };
        let known = ledger.sessions.get(&at.session_id);
        let next = match known.and_then(|account| account.next) {
            Some(next) => next,
            None => {
                let tokens = prompt_tokens(agent.system_prompt(), history);
                CallEstimate::new(agent, model.as_ref()).of_prompt(tokens)
            }
        };
        self.reserve(view, next).await?;
        let ledger = view.budget.as_deref();
        Ok(ledger.and_then(|ledger| admission(ledger, at)) != Some(false))
    }

    /// Reserves an amount for the model call of the effect, in a commit of its own.
    pub(super) async fn reserve(
        self,
        view: &mut SessionView,
        next: BudgetAmount,
    ) -> Result<(), PerformError> {
        let (at, now, place) = (self.at(), self.now(), self.place(view.attempt));
        let commit = || {
            self.fenced_commit(now)
                .when(Precondition::Effect(place.clone()))
                .budget(Some(self.budget_change(BudgetAction::Reserve {
                    step: at.step,
                    next: Some(next),
                })))
        };
        let is_made = |found: &Snapshot| {
            let ledger = found.budget.as_ref()?;
            let reserved = ledger.sessions.get(&at.session_id)?.reserved.as_ref();
            let is_this = reserved.is_some_and(|reserved| reserved.amount == next);
            let is_judged = match admission(ledger, at) {
                Some(true) => is_this,
                judged => judged.is_some(),
            };
            is_judged.then(|| Arc::clone(ledger))
        };
        view.budget = match self.make(commit, is_made).await? {
            CommitOutcome::Made(committed) => {
                self.ports.memory.update(&committed, |_| {});
                committed.budget
            }
            CommitOutcome::Before(ledger) => Some(ledger),
        };
        Ok(())
    }
}

/// Whether a call is reserved or refused; `None` while nobody asked.
pub(super) fn admission(ledger: &BudgetLedger, at: &EffectAddress) -> Option<bool> {
    let account = ledger.sessions.get(&at.session_id)?;
    let refused = account.refused.as_ref();
    if refused.is_some_and(|refused| refused.run == at.run_id) {
        return Some(false);
    }
    let reserved = account.reserved.as_ref();
    reserved
        .is_some_and(|reserved| reserved.run == at.run_id && reserved.step == at.step)
        .then_some(true)
}

/// Estimates the size of a prompt. A system prompt that is made from the state is left out: user code is
/// not called for an estimate.
fn prompt_tokens(system: &SystemPrompt, history: &Transcript) -> u64 {
    let system = match system {
        SystemPrompt::Static(text) => text.len(),
        SystemPrompt::Dynamic(_) => 0,
    };
    let said = history.for_model().iter().map(|message| match message {
        // Files are no text.
        Message::User(message) => message.content.len(),
        other => serde_json::to_vec(other).map_or(0, |json| json.len()),
    });
    text_tokens(said.sum::<usize>().saturating_add(system))
}
