//! Moves a step into the history.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::applied::{Applied, write_state};
use super::end::{self, Ending};
use super::hooks::{Hooks, fire};
use super::work::{self, Look, Work, look, look_again, read};
use super::writing::{self, Written, as_read, begin, say, then, write};
use super::{PerformError, Ports};
use crate::entries::{Begun, close_calls, take_answers};
use crate::hooks::{AfterTool, AgentComplete, AgentFail, MessageAdded};
use crate::id::IdSourceExt;
use crate::machine::{At, Effect, Event, Happened, Settled};
use crate::message::{Message, ToolMessage};
use crate::session::{CallPhase, Checkpoint, OpenStep, ReplyUsage, RunRecord, RunStatus};
use crate::state::StepWrites;
use crate::step::{NextAction, StopCause, correction_message};
use crate::store::{Change, Commit, Field, Precondition};
use crate::stream::{Chunk, ChunkBase, ChunkPayload, Sequence};
use crate::time::Timestamp;
use crate::transcript::PairedStep;
use crate::usage::{UsageEntry, UsageKind};

/// How often a step is put together anew because the session changed beside the run.
const MAX_TRIES: usize = 5;

/// A step whose calls all have results, and the commit so far.
pub(super) struct Settling<'a, F> {
    pub(super) open: OpenStep,
    /// What the effect wrote to the state, beside the calls.
    pub(super) writes: StepWrites,
    /// The output that the reply itself gave.
    pub(super) output: Option<Value>,
    /// Puts together what the commit begins with.
    pub(super) begun: F,
    /// What the effect streamed that goes with the commit, and is in what it begins with.
    pub(super) unsent: &'a [Chunk],
    pub(super) base: &'a Arc<ChunkBase>,
    /// From where on calls may have streamed patches.
    pub(super) after: Option<Sequence>,
    /// Whether the hooks are to be told first that the run goes on.
    pub(super) greet: bool,
    /// How the run ends with this step, whatever the rules say.
    pub(super) ending: Option<Ending>,
    /// Whether the run does not end like this when it is asked to stop.
    pub(super) heeds_stop: bool,
    /// Whether hooks and state are left alone, because the run could not be ended with them.
    pub(super) plain: bool,
}

/// What comes after the step.
enum Then {
    Next,
    Ask(crate::message::UserMessage),
    End(Ending),
}

impl Then {
    fn is_end(&self) -> bool {
        matches!(self, Self::End(_))
    }

    fn ended(&self) -> Option<RunStatus> {
        match self {
            Self::End(ending) => Some(ending.status()),
            Self::Next | Self::Ask(_) => None,
        }
    }

    /// A run that was asked to stop does not end by itself: the step is kept, and the run ends as it
    /// was asked.
    fn heed_stop(&mut self) {
        if self.is_end() {
            *self = Self::Next;
        }
    }
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
        let is_fatal = open.calls.iter().any(|call| call.fatal.is_some());
        let now = ports.clock.now();
        let begun = || as_read(begin(effect, &work, now), at, Some(open));
        let (open, closed) = if open.is_settled() {
            (OpenStep::clone(open), None)
        } else if is_fatal {
            // The run ends: what came meanwhile is kept, and nothing is waited for.
            let why = "the run ended before it.";
            let closed = close(effect, ports, open, begun(), Begun::Known, why).await?;
            (closed.0, Some(closed.1))
        } else {
            return Err(PerformError::Missing {
                session: at.session_id.clone(),
                what: "a result for every call of its open step",
            });
        };
        let settling = Settling {
            after: Some(open.start_sequence),
            open,
            writes: StepWrites::default(),
            output: None,
            begun: || closed.clone().unwrap_or_else(begun),
            unsent: &[],
            base: &writing::base(at),
            greet: effect.first,
            ending: None,
            heeds_stop: true,
            plain: false,
        };
        match settle(effect, ports, &work, settling).await {
            Err(error) if error.is_moved() => found = look_again(effect, ports).await?,
            other => return other,
        }
    }
    Err(moving(at))
}

/// Somebody writes beside the run all the time.
pub(super) fn moving(at: &At) -> PerformError {
    PerformError::Missing {
        session: at.session_id.clone(),
        what: "an open step that stays the same for the length of a commit",
    }
}

/// Closes an open step: takes the answers that came and that nobody took, and tells the truth about
/// every call that has no result. A run that ends loses no answer.
pub(super) async fn close(
    effect: &Effect,
    ports: &Ports,
    open: &OpenStep,
    commit: Commit,
    begun: Begun,
    why: &str,
) -> Result<(OpenStep, Commit), PerformError> {
    let at = &effect.at;
    let (base, now) = (writing::base(at), commit.at);
    let session = read(at, ports).await?.state;
    let taken = take_answers(&session, open, &at.run_id, now);
    let commit = taken.write(commit, &at.session_id, &base, now);
    let mut step = taken.step;
    let commit = close_calls(commit, &session, &mut step, begun, why, &base);
    Ok((step, commit))
}

