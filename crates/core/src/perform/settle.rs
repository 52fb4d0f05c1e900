//! Moves a step into the history.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::applied::Applied;
use super::end::{self, Ending};
use super::hooks::{Hooks, fire};
use super::work::{self, Look, Work, Written, begin, look, look_again, read, say, then, write};
use super::{PerformError, Ports};
use crate::entries::{ended, take_answers};
use crate::hooks::{AfterTool, AgentComplete, AgentFail, MessageAdded};
use crate::id::IdSourceExt;
use crate::machine::{At, Effect, Event, Happened, Settled};
use crate::message::{Message, ToolMessage};
use crate::session::{CallPhase, CallState, OpenCall, OpenStep, ReplyUsage, RunRecord};
use crate::state::StepWrites;
use crate::step::{NextAction, StopCause, correction_message, synthesize_not_executed_result};
use crate::store::{CallStanding, Change, Commit, Field, Precondition};
use crate::stream::{ChunkBase, ChunkPayload, Sequence};
use crate::time::Timestamp;
use crate::usage::{UsageEntry, UsageKind};

/// How often a step is put together anew because the session changed beside the run.
const MAX_TRIES: usize = 5;

/// A step whose calls all have results, and the commit so far.
pub(super) struct Settling {
    pub(super) open: OpenStep,
    /// What the effect wrote to the state, beside the calls.
    pub(super) writes: StepWrites,
    /// The output that the reply itself gave.
    pub(super) output: Option<Value>,
    pub(super) commit: Commit,
    pub(super) base: Arc<ChunkBase>,
    /// From where on calls may have streamed patches.
    pub(super) after: Option<Sequence>,
    /// Whether the hooks are to be told first that the run goes on.
    pub(super) greet: bool,
    /// How the run ends with this step, whatever the rules say.
    pub(super) ending: Option<Ending>,
}

/// What comes after the step.
enum Then {
    Next,
    Ask(crate::message::UserMessage),
    End(Ending),
}

pub(super) async fn perform(effect: &Effect, ports: &Ports) -> Result<Event, PerformError> {
    let at = &effect.at;
    let mut found = look(effect, ports).await?;
    for _ in 0..MAX_TRIES {
        let work = match found {
            Look::Work(work) => *work,
            Look::Done(event) => return Ok(event),
        };
        let open = work.open_step(at)?;
        let (open, commit) = with_answers(at, ports, open).await?;
        let is_fatal = open.calls.iter().any(|call| call.fatal.is_some());
        if !open.is_settled() && !is_fatal {
            return Err(PerformError::Missing {
                session: at.session_id.clone(),
                what: "a result for every call of its open step",
            });
        }
        let settling = Settling {
            after: Some(open.start_sequence),
            open,
            writes: StepWrites::default(),
            output: None,
            commit,
            base: work::base(at),
            greet: effect.first,
            ending: None,
        };
        match settle(effect, ports, &work, settling).await {
            Err(error) if error.is_moved() => found = look_again(effect, ports).await?,
            other => return other,
        }
    }
    Err(PerformError::Missing {
        session: at.session_id.clone(),
        what: "a history that stays the same for the length of a commit",
    })
}

/// The open step with the answers that came and nobody took: a run that ends does not lose them.
pub(super) async fn with_answers(
    at: &At,
    ports: &Ports,
    open: &OpenStep,
) -> Result<(OpenStep, Commit), PerformError> {
    let now = ports.clock.now();
    let commit = begin(at, now);
    if !open.calls.iter().any(waits) {
        return Ok((open.clone(), commit));
    }
    let snapshot = read(at, ports).await?;
    let taken = take_answers(&snapshot.state, open, &at.run_id, now);
    let commit = taken.write(commit, &at.session_id, &work::base(at), now);
    Ok((taken.step, commit))
}

/// Whether somebody outside is to answer the call.
fn waits(call: &OpenCall) -> bool {
    matches!(
        call.state,
        CallState::AwaitingClient | CallState::AwaitingApproval
    )
}

/// Settles a step: hooks in the model's order, then one commit with everything.
pub(super) async fn settle(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    settling: Settling,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let Settling {
        mut open,
        writes,
        output,
        mut commit,
        base,
        after,
        greet,
        ending,
    } = settling;
    let now = ports.clock.now();
    for result in pair_the_rest(&mut open, &mut commit, at) {
        commit = say(commit, &base, now, [ended(&result)]);
    }
    let then_ = ending.map_or_else(|| conclude(&open, output), Then::End);

    let mut applied = Applied::new(&work.state, writes, &open)?;
    let hooks = Hooks::over(at, work, ports, &applied.state);
    if greet {
        super::model::greet_again(&hooks, work).await?;
    }
    tell_hooks(&hooks, &open, &then_, work, ports).await?;
    applied.add(&hooks)?;
    commit = applied.write(commit, at, ports, after).await?;
    commit = say(commit, &base, now, hooks.take_said());

    commit = then(commit, at, reply_usage(&open, at, now, ports)?);
    let step_id = open.id.clone();
    let had_row = work.open.is_some();
    let paired = open.into_paired()?;
    let mut message_count = work.message_count + paired.message_count();
    commit = commit.when_in(
        at.session_id.clone(),
        Precondition::MessageCount(work.message_count),
    );
    commit = then(commit, at, [Change::AppendStep(paired.clone())]);
    if had_row {
        commit = then(commit, at, [Change::OpenStep(None)]);
    }
    let mut run = RunRecord::clone(&work.run);
    run.step_count = at.step;
    let mut correction = None;
    let ending = match then_ {
        Then::Next => None,
        Then::Ask(message) => {
            run.corrections += 1;
            message_count += 1;
            commit = then(commit, at, [Change::AppendUser(message.clone())]);
            correction = Some(message);
            None
        }
        Then::End(ending) => Some(ending),
    };
    commit = then(commit, at, [Change::Set(Field::StepCount(at.step))]);
    // The checkpoint is written last, so that it knows how the run ended.
    let (checkpoint, created) = work::checkpoint(at, ports, now)?;
    let in_history = ChunkPayload::StepCommitted { message_count };
    commit = say(commit, &base, now, [in_history, created]);
    let ended = ending.as_ref().map(Ending::status);
    commit = match &ending {
        Some(ending) => end::write_end(commit, at, &mut run, ending, &base, now),
        None => then(commit, at, [Change::Run(Box::new(run.clone()))]),
    };
    commit = then(commit, at, [Change::CheckpointHere(checkpoint)]);

    let corrections_made = run.corrections;
    let committed = match write(effect, ports, commit).await? {
        Written::Now(committed) => committed,
        Written::Before(event) => return Ok(event),
    };
    if ended.is_some() {
        work::forget(ports);
    } else {
        work::update(ports, &committed, |work| {
            work.settle(paired, &applied.writes);
            work.run = Arc::new(run);
            if let Some(message) = correction {
                work.message_count += 1;
                if let Some(history) = &mut work.transcript {
                    history.push_user(message);
                }
            }
        });
    }
    tracing::debug!(event = "step.committed", session = %at.session_id, run = %at.run_id, step = at.step, %step_id);
    let settled = Settled::new(at.step, corrections_made, ended);
    let stop = committed.stop.is_some() && ended.is_none();
    Ok(Event::of(at, Happened::Settled(settled)).with_stop(stop))
}

