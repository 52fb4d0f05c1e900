//! Asks the model.

mod begin_again;
mod compact;
mod cut;
mod stream;
mod summary;

use std::sync::Arc;
use std::time::Duration;

use self::begin_again::begin_again;
use self::compact::{Unfit, fit, is_short};
use self::cut::{Cut, cut_short, note_cut, note_out_of_time};
use self::stream::{ReplyEnd, adapter_panicked, stream};
use super::budget::CallUse;
use super::commit::CommitOutcome;
use super::deltas::{Deltas, discard_orphans};
use super::guard::caught_now;
use super::hooks::{Hooks, fire};
use super::reading::Reading;
use super::reply::{self, Replied};
use super::scope::{EffectContext, Scope};
use super::settle::usage_change;
use super::{Attempt, PerformError, Ports};
use crate::agent::AnyAgent;
use crate::budget::{BudgetUnit, CallEstimate};
use crate::error::{Coded, ErrorCode, ErrorRecord};
use crate::hooks::{AfterModelCall, BeforeModelCall};
use crate::machine::{EffectKind, Event, EventKind};
use crate::meter::ModelCall;
use crate::model::{Model, ModelError, ModelRequest, ReplyBuilder, TokenUsage, ToolChoice};
use crate::session::ReplyUsage;
use crate::state::to_rfc6902;
use crate::step::{FINISH_TOOL, PromptMessages, build_messages_for_llm};
use crate::store::Change;
use crate::stream::Sequence;
use crate::time::Timestamp;
use crate::transcript::Transcript;

pub(super) async fn perform(scope: Scope<'_>, attempt: Attempt) -> Result<Event, PerformError> {
    let mut view = match scope.reading().await? {
        Reading::View(view) => view,
        Reading::Recorded(event) => return Ok(event),
    };
    if view.stop {
        // The loop ends the run; nobody pays for a reply that is not wanted any more.
        return Box::pin(note_cut(EffectContext::new(scope, &view), None)).await;
    }
    if attempt != Attempt::First {
        begin_again(scope, &mut view, attempt).await?;
    } else if view.attempt > 0 {
        return Err(scope.overtaken());
    }
    let mut history = scope.history(&mut view).await?;
    if matches!(scope.effect.kind, EffectKind::Model { resync: true, .. }) {
        let run_start = Sequence(view.run.start_sequence);
        discard_orphans(scope, view.attempt, run_start).await?;
    }

    if view.budget.is_some() && !Box::pin(scope.admit(&mut view, &history)).await? {
        return Ok(scope.event(EventKind::BudgetExhausted {}));
    }

    let mut fits = Ok(false);
    if !is_short(scope, &view, &history) {
        // Rare and large.
        fits = Box::pin(fit(scope, &mut view, false)).await?;
        history = scope.history(&mut view).await?;
    }
    let cx = EffectContext::new(scope, &view);
    let hooks = Hooks::over(cx, &view.state());
    if scope.effect.first {
        hooks.fire_started(&history).await?;
    }
    if let Err(unfit) = fits {
        return Box::pin(no_call(cx, &hooks, unfit)).await;
    }
    match ask(cx, &hooks, &history).await? {
        Ok(replied) => reply::take(cx, &hooks, &history, replied).await,
        Err(NoReply::Failed(failure)) if failure.is_too_long() => {
            Box::pin(too_long(cx, &hooks, failure)).await
        }
        Err(NoReply::Failed(failure)) => failed(cx, &hooks, failure).await,
        // Rare and large.
        Err(NoReply::Cut(cut)) => Box::pin(cut_short(cx, &hooks, *cut)).await,
        Err(NoReply::OutOfTime(usage)) => Box::pin(note_out_of_time(cx, usage)).await,
    }
}

/// Ends a model call that is not made, because its conversation does not fit.
async fn no_call(
    cx: EffectContext<'_>,
    hooks: &Hooks<'_>,
    unfit: Unfit,
) -> Result<Event, PerformError> {
    match unfit {
        Unfit::Failed(failure) => failed(cx, hooks, failure).await,
        Unfit::Stopped(usage) => note_cut(cx, usage).await,
        Unfit::OutOfTime(usage) => note_out_of_time(cx, usage).await,
        Unfit::Exhausted => Ok(cx.scope.event(EventKind::BudgetExhausted {})),
    }
}