/// Settles a step: hooks in the model's order, then one commit with everything.
pub(super) async fn settle<F: Fn() -> Commit>(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    settling: Settling<'_, F>,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let Settling {
        open,
        writes,
        output,
        begun,
        unsent,
        base,
        after,
        greet,
        ending,
        heeds_stop,
        plain,
    } = settling;
    let now = ports.clock.now();
    let is_natural = ending.is_none();
    let mut then_ = ending.map_or_else(|| conclude(&open, output), Then::End);
    if is_natural && work.stop {
        then_.heed_stop();
    }

    let (mut told, mut wrote_state) = (Vec::new(), StepWrites::default());
    let is_quiet = Hooks::is_none(work, ports) && Applied::is_nothing(&writes, &open);
    if !plain && !is_quiet {
        let mut applied = Applied::new(&work.state(), writes, &open)?;
        let hooks = applied.hooks(at, work, ports)?;
        if greet {
            super::model::greet_again(&hooks, work).await?;
        }
        tell_hooks(&hooks, &open, &then_, work, ports).await?;
        applied.add(&hooks)?;
        told = applied.told(at, ports, after, unsent).await?;
        told.extend(hooks.take_said());
        drop(hooks);
        wrote_state = applied.into_writes();
    }

    let usage = reply_usage(&open, at, now, ports)?;
    let step_id = open.id.clone();
    let done = Done {
        effect,
        ports,
        work,
        begun,
        base,
        now,
        heeds_stop,
        told,
        writes: wrote_state,
        usage,
        paired: open.into_paired()?,
        // The store fills in what the session is then.
        checkpoint: writing::checkpoint(at, ports, now)?,
    };
    let (mut run, mut wrote) = done.write(&then_).await;
    // Whoever asked the run to stop before it ends by itself is heard.
    if is_natural
        && then_.is_end()
        && let Err(error) = &wrote
        && error.is_stopped()
    {
        then_.heed_stop();
        (run, wrote) = done.write(&then_).await;
    }
    let committed = match wrote? {
        Written::Now(committed) => committed,
        Written::Before(event) => return Ok(event),
    };
    let corrections_made = run.corrections;
    let ended = then_.ended();
    if let Then::End(ending) = &then_ {
        ending.log(at);
        work::forget(ports);
    } else {
        work.let_go();
        let Done { paired, writes, .. } = done;
        work::update(ports, &committed, |work| {
            work.settle(paired, &writes);
            work.run = Arc::new(run);
            if let Then::Ask(message) = then_ {
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

/// A step that is put together, and has to be written.
struct Done<'a, F> {
    effect: &'a Effect,
    ports: &'a Ports,
    work: &'a Work,
    begun: F,
    base: &'a Arc<ChunkBase>,
    now: Timestamp,
    heeds_stop: bool,
    told: Vec<ChunkPayload>,
    writes: StepWrites,
    usage: Option<Change>,
    paired: PairedStep,
    checkpoint: (Checkpoint, ChunkPayload),
}

impl<F: Fn() -> Commit> Done<'_, F> {
    /// Makes the commit of the step, with what comes after it.
    async fn write(&self, then_: &Then) -> (RunRecord, Result<Written, PerformError>) {
        let run = self.run(then_);
        let commit = || self.commit(then_, &run);
        let wrote = write(self.effect, self.ports, commit).await;
        (run, wrote)
    }

    /// The run as it is after the step.
    fn run(&self, then_: &Then) -> RunRecord {
        let mut run = RunRecord::clone(&self.work.run);
        run.step_count = self.effect.at.step;
        match then_ {
            Then::Next => {}
            Then::Ask(_) => run.corrections += 1,
            Then::End(ending) => ending.note(&mut run, self.now),
        }
        run
    }

    fn commit(&self, then_: &Then, run: &RunRecord) -> Commit {
        let (at, base, now) = (&self.effect.at, self.base, self.now);
        let mut commit = say((self.begun)(), base, now, self.told.iter().cloned());
        commit = write_state(commit, at, &self.writes);
        commit = then(commit, at, self.usage.clone());
        commit = then(commit, at, [Change::AppendStep(self.paired.clone())]);
        if self.work.open.is_some() {
            commit = then(commit, at, [Change::OpenStep(None)]);
        }
        if let Then::Ask(message) = then_ {
            commit = then(commit, at, [Change::AppendUser(message.clone())]);
        }
        commit = then(commit, at, [Change::Set(Field::StepCount(at.step))]);
        // The store fills in how many messages there are.
        let in_history = ChunkPayload::StepCommitted { message_count: 0 };
        let (checkpoint, created) = &self.checkpoint;
        commit = say(commit, base, now, [in_history, created.clone()]);
        commit = match then_ {
            Then::End(ending) => {
                if self.heeds_stop {
                    let not_stopped = Precondition::Stop(at.run_id.clone(), false);
                    commit = commit.when_in(at.session_id.clone(), not_stopped);
                }
                end::write_end(commit, at, run, ending, base, now)
            }
            Then::Next | Then::Ask(_) => then(commit, at, [Change::Run(Box::new(run.clone()))]),
        };
        // The checkpoint is written last, so that it knows how the run ended.
        then(commit, at, [Change::CheckpointHere(checkpoint.clone())])
    }
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
