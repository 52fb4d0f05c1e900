//! Leaves out the beginning of a conversation that comes near the context limit of its model.

use std::sync::Arc;

use serde_json::json;

use super::summary::{INSTRUCTIONS, Summarized, summarize};
use super::{Failure, resolve};
use crate::agent::AnyAgent;
use crate::budget::{BudgetAction, BudgetAmount, BudgetLedger, CallEstimate, text_tokens};
use crate::context::{PromptSize, StandIn, SummaryWriter, message_bytes};
use crate::error::Coded;
use crate::message::{Message, UserMessage};
use crate::model::{Model, ModelConfig, ModelError, ModelErrorKind};
use crate::perform::budget::admission;
use crate::perform::commit::CommitOutcome;
use crate::perform::scope::{EffectContext, Scope};
use crate::perform::settle::usage_change;
use crate::perform::{PerformError, SessionView};
use crate::session::ReplyUsage;
use crate::store::{Change, Precondition, Snapshot};
use crate::stream::ChunkPayload;
use crate::transcript::Transcript;

/// The name of the event that tells readers of it.
const COMPACTED: &str = "context_compacted";

/// Why a conversation cannot be sent to the model.
pub(super) enum Unfit {
    /// The conversation is too long and no turn of it may be left out, or the model of the summary failed.
    /// The run notes it as a failure of the model call.
    Failed(Failure),
    /// The run was asked to stop while a summary was made, which had used this by then.
    Stopped(Option<ReplyUsage>),
    /// The time that a budget allows is over; the summary had used this by then.
    OutOfTime(Option<ReplyUsage>),
    /// A budget has no room for the summary, or none for the call after it: the session is to be paused.
    Exhausted,
}