/// Ends a model call for which the model found the conversation too long, although it was estimated to fit.
/// If some of it can be left out, the call is tried again.
async fn too_long(
    cx: EffectContext<'_>,
    hooks: &Hooks<'_>,
    mut failure: Failure,
) -> Result<Event, PerformError> {
    let mut view = cx.view.clone();
    let fits = fit(cx.scope, &mut view, true).await?;
    let cx = EffectContext::new(cx.scope, &view);
    match fits {
        Ok(is_shorter) => {
            failure.error.retryable = is_shorter;
            failure.retry_after = is_shorter.then_some(Duration::ZERO);
            failed(cx, hooks, failure).await
        }
        Err(unfit) => no_call(cx, hooks, unfit).await,
    }
}

/// Why a model call gave no whole reply.
enum NoReply<'a> {
    Failed(Failure),
    /// The run was asked to stop meanwhile.
    Cut(Box<Cut<'a>>),
    /// The time that a budget allows is over; this was used.
    OutOfTime(Option<ReplyUsage>),
}

impl<E: Into<Failure>> From<E> for NoReply<'_> {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// A model call that failed.
struct Failure {
    error: ErrorRecord,
    /// How long the model asks to be left alone.
    retry_after: Option<Duration>,
    /// The tokens that the call used all the same.
    usage: Option<ReplyUsage>,
}

impl Failure {
    /// Whether the model found the conversation too long.
    fn is_too_long(&self) -> bool {
        self.error.code == ErrorCode::ProviderContextLength
    }
}

impl From<ErrorRecord> for Failure {
    fn from(error: ErrorRecord) -> Self {
        Self {
            error,
            retry_after: None,
            usage: None,
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self {
            error: error.to_record(),
            retry_after: error.retry_after,
            usage: None,
        }
    }
}

/// Asks the model, and streams what it says.
async fn ask<'a>(
    cx: EffectContext<'a>,
    hooks: &Hooks<'_>,
    history: &Transcript,
) -> Result<Result<Replied<'a>, NoReply<'a>>, PerformError> {
    let EffectContext { scope, view, .. } = cx;
    let (at, ports, agent) = (scope.at(), scope.ports, view.agent());
    let (attempt, forced) = match &scope.effect.kind {
        EffectKind::Model {
            attempt, forced, ..
        } => (*attempt, *forced),
        _ => (1, false),
    };
    let model = match resolve(agent, ports) {
        Ok(model) => model,
        Err(error) => return Ok(Err(error.into())),
    };
    if let Err(error) = check_priced(cx, model.as_ref()) {
        return Ok(Err(error.into()));
    }
    let state = hooks.state()?;
    let prompt = match prompt(history, agent, &state) {
        Ok(prompt) => prompt,
        Err(error) => return Ok(Err(error.into())),
    };
    fire!(
        hooks,
        before_llm_call,
        &format!("before_llm_call:{attempt}"),
        BeforeModelCall::new(&prompt, attempt)
    );
    // The hook may have changed the state that the prompt is made of.
    let state = hooks.state()?;
    let prompt = if hooks.is_empty() {
        prompt
    } else {
        match self::prompt(history, agent, &state) {
            Ok(prompt) => prompt,
            Err(error) => return Ok(Err(error.into())),
        }
    };

    let native = agent
        .output_schema()
        .filter(|_| forced && model.supports_native_output());
    let tool_choice = if native.is_some() {
        ToolChoice::None
    } else if forced {
        ToolChoice::Tool(FINISH_TOOL.to_owned())
    } else {
        ToolChoice::Auto
    };
    let request = ModelRequest {
        prompt,
        config: agent.model_config(),
        state: &state,
        agent_type: agent.name(),
        session_id: &at.session_id,
        clock: ports.clock.as_ref(),
        tools: agent.effective_tools(),
        tool_choice,
        native_output: native,
        attempt,
    };

    let began = scope.now();
    let mut deltas = Deltas::of_model(cx);
    let events = match caught_now(|| model.stream(request)) {
        Ok(events) => events,
        Err(panicked) => return Ok(Err(adapter_panicked(&panicked).into())),
    };
    let out_of_time = deadline(began, cx.time_left());
    let deadline = earlier(deadline(began, agent.model_config().timeout), out_of_time);
    let builder = ReplyBuilder::new(history).bounded(ports.bounds());
    let builder = builder.avoiding(view.taken_ids.iter().cloned(), &at.session_id);
    let stop = scope.stop_requested();
    let ended = stream(events, builder, &mut deltas, deadline, stop).await?;
    let duration = scope.now().since(began);
    let failure = match &ended {
        ReplyEnd::Failed(error, _) => Some(error.code()),
        ReplyEnd::Whole(_) | ReplyEnd::Stopped(..) => None,
    };
    if let Some(meter) = &ports.meter {
        meter.model_called(&ModelCall {
            agent: agent.name(),
            model: &view.context.model,
            duration,
            failure,
        });
    }
    let priced = |usage: TokenUsage| {
        let price = model.cost(&usage);
        ReplyUsage::new(view.context.model.clone(), usage).priced(price)
    };
    let reply = match ended {
        ReplyEnd::Whole(reply) => reply,
        ReplyEnd::Failed(error, usage) => {
            deltas.discard("the model call failed").await?;
            let usage = usage.map(priced);
            if out_of_time.is_some_and(|at| at <= scope.now()) {
                return Ok(Err(NoReply::OutOfTime(usage)));
            }
            let failure = Failure::from(error);
            return Ok(Err(NoReply::Failed(Failure { usage, ..failure })));
        }
        ReplyEnd::Stopped(partial, usage) => {
            let usage = usage.map(priced);
            let cut = Cut {
                partial,
                usage,
                deltas,
            };
            return Ok(Err(NoReply::Cut(Box::new(cut))));
        }
    };
    fire!(
        hooks,
        after_llm_call,
        "after_llm_call",
        AfterModelCall::new(&reply, duration)
    );
    tracing::debug!(
        event = "model.replied",
        session = %at.session_id,
        run = %at.run_id,
        step = at.step,
        stop_reason = ?reply.stop_reason,
    );
    Ok(Ok(Replied {
        usage: priced(reply.usage),
        reply,
        native: native.is_some(),
        deltas,
    }))
}

