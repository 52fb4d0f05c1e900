//! What a reply means, and the commit that makes it durable.

use std::sync::Arc;

use super::applied::write_state;
use super::deltas::Deltas;
use super::guard::caught_now;
use super::hooks::Hooks;
use super::intents::intents;
use super::model::step_result;
use super::patience::patiently;
use super::settle::{Settling, settle};
use super::work::{self, Work};
use super::writing::{Written, as_read, begin, then, write};
use super::{PerformError, Ports};
use crate::agent::AnyAgent;
use crate::bounds::Bounds;
use crate::entries::ended;
use crate::error::{ErrorCode, ErrorRecord};
use crate::id::IdSourceExt;
use crate::machine::{Effect, EffectKind, Event, Happened, OpenRef};
use crate::model::ModelReply;
use crate::session::{OpenCall, OpenStep, ReplyUsage};
use crate::state::to_rfc6902;
use crate::step::{
    Correction, FINISH_TOOL, NextAction, PlanOptions, StepProcessingPlan, StepResult, StopConfig,
    next_action, plan_step_processing, synthesize_not_executed_result,
};
use crate::store::Change;
use crate::stream::{Chunk, Sequence};

/// How the model was asked.
pub(super) struct Asked {
    pub(super) model: String,
    pub(super) native: bool,
}

/// What the loop allows after this reply.
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

/// Makes a reply durable: with its calls as the open step, or, where nothing is left to do, in the
/// history.
pub(super) async fn take(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    hooks: &Hooks<'_>,
    reply: ModelReply,
    asked: &Asked,
    mut deltas: Deltas<'_>,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let agent = work.agent();
    let usage = reply.usage;
    let result = step_result(reply, asked.native);
    let (plan, after) = judge(agent, &result, Limits::of(effect), ports.bounds());
    let now = ports.clock.now();
    let base = Arc::clone(deltas.base());
    let tell = |payload| Chunk::new(Arc::clone(&base), now, payload);
    // What readers are told with the commit.
    let mut chunks = deltas.take().await?;

    let message = plan
        .assistant_message
        .ok_or_else(|| PerformError::Missing {
            session: at.session_id.clone(),
            what: "a message in its reply",
        })?;
    let mut settled = plan.settled_results.into_iter();
    let mut open = OpenStep::new(
        ports.ids.step_id()?,
        at.run_id.clone(),
        at.step,
        message,
        |_| OpenCall::new(Default::default(), crate::session::CallState::Ready),
    );
    open.after = after;
    open.usage = Some(ReplyUsage::new(&asked.model, usage));
    for call in &mut open.calls {
        if let Some(result) = settled.next() {
            if result.tool_name != FINISH_TOOL {
                chunks.push(tell(ended(&result)));
            }
            call.settle(result);
        }
    }
    let mut pending = Vec::new();
    if !open.is_settled() {
        let intents = intents(effect, ports, work, hooks, &open, now).await?;
        open.calls = intents.calls;
        pending = intents.changes;
        chunks.extend(intents.said.into_iter().map(tell));
    }
    let writes = hooks.writes()?;
    let begun = |chunks: &[Chunk]| {
        let mut commit = as_read(begin(effect, work, now), at, None);
        commit.chunks.extend_from_slice(chunks);
        commit
    };
    if open.is_settled() {
        let settling = Settling {
            open,
            writes,
            output: plan.output,
            begun: || begun(&chunks),
            unsent: &chunks,
            base: &base,
            // Nothing but this commit speaks of the state.
            after: None,
            greet: false,
            ending: None,
            heeds_stop: true,
            plain: false,
        };
        return settle(effect, ports, work, settling).await;
    }

    // Everything up to here was there before the reply: calls stream after its commit.
    let before = match deltas.before().or(work.sequence) {
        Some(before) => before,
        None => patiently(ports, || ports.streams.info(&at.root_session_id))
            .await?
            .map_or(Sequence::START, |info| info.last),
    };
    open.start_sequence = before;
    chunks.extend(hooks.take_said().into_iter().map(tell));
    if !writes.is_empty() {
        // Readers learn of it before any call of the step begins.
        let patches = to_rfc6902(&writes, &work.state())?;
        let told = ports.bounds().state_patches(patches).map(tell);
        chunks.splice(0..0, told);
    }
    let open = Arc::new(open);
    let commit = || {
        let commit = write_state(begun(&chunks), at, &writes);
        let mut commit = then(commit, at, [Change::OpenStep(Some(Arc::clone(&open)))]);
        commit.changes.extend_from_slice(&pending);
        commit
    };
    let committed = match write(effect, ports, commit).await? {
        Written::Now(committed) => committed,
        Written::Before(event) => return Ok(event),
    };
    let reference = OpenRef::of(&open);
    work.let_go();
    work::update(ports, &committed, |work| {
        work.write(&writes);
        work.open = Some(open);
    });
    let replied = Happened::Replied { open: reference };
    Ok(Event::of(at, replied).with_stop(committed.stop.is_some()))
}

/// What a reply means by the rules: the plan of its step, and what comes after.
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