impl<E: Into<Failure>> From<E> for Unfit {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Whether a conversation is certainly short enough to be sent as it is.
pub(super) fn is_short(scope: Scope<'_>, view: &SessionView, history: &Transcript) -> bool {
    let agent = view.agent();
    let Ok(model) = resolve(agent, scope.ports) else {
        // The call itself reports it.
        return true;
    };
    let limit = agent.context().limit(agent, model.as_ref());
    limit.is_ok_and(|limit| {
        let most = limit.near.or(limit.most).unwrap_or(u64::MAX);
        prompt_size(agent, history).likely() <= most
    })
}

/// Makes room in a conversation, where it has become too long. `is_refused` says that the model has refused
/// it already. Returns whether anything was left out.
///
/// Each reduction is a commit of its own, before the call: a summary that was paid for is not made again
/// when the call fails, or is repeated elsewhere.
pub(super) async fn fit(
    scope: Scope<'_>,
    view: &mut SessionView,
    is_refused: bool,
) -> Result<Result<bool, Unfit>, PerformError> {
    let agent = view.agent().clone();
    let Ok(model) = resolve(&agent, scope.ports) else {
        // The call itself reports it.
        return Ok(Ok(false));
    };
    let limit = match agent.context().limit(&agent, model.as_ref()) {
        Ok(limit) => limit,
        Err(unknown) => return Ok(Err(unknown.to_record().into())),
    };
    let history = scope.history(view).await?;
    let near = limit.near.unwrap_or(u64::MAX);
    let is_long = is_refused || prompt_size(&agent, &history).likely() > near;
    let kept = agent.context().kept_turns().filter(|_| is_long);
    let start = view.run.turn_start;
    let start = start.map_or(usize::MAX, |start| start.messages);
    let turns = earlier_turns(&history, start);
    let goal =
        kept.and_then(|kept| first_kept(&agent, &history, (&turns, kept), (near, is_refused)));
    if let Some(goal) = goal {
        while scope.history(view).await?.shown_from() < goal {
            if let Err(unfit) = leave_out(scope, view, model.as_ref(), (goal, near)).await? {
                return Ok(Err(unfit));
            }
        }
    }
    let size = prompt_size(&agent, &scope.history(view).await?).at_least();
    match limit.most.filter(|most| size > *most) {
        Some(most) => Ok(Err(too_long(&agent, size, most).into())),
        None => Ok(Ok(goal.is_some())),
    }
}

/// The size of a prompt. What a provider counted contains the system prompt and the tools.
fn prompt_size(agent: &AnyAgent, history: &Transcript) -> PromptSize {
    let size = history.size();
    match size.counted {
        0 => size.and_bytes(agent.fixed_bytes()),
        _ => size,
    }
}

fn too_long(agent: &AnyAgent, size: u64, most: u64) -> ModelError {
    let remedy = match agent.context().kept_turns() {
        Some(_) => "its current turn alone is too long; begin a new session",
        None => {
            "begin a new session, or choose with `context` of the agent what is left out near the limit"
        }
    };
    let detail = format!(
        "the conversation has at least {size} tokens, and its limit with {} is {most}; {remedy}",
        agent.model().name()
    );
    ModelError::new(ModelErrorKind::ContextLength, detail)
}

/// The tokens below the limit that are left beside the system prompt and the tools. Where these fill nearly all of
/// it, a conversation needs some room all the same.
fn room(agent: &AnyAgent, near: u64) -> u64 {
    let left = near.saturating_sub(text_tokens(agent.fixed_bytes()));
    left.max(near / 4)
}

/// The positions at which the turns begin that the model reads, up to the current one. A message that arrived while
/// the current turn was in progress begins no turn.
fn earlier_turns(history: &Transcript, current: usize) -> Vec<usize> {
    let mut turns = history.turns_from(history.shown_from());
    turns.retain(|turn| *turn <= current);
    turns
}

/// The first message to keep: that of the earliest turn with which the rest fills at most half of the room,
/// so that not every turn leaves something out. The current turn is kept in any case.
fn first_kept(
    agent: &AnyAgent,
    history: &Transcript,
    (turns, kept): (&[usize], u32),
    (near, is_refused): (u64, bool),
) -> Option<usize> {
    let from = history.shown_from();
    let kept = usize::try_from(kept).unwrap_or(usize::MAX);
    let most = kept.min(turns.len().saturating_sub(1));
    let size = match (prompt_size(agent, history).likely(), is_refused) {
        // The model has found it longer than it was estimated to be.
        (likely, true) => likely.max(near),
        (likely, false) => likely,
    };
    let bytes = |from| history.iter_from(from).map(message_bytes).sum::<usize>();
    let all = bytes(from).saturating_add(agent.fixed_bytes()).max(1);
    // By what the provider counted, where it did: bytes tell little of the tokens of some languages.
    let tokens = |part: usize| {
        let share = u128::from(size) * part as u128 / all as u128;
        u64::try_from(share).unwrap_or(u64::MAX)
    };
    let first = |kept: usize| turns.get(turns.len().checked_sub(kept)?).copied();
    let fitting = (1..=most).rev().filter_map(first);
    let half = room(agent, near) / 2;
    let mut fitting = fitting.filter(|first| tokens(bytes(*first)) <= half);
    let found = fitting.next().or_else(|| first(1));
    found.filter(|first| *first > from)
}

/// Leaves out messages before `goal`: all at once, or as many whole turns as the model of the summary reads.
async fn leave_out(
    scope: Scope<'_>,
    view: &mut SessionView,
    model: &dyn Model,
    (goal, near): (usize, u64),
) -> Result<Result<(), Unfit>, PerformError> {
    let agent = view.agent().clone();
    let Some(SummaryWriter { model: by, config }) = agent.context().summary_writer() else {
        let stand_in = StandIn::message(goal, None);
        return commit(scope, view, model, (goal, stand_in), None).await;
    };
    let writer = match by.find(agent.name(), scope.ports.models.as_ref()) {
        Ok(found) => Writer {
            model: found,
            name: by.name(),
            config,
        },
        Err(unknown) => return Ok(Err(unknown.to_record().into())),
    };
    let history = scope.history(view).await?;
    let (document, to) = writer.document(&history, goal);
    let prompt = document.len().saturating_add(INSTRUCTIONS.len());
    let most = writer.estimate().of_prompt(text_tokens(prompt));
    let call = prompt_size(&agent, &history).likely();
    let call = CallEstimate::new(&agent, model).of_prompt(call);
    if let Err(unfit) = reserve(scope, view, &writer, (most, call)).await? {
        return Ok(Err(unfit));
    }
    let cx = EffectContext::new(scope, view);
    let room = room(&agent, near);
    let Summarized { text, usage } = match summarize(cx, &writer, document, room).await? {
        Ok(summary) => summary,
        Err(unfit) => return Ok(Err(unfit)),
    };
    let stand_in = StandIn::message(to, Some(&text));
    commit(scope, view, model, (to, stand_in), Some((usage, most))).await
}

/// The model that writes summaries.
pub(super) struct Writer<'a> {
    pub(super) model: Arc<dyn Model>,
    pub(super) name: &'a str,
    pub(super) config: &'a ModelConfig,
}