/// The entry of what the reply cost.
pub(super) fn reply_usage(
    open: &OpenStep,
    at: &At,
    now: Timestamp,
    ports: &Ports,
) -> Result<Option<Change>, PerformError> {
    let Some(ReplyUsage { model, tokens }) = open.usage.clone() else {
        return Ok(None);
    };
    let id = ports.ids.usage_id()?;
    let kind = UsageKind::Tokens { model, tokens };
    let entry = UsageEntry::new(id, open.run_id.clone(), at.step, now, kind);
    Ok(Some(Change::Usage(entry)))
}

/// Gives every call without a result one: a run that ends does not wait for them.
fn pair_the_rest(open: &mut OpenStep, commit: &mut Commit, at: &At) -> Vec<ToolMessage> {
    let mut made_up = Vec::new();
    let calls: Vec<_> = open.message.tool_calls().cloned().collect();
    for (call, open) in calls.iter().zip(&mut open.calls) {
        if open.result.is_some() {
            continue;
        }
        if waits(open) {
            // An answer that comes before this commit is not thrown away with it.
            let still_open = Precondition::Call(call.id.clone(), CallStanding::Open);
            commit
                .preconditions
                .push((at.session_id.clone(), still_open));
            let owner = Field::CallOwner(call.id.clone(), None);
            commit.changes.extend([
                (
                    at.session_id.clone(),
                    Change::RemovePending(call.id.clone()),
                ),
                (at.root_session_id.clone(), Change::Set(owner)),
            ]);
        }
        let why = "the run ended before it.";
        let result = synthesize_not_executed_result(&call.id, &call.name, why);
        made_up.push(result.clone());
        open.settle(result);
    }
    made_up
}

/// What the rules say comes after the step.
fn conclude(open: &OpenStep, output: Option<Value>) -> Then {
    if let Some(error) = open.calls.iter().find_map(|call| call.fatal.clone()) {
        return Then::End(Ending::Failed { error });
    }
    if let Some(result) = finishing_result(open) {
        return Then::End(Ending::Completed {
            cause: StopCause::StructuredOutput,
            output: Some(result.value()),
        });
    }
    match &open.after {
        NextAction::Continue => Then::Next,
        NextAction::Correct(correction) => Then::Ask(correction_message(correction)),
        NextAction::Fail(error) => Then::End(Ending::Failed {
            error: error.clone(),
        }),
        NextAction::Complete => Then::End(Ending::Completed {
            cause: if output.is_some() {
                StopCause::StructuredOutput
            } else if open.calls.is_empty() {
                StopCause::Text
            } else {
                StopCause::StopWhen
            },
            output,
        }),
    }
}

/// The result that ends the turn.
pub(super) fn finishing_result(open: &OpenStep) -> Option<&ToolMessage> {
    let finishing = open
        .calls
        .iter()
        .filter(|call| call.phase == CallPhase::Finish);
    let mut results = finishing.filter_map(|call| call.result.as_ref());
    results.find(|result| result.status.is_success())
}

/// `onMessage` and `afterTool` in the model's order, then what the end of a run calls for.
async fn tell_hooks(
    hooks: &Hooks<'_>,
    open: &OpenStep,
    then: &Then,
    work: &Work,
    ports: &Ports,
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
        let duration = Duration::from_millis(open.duration_ms);
        fire!(
            hooks,
            after_tool,
            &named("after_tool"),
            AfterTool::new(call, result, duration)
        );
    }
    match then {
        Then::Next | Then::Ask(_) | Then::End(Ending::Interrupted { .. }) => Ok(()),
        Then::End(Ending::Completed { output, .. }) => {
            let state = hooks.state()?;
            let duration = ports.clock.now().since(work.run.started_at);
            fire!(
                hooks,
                on_agent_complete,
                "on_agent_complete",
                AgentComplete::new(output.as_ref(), &state, open.step, duration)
            );
            Ok(())
        }
        Then::End(Ending::Failed { error }) => {
            let state = hooks.state()?;
            fire!(
                hooks,
                on_agent_fail,
                "on_agent_fail",
                AgentFail::new(error, &state, open.step)
            );
            Ok(())
        }
    }
}
