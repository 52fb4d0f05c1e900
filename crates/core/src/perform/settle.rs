//! Moves a step into the history.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::PerformError;
use super::after_step::AfterStep;
use super::applied::Applied;
use super::closing::{Closing, close};
use super::commit::{CommitOutcome, EffectCommit};
use super::ending::Ending;
use super::hooks::{Hooks, fire};
use super::patches::Streamed;
use super::reading::Reading;
use super::scope::{EffectContext, Scope};
use crate::entries::BegunCalls;
use crate::hooks::{AfterSubAgent, AfterTool, AgentComplete, AgentFail, MessageAdded};
use crate::id::{IdSourceExt, RunId};
use crate::machine::{Event, EventKind, TurnProgress};
use crate::message::Message;
use crate::session::{Checkpoint, OpenStep, ReplyUsage, RunRecord};
use crate::state::StepWrites;
use crate::step::{SubAgentCall, sub_agent_type};
use crate::store::{Change, Field};
use crate::stream::ChunkPayload;
use crate::transcript::PairedStep;
use crate::usage::{UsageEntry, UsageKind};

/// How often a step is put together anew because the session changed beside the run.
const MAX_TRIES: usize = 5;

/// A step whose calls all have results, and how it is settled.
pub(super) struct Settling<'a, F> {
    pub(super) open: OpenStep,
    /// Puts together what the commit begins with.
    pub(super) begun: F,
    /// The writes of the effect to the state, beside those of the calls.
    pub(super) writes: StepWrites,
    /// The output that the reply itself gave.
    pub(super) output: Option<Value>,
    /// Where the patches of the step are. The commit begins with those that were not sent.
    pub(super) streamed: Streamed<'a>,
    /// Whether the hooks are told first that the run was resumed.
    pub(super) resumed: bool,
    /// As what the run ends with this step, whatever the rules say.
    pub(super) ending: Option<Ending>,
    /// Whether the run does not end like this when it is asked to stop.
    pub(super) heeds_stop: bool,
    /// Whether hooks and state are left alone, because the run could not be ended with them.
    pub(super) plain: bool,
}

impl<F> Settling<'_, F> {
    /// Settles a step by the rules, after calls that may have streamed patches.
    pub(super) fn new(open: OpenStep, begun: F) -> Self {
        Self {
            streamed: Streamed::since(open.start_sequence, &[]),
            open,
            begun,
            writes: StepWrites::default(),
            output: None,
            resumed: false,
            ending: None,
            heeds_stop: true,
            plain: false,
        }
    }
}

pub(super) async fn perform(scope: Scope<'_>) -> Result<Event, PerformError> {
    let mut reading = scope.reading().await?;
    for _ in 0..MAX_TRIES {
        let view = match reading {
            Reading::View(view) => view,
            Reading::Recorded(event) => return Ok(event),
        };
        let cx = EffectContext::new(scope, &view);
        let open = view.open_step(scope)?;
        let is_fatal = open.calls.iter().any(|call| call.fatal.is_some());
        let begun = || cx.begin().unless_moved(Some(open));
        let (open, closed) = if open.is_settled() {
            (OpenStep::clone(open), None)
        } else if is_fatal {
            // The run ends: what came meanwhile is kept, and nothing is waited for.
            let closing = Closing {
                begun: BegunCalls::Recorded,
                why: "the run ended before it.",
            };
            let (open, closed) = close(scope, open, begun(), closing).await?;
            (open, Some(closed))
        } else {
            return Err(scope.missing("a result for every call of its open step"));
        };
        let begun = || closed.clone().unwrap_or_else(begun);
        let settling = Settling {
            resumed: scope.effect.first,
            ..Settling::new(open, begun)
        };
        match settle(cx, settling).await {
            Err(error) if error.is_moved() => reading = scope.fresh_reading().await?,
            other => return other,
        }
    }
    Err(scope.moving())
}