impl Writer<'_> {
    /// The text to summarize, and the position of the first message that it does not contain: as many whole
    /// turns as the model reads, and at least one.
    fn document(&self, history: &Transcript, goal: usize) -> (String, usize) {
        let from = history.shown_from();
        let room = self.model.limits().context_tokens;
        // The rest is room for the summary, and for what the estimate misses.
        let room = room.map_or(u64::MAX, |context| context / 2);
        let ends = history.turns_from(from).into_iter().skip(1);
        let ends: Vec<usize> = ends.filter(|end| *end < goal).chain([goal]).collect();
        let mut document = super::summary::earlier(history);
        let mut to = from;
        for end in ends {
            let turn = super::summary::turns(history, to, end);
            let is_first = to == from;
            let fits = text_tokens(document.len().saturating_add(turn.len())) <= room;
            if !is_first && !fits {
                break;
            }
            document.push_str(&turn);
            to = end;
        }
        let most = usize::try_from(room.saturating_mul(4)).unwrap_or(usize::MAX);
        (super::summary::without_middle(document, most), to)
    }

    fn estimate(&self) -> CallEstimate<'_> {
        CallEstimate::of_config(self.config, self.model.as_ref())
    }
}

/// Reserves what a summary and the call that follows it may use. Both amounts are estimated anew, and not added to
/// what is reserved: an earlier attempt may have reserved a summary already.
async fn reserve(
    scope: Scope<'_>,
    view: &mut SessionView,
    writer: &Writer<'_>,
    (summary, call): (BudgetAmount, BudgetAmount),
) -> Result<Result<(), Unfit>, PerformError> {
    let cx = EffectContext::new(scope, view);
    if cx.ledger().is_none() {
        return Ok(Ok(()));
    }
    let is_limited = cx
        .budget_left(crate::budget::BudgetUnit::MicroDollars)
        .is_some();
    let estimate = writer.estimate();
    if let Err(unpriced) = estimate.check_priced_as(view.agent().name(), writer.name, is_limited) {
        return Ok(Err(unpriced.to_record().into()));
    }
    let both = BudgetAmount {
        tokens: call.tokens.saturating_add(summary.tokens),
        micro_dollars: call.micro_dollars.saturating_add(summary.micro_dollars),
        ..summary
    };
    scope.reserve(view, both).await?;
    Ok(is_admitted(scope, view)
        .then_some(())
        .ok_or(Unfit::Exhausted))
}

/// Whether a budget has room for the call, as far as somebody asked.
fn is_admitted(scope: Scope<'_>, view: &SessionView) -> bool {
    let ledger = view.budget.as_deref();
    ledger.and_then(|ledger| admission(ledger, scope.at())) != Some(false)
}

/// The session as a look has found it: its counters, whether it is to stop, and the number of its messages.
type Found = (Option<Arc<BudgetLedger>>, bool, usize);

