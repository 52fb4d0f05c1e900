//! Judges a reply, and makes it durable.

use std::sync::Arc;

use super::PerformError;
use super::budget::CallUse;
use super::deltas::Deltas;
use super::guard::caught_now;
use super::hooks::Hooks;
use super::opening::Opening;
use super::patches::Streamed;
use super::scope::EffectContext;
use super::settle::{Settling, settle};
use crate::agent::AnyAgent;
use crate::bounds::Bounds;
use crate::entries::tool_end_chunk;
use crate::error::{ErrorCode, ErrorRecord};
use crate::id::IdSourceExt;
use crate::machine::{Effect, EffectKind, Event};
use crate::message::{AssistantMessage, AssistantPart};
use crate::model::{ModelReply, TokenUsage};
use crate::session::{CallPhase, CallState, OpenCall, OpenStep, ReplyUsage};
use crate::step::{
    Correction, FINISH_TOOL, NextAction, PlanOptions, StepProcessingPlan, StepResult, StopConfig,
    next_action, plan_step_processing, synthesize_not_executed_result,
};
use crate::stream::Chunk;
use crate::transcript::Transcript;

/// A whole reply, how it was asked for, and its deltas.
pub(super) struct Replied<'a> {
    pub(super) reply: ModelReply,
    /// What it used.
    pub(super) usage: ReplyUsage,
    /// Whether the text of the reply is to be the output.
    pub(super) native: bool,
    pub(super) deltas: Deltas<'a>,
}

/// The limits of the loop after this reply.
#[derive(Debug, Clone, Copy)]
struct Limits {
    step: u32,
    last_step: bool,
    forced: bool,
    corrections_left: u32,
}

impl Limits {
    fn of(effect: &Effect) -> Self {
        let step = effect.at.step;
        match &effect.kind {
            EffectKind::Model {
                last_step,
                forced,
                corrections_left,
                ..
            } => Self {
                step,
                last_step: *last_step,
                forced: *forced,
                corrections_left: *corrections_left,
            },
            _ => Self {
                step,
                last_step: false,
                forced: false,
                corrections_left: 0,
            },
        }
    }
}

/// Returns the size of the conversation with a reply, as its provider counted it. Reasoning that is no part of the
/// reply is not sent again.
fn tokens_with(reply: &AssistantMessage, tokens: TokenUsage) -> u64 {
    let mut parts = reply.parts.iter();
    let is_kept = parts.any(|part| matches!(part, AssistantPart::Thinking(_)));
    let lost = tokens.reasoning.filter(|_| !is_kept).unwrap_or_default();
    tokens.total().saturating_sub(lost)
}

/// Makes a reply durable: with its calls as the open step, or, where nothing is left to do, in the
/// history.
pub(super) async fn take(
    cx: EffectContext<'_>,
    hooks: &Hooks<'_>,
    history: &Transcript,
    replied: Replied<'_>,
) -> Result<Event, PerformError> {
    let cx = cx.renewed();
    let EffectContext { scope, view, now } = cx;
    let (at, ports) = (scope.at(), scope.ports);
    let Replied {
        reply,
        usage,
        native,
        mut deltas,
    } = replied;
    let mut call_use = CallUse::kept(Some(&usage));
    let tokens = usage.tokens;
    let result = step_result(reply, native);
    let limits = Limits::of(scope.effect);
    let (plan, after) = judge(view.agent(), &result, limits, ports.bounds());
    let chunk = |payload| Chunk::new(Arc::clone(scope.base), now, payload);
    // What readers are told with the commit.
    let mut chunks = deltas.take().await?;

    let message = plan.assistant_message;
    let mut message = message.ok_or_else(|| scope.missing("a message in its reply"))?;
    if tokens.total() > 0 && view.agent().context().kept_turns().is_some() {
        message.set_context_tokens(tokens_with(&message, tokens));
    }
    let mut settled = plan.settled_results.into_iter();
    let mut open = OpenStep::new(
        ports.ids.step_id()?,
        at.run_id.clone(),
        at.step,
        message,
        |_| OpenCall::new(CallPhase::default(), CallState::Ready),
    );
    open.after = after;
    open.usage = Some(usage);
    for call in &mut open.calls {
        if let Some(result) = settled.next() {
            if result.tool_name != FINISH_TOOL {
                chunks.push(chunk(tool_end_chunk(&result)));
            }
            call.settle(result);
        }
    }
    if !open.is_settled() {
        let opening = Opening {
            open: Arc::new(open),
            deltas,
            chunks,
            call_use,
            history,
        };
        let settled = match opening.write(cx, hooks).await? {
            Ok(event) => return Ok(event),
            Err(settled) => settled,
        };
        open = Arc::unwrap_or_clone(settled.open);
        (chunks, call_use) = (settled.chunks, settled.call_use);
    }
    let settlement = cx.settlement(call_use);
    let begun = || {
        let commit = cx.begin().unless_moved(None).chunks(&chunks);
        commit.budget(settlement.clone())
    };
    let settling = Settling {
        writes: hooks.writes()?,
        output: plan.output,
        // Nothing but this commit speaks of the state.
        streamed: Streamed {
            after: None,
            unsent: &chunks,
        },
        ..Settling::new(open, begun)
    };
    // Boxed: a reply without calls ends a turn, and every other one would carry the room for it.
    Box::pin(settle(cx, settling)).await
}

/// The result of a step that a reply amounts to.
fn step_result(reply: ModelReply, native: bool) -> StepResult {
    let parsed = native
        .then(|| reply.message.content())
        .flatten()
        .and_then(|text| serde_json::from_str(&text).ok());
    match parsed {
        Some(output) => StepResult::structured_output(output),
        None => StepResult::from_reply(reply),
    }
}

/// Judges a reply by the rules: the plan of its step, and what comes after.
fn judge(
    agent: &AnyAgent,
    result: &StepResult,
    limits: Limits,
    bounds: Bounds,
) -> (StepProcessingPlan, NextAction) {
    let options = PlanOptions::new(agent.output_schema()).bounded(bounds);
    let mut plan = plan_step_processing(result, options);
    if limits.forced && !(plan.is_terminal || plan.correction.is_some()) {
        only_output(&mut plan);
    }
    let limit = limits.last_step.then_some(limits.step);
    let mut config = StopConfig::default().max_steps(limit);
    if !limits.forced {
        config.stop_when.clone_from(&agent.stop_config().stop_when);
    }
    let after = caught_now(|| next_action(&plan, result, limits.step, &config));
    let after = after.unwrap_or_else(|panicked| {
        tracing::warn!(event = "stop_when.failed", agent = agent.name(), %panicked);
        config.stop_when = None;
        next_action(&plan, result, limits.step, &config)
    });
    let after = match after {
        NextAction::Correct(correction) if limits.corrections_left == 0 => {
            let detail = format!(
                "the model gave no valid output in the attempts that the agent allows: {correction:?}"
            );
            NextAction::Fail(ErrorRecord::new(ErrorCode::OutputInvalid, detail))
        }
        other => other,
    };
    (plan, after)
}

/// Where only the final output is accepted, no other call is run.
fn only_output(plan: &mut StepProcessingPlan) {
    plan.pending_tool_calls.clear();
    plan.pending_sub_agent_calls.clear();
    let why = "only the final output is accepted now.";
    if let Some(message) = &plan.assistant_message {
        let results = message
            .tool_calls()
            .map(|call| synthesize_not_executed_result(&call.id, &call.name, why));
        plan.settled_results = results.collect();
    }
    plan.correction = Some(Correction::TextInsteadOfOutput);
}