/// Settles a step: hooks in the model's order, then one commit with everything.
pub(super) async fn settle<'a, F: Fn() -> EffectCommit<'a>>(
    cx: EffectContext<'a>,
    settling: Settling<'_, F>,
) -> Result<Event, PerformError> {
    let EffectContext { scope, view, .. } = cx;
    let (at, memory) = (scope.at(), &scope.ports.memory);
    let Settling {
        open,
        begun,
        writes,
        output,
        streamed,
        resumed,
        ending,
        heeds_stop,
        plain,
    } = settling;
    let is_natural = ending.is_none();
    let mut after = ending.map_or_else(|| AfterStep::of(&open, output), AfterStep::End);
    if is_natural && view.stop {
        after.heed_stop();
    }

    let (mut told, mut wrote_state) = (Vec::new(), StepWrites::default());
    let is_quiet = Hooks::is_none(cx) && Applied::is_nothing(&writes, &open);
    if !plain && !is_quiet {
        let mut applied = Applied::new(&view.state(), writes, &open)?;
        let hooks = applied.hooks(cx)?;
        if resumed {
            hooks.fire_resumed().await;
        }
        fire_step_hooks(cx, &hooks, &open, &after).await?;
        applied.add(&hooks)?;
        told = applied.told(scope, streamed).await?;
        told.extend(hooks.take_said());
        drop(hooks);
        wrote_state = applied.into_writes();
    }

    let usage = reply_usage(cx, &open)?;
    let step_id = open.id.clone();
    let step = StepCommit {
        cx,
        begun,
        heeds_stop,
        told,
        writes: wrote_state,
        usage,
        paired: open.into_paired()?,
        checkpoint: cx.checkpoint()?,
    };
    let (mut run, mut wrote) = step.write(&after).await;
    // Whoever asked the run to stop before it ends by itself is heard.
    if is_natural
        && after.is_end()
        && let Err(error) = &wrote
        && error.is_stopped()
    {
        after.heed_stop();
        (run, wrote) = step.write(&after).await;
    }
    let committed = match wrote? {
        CommitOutcome::Made(committed) => committed,
        CommitOutcome::Before(event) => return Ok(event),
    };
    let corrections_made = run.corrections;
    let ended = after.ended();
    if let AfterStep::End(ending) = &after {
        ending.log(at);
        memory.forget();
    } else {
        view.let_go();
        let StepCommit { paired, writes, .. } = step;
        memory.update(&committed, |view| {
            view.settle(paired, &writes);
            view.run = run;
            if let AfterStep::Correct(message) = after {
                view.add_user(message);
            }
        });
    }
    tracing::debug!(event = "step.committed", session = %at.session_id, run = %at.run_id, step = at.step, %step_id);
    let settled = TurnProgress::new(at.step, corrections_made, ended);
    let stop = committed.stop.is_some() && ended.is_none();
    let event = scope.event(EventKind::Settled(settled));
    Ok(event
        .with_stop(stop)
        .with_messages(!committed.inbox.is_empty()))
}

/// The commit of a step that is put together, but for what follows the step.
struct StepCommit<'a, F> {
    cx: EffectContext<'a>,
    begun: F,
    heeds_stop: bool,
    told: Vec<ChunkPayload>,
    writes: StepWrites,
    usage: Option<Change>,
    paired: PairedStep,
    checkpoint: (Checkpoint, ChunkPayload),
}