/// What a summary used, as its provider reports it. A model that reports nothing must not be unlimited, and is
/// charged with the most that it may have used.
fn used(usage: &ReplyUsage, most: &BudgetAmount) -> BudgetAmount {
    let (tokens, micro_dollars) = match usage.tokens.total() {
        0 => (most.tokens, Some(most.micro_dollars)),
        known => (known, usage.micro_dollars),
    };
    BudgetAmount {
        tokens,
        micro_dollars: micro_dollars.unwrap_or(most.micro_dollars),
        ..BudgetAmount::default()
    }
}

/// Makes a reduction durable, with what its summary used and may have used at most.
async fn commit(
    scope: Scope<'_>,
    view: &mut SessionView,
    model: &dyn Model,
    (from, stand_in): (usize, UserMessage),
    summary: Option<(ReplyUsage, BudgetAmount)>,
) -> Result<Result<(), Unfit>, PerformError> {
    let mut history = scope.history(view).await?;
    let left_out = from - history.shown_from();
    history.push_user(stand_in.clone());
    let cx = EffectContext::new(scope, view);
    let (at, now) = (scope.at(), cx.now);
    let used = summary.as_ref().map(|(usage, most)| used(usage, most));
    let settlement = used.filter(|_| cx.ledger().is_some()).map(|used| {
        let prompt = prompt_size(view.agent(), &history).likely();
        cx.budget_change(BudgetAction::Settle {
            step: at.step,
            used,
            denied: None,
            next: Some(CallEstimate::new(view.agent(), model).of_prompt(prompt)),
        })
    });
    let reservation = settlement.as_ref().and_then(|_| cx.reservation(at.step));
    // The time of the summary is not there for the call.
    let time = cx.time_left();
    let time = time.map(|_| cx.budget_change(BudgetAction::Tick));
    let counts = settlement.is_some() || time.is_some();
    let is_summary = summary.is_some();
    let usage = usage_change(cx, &at.run_id, summary.map(|(usage, _)| usage))?;
    let told = ChunkPayload::Custom {
        event_name: COMPACTED.to_owned(),
        data: json!({
            "from": from,
            "leftOut": left_out,
            "summary": is_summary.then_some(&stand_in.content),
        }),
    };
    let (place, attempt) = (scope.place(view.attempt), view.attempt);
    let commit = || {
        scope
            .fenced_commit(now)
            .when(Precondition::Effect(place.clone()))
            .change(Change::AppendUser(stand_in.clone()))
            .budget(time.clone())
            .changes(usage.clone())
            .budget(settlement.clone())
            .budget(reservation.clone())
            .tell([told.clone()])
    };
    loop {
        let count = view.message_count();
        let has_more = |found: &Snapshot| -> Option<Found> {
            let is_its = found.mark.effect < at.n && found.mark.attempt_at(at.n) == attempt;
            let stop = scope.is_stopped_by(found.stop.as_ref());
            let after = || (found.budget.clone(), stop, found.message_count);
            (is_its && found.message_count > count).then(after)
        };
        let (budget, stop, count) = match scope.make(commit, has_more).await? {
            CommitOutcome::Made(committed) => {
                let (memory, known) = (&scope.ports.memory, history.clone());
                memory.update(&committed, |view| view.add_stand_in(known));
                view.add_stand_in(history);
                view.stop |= committed.stop.is_some();
                if counts {
                    // Any other commit says nothing of the counters, which are those of the root.
                    view.budget = committed.budget;
                }
                break;
            }
            CommitOutcome::Before(found) => found,
        };
        // Perhaps it was made, and perhaps somebody else appended a message: the history tells.
        view.forget_history(count);
        view.stop |= stop;
        view.budget = budget;
        let stored = scope.history(view).await?;
        if matches!(stored.stand_in(), Some(Message::User(one)) if *one == stand_in) {
            break;
        }
        history = stored;
        history.push_user(stand_in.clone());
    }
    tracing::info!(
        event = "context.compacted",
        session = %at.session_id,
        run = %at.run_id,
        step = at.step,
        left_out,
    );
    if view.stop {
        return Ok(Err(Unfit::Stopped(None)));
    }
    Ok(is_admitted(scope, view)
        .then_some(())
        .ok_or(Unfit::Exhausted))
}