/// Notes that the call failed. What hooks wrote before it is kept: they are not called again for the
/// next attempt.
async fn failed(
    cx: EffectContext<'_>,
    hooks: &Hooks<'_>,
    failure: Failure,
) -> Result<Event, PerformError> {
    let cx = cx.renewed();
    let EffectContext { scope, view, now } = cx;
    let at = scope.at();
    let Failure {
        error,
        retry_after,
        usage,
    } = failure;
    // The next attempt has a reservation of its own: this one's is settled.
    let settlement = cx.settlement(CallUse::lost(usage.as_ref()));
    let usage = usage_change(cx, &at.run_id, usage)?;
    tracing::warn!(
        event = "model.failed",
        session = %at.session_id,
        run = %at.run_id,
        step = at.step,
        code = %error.code,
        detail = error.detail,
    );
    let failure = EventKind::failure(error, now, retry_after);
    let writes = hooks.writes()?;
    let mut told = Vec::new();
    if !writes.is_empty() {
        let patches = to_rfc6902(&writes, &view.state())?;
        told.extend(scope.ports.bounds().state_patches(patches));
    }
    told.extend(hooks.take_said());
    let commit = || {
        // It is noted in any case: another attempt that still goes on is not heard any more.
        let noted = Change::Effect(at.n, Some(Box::new(failure.clone())));
        cx.begin()
            .change(noted)
            .changes(usage.clone())
            .budget(settlement.clone())
            .budget(cx.reservation(at.step))
            .write_state(&writes)
            .tell(told.iter().cloned())
    };
    let committed = match scope.write(commit).await? {
        CommitOutcome::Made(committed) => committed,
        CommitOutcome::Before(event) => return Ok(event),
    };
    scope
        .ports
        .memory
        .update(&committed, |view| view.write(&writes));
    let what = EventKind::model_failed(failure);
    Ok(scope.event(what).with_stop(committed.stop.is_some()))
}

/// The model an agent uses.
fn resolve(agent: &AnyAgent, ports: &Ports) -> Result<Arc<dyn Model>, ErrorRecord> {
    let found = agent.model().find(agent.name(), ports.models.as_ref());
    found.map_err(|unknown| unknown.to_record())
}

fn prompt<'a>(
    history: &'a Transcript,
    agent: &'a AnyAgent,
    state: &serde_json::Value,
) -> Result<PromptMessages<'a>, ErrorRecord> {
    let made = caught_now(|| build_messages_for_llm(history, agent.system_prompt(), state));
    made.map_err(|panicked| {
        let detail = format!("the system prompt could not be made: {panicked}");
        ErrorRecord::new(ErrorCode::DefinitionInvalid, detail)
    })
}

/// Refuses a call whose price is limited and not known.
fn check_priced(cx: EffectContext<'_>, model: &dyn Model) -> Result<(), ErrorRecord> {
    let agent = cx.view.agent();
    let is_limited = cx.budget_left(BudgetUnit::MicroDollars).is_some();
    let checked = CallEstimate::new(agent, model).check_priced(agent, is_limited);
    checked.map_err(|unpriced| unpriced.to_record())
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn deadline(began: Timestamp, timeout: Option<Duration>) -> Option<Timestamp> {
    Some(began.saturating_add(timeout?))
}