impl<'a, F: Fn() -> EffectCommit<'a>> StepCommit<'a, F> {
    /// Makes the commit of the step, with what follows it.
    async fn write(
        &self,
        after: &AfterStep,
    ) -> (Arc<RunRecord>, Result<CommitOutcome, PerformError>) {
        let run = Arc::new(self.run(after));
        let wrote = self.cx.scope.write(|| self.commit(after, &run)).await;
        (run, wrote)
    }

    /// The run as it is after the step.
    fn run(&self, after: &AfterStep) -> RunRecord {
        let mut run = RunRecord::clone(&self.cx.view.run);
        run.step_count = self.cx.at().step;
        match after {
            AfterStep::Continue => {}
            AfterStep::Correct(_) => run.corrections += 1,
            AfterStep::End(ending) => ending.note(&mut run, self.cx.now),
        }
        run
    }

    fn commit(&self, after: &AfterStep, run: &RunRecord) -> EffectCommit<'a> {
        let mut commit = (self.begun)()
            .tell(self.told.iter().cloned())
            .write_state(&self.writes)
            .changes(self.usage.clone())
            .change(Change::AppendStep(self.paired.clone()));
        if self.cx.view.open.is_some() {
            commit = commit.change(Change::OpenStep(None));
        }
        if let AfterStep::Correct(message) = after {
            commit = commit.change(Change::AppendUser(message.clone()));
        }
        // The store fills in how many messages there are.
        let in_history = ChunkPayload::StepCommitted { message_count: 0 };
        let (checkpoint, created) = &self.checkpoint;
        commit = commit
            .set([Field::StepCount(self.cx.at().step)])
            .tell([in_history, created.clone()]);
        commit = match after {
            AfterStep::End(ending) => {
                if self.heeds_stop {
                    commit = commit.unless_stopped();
                }
                ending.write(commit, run)
            }
            AfterStep::Continue | AfterStep::Correct(_) => commit
                .change(Change::Run(Box::new(run.clone())))
                .budget(self.cx.reservation(self.cx.at().step.saturating_add(1))),
        };
        // The checkpoint is written last, so that it knows how the run ended.
        commit.change(Change::CheckpointHere(checkpoint.clone()))
    }
}

/// The entry of what the reply of a step cost.
pub(super) fn reply_usage(
    cx: EffectContext<'_>,
    open: &OpenStep,
) -> Result<Option<Change>, PerformError> {
    usage_change(cx, &open.run_id, open.usage.clone())
}

/// The entry of what a model call of a run cost.
pub(super) fn usage_change(
    cx: EffectContext<'_>,
    run: &RunId,
    usage: Option<ReplyUsage>,
) -> Result<Option<Change>, PerformError> {
    let Some(usage) = usage else {
        return Ok(None);
    };
    let id = cx.ports().ids.usage_id()?;
    let kind = UsageKind::Tokens {
        model: usage.model,
        tokens: usage.tokens,
        micro_dollars: usage.micro_dollars,
    };
    let entry = UsageEntry {
        id,
        run_id: run.clone(),
        step: cx.at().step,
        timestamp: cx.now,
        kind,
    };
    Ok(Some(Change::Usage(entry)))
}

/// Fires `on_message` and `after_tool` in the model's order, then what the end of a run calls for.
async fn fire_step_hooks(
    cx: EffectContext<'_>,
    hooks: &Hooks<'_>,
    open: &OpenStep,
    after: &AfterStep,
) -> Result<(), PerformError> {
    if hooks.is_empty() {
        return Ok(());
    }
    let message = Message::Assistant(open.message.clone());
    fire!(hooks, on_message, "on_message", MessageAdded::new(&message));
    for (call, open) in open.calls() {
        let Some(result) = &open.result else { continue };
        let message = Message::Tool(result.clone());
        let named = |hook: &str| format!("{hook}:{}", call.id);
        fire!(
            hooks,
            on_message,
            &named("on_message"),
            MessageAdded::new(&message)
        );
        if let Some(agent) = sub_agent_type(&call.name) {
            let asked = SubAgentCall::new(call.id.clone(), agent, call.arguments.clone());
            fire!(
                hooks,
                after_sub_agent,
                &named("after_sub_agent"),
                AfterSubAgent::new(&asked, result)
            );
            continue;
        }
        let duration = Duration::from_millis(open.duration_ms);
        fire!(
            hooks,
            after_tool,
            &named("after_tool"),
            AfterTool::new(call, result, duration)
        );
    }
    match after {
        AfterStep::Continue
        | AfterStep::Correct(_)
        | AfterStep::End(Ending::Interrupted { .. } | Ending::BudgetExhausted) => {}
        AfterStep::End(Ending::Completed { output, .. }) => {
            let state = hooks.state()?;
            let duration = cx.scope.now().since(cx.view.run.started_at);
            fire!(
                hooks,
                on_agent_complete,
                "on_agent_complete",
                AgentComplete::new(output.as_ref(), &state, open.step, duration)
            );
        }
        AfterStep::End(Ending::Failed { error }) => {
            let state = hooks.state()?;
            fire!(
                hooks,
                on_agent_fail,
                "on_agent_fail",
                AgentFail::new(error, &state, open.step)
            );
        }
    }
    Ok(())
}
