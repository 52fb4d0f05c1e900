//! Ends a run.

mod stop;
mod suspend;

use self::stop::stop;
use self::suspend::suspend;
use super::PerformError;
use super::closing::{Closing, close};
use super::commit::CommitOutcome;
use super::deltas::discard_orphans;
use super::ending::Ending;
use super::hooks::{Hooks, fire};
use super::reading::Reading;
use super::scope::{EffectContext, Scope};
use super::settle::{Settling, settle};
use crate::entries::{BegunCalls, MAX_TAKEOVERS};
use crate::hooks::AgentFail;
use crate::machine::{Event, EventKind, RunEnd};
use crate::session::RunRecord;
use crate::state::{StepWrites, to_rfc6902};
use crate::stream::Sequence;

/// How often the end is put together anew because the session changed beside the run.
const MAX_TRIES: usize = 8;

pub(super) async fn perform(scope: Scope<'_>, as_: &RunEnd) -> Result<Event, PerformError> {
    let event = match end(scope, as_, false).await {
        // What hooks or calls wrote cannot be kept: the run ends without it.
        Err(error) if error.is_permanent() => {
            tracing::error!(event = "run.ends_plainly", session = %scope.at().session_id, %error);
            end(scope, as_, true).await?
        }
        other => other?,
    };
    scope.ports.memory.forget();
    Ok(event)
}

async fn end(scope: Scope<'_>, as_: &RunEnd, plain: bool) -> Result<Event, PerformError> {
    if matches!(as_, RunEnd::Suspended {}) {
        return suspend(scope).await;
    }
    for _ in 0..MAX_TRIES {
        // Others may have written meanwhile: what is remembered does not count here.
        let view = match scope.fresh_reading().await? {
            Reading::View(view) => view,
            Reading::Recorded(event) => return Ok(event),
        };
        let cx = EffectContext::new(scope, &view);
        // Whoever was to end it before is gone, too: perhaps a hook was the end of them.
        let plain = plain || view.takeovers > MAX_TAKEOVERS;
        let ended = match as_ {
            // Who asked it to stop is heard before it fails by itself.
            RunEnd::Failed { error } if !view.stop => {
                let error = error.clone();
                let options = EndOptions {
                    closing: Closing {
                        begun: BegunCalls::Reached,
                        why: "the run failed before it.",
                    },
                    heeds_stop: true,
                    plain,
                };
                close_run(cx, Ending::Failed { error }, options).await
            }
            RunEnd::BudgetExhausted {} if !view.stop => {
                let options = EndOptions {
                    closing: Closing {
                        begun: BegunCalls::Recorded,
                        why: "a budget is used up.",
                    },
                    heeds_stop: true,
                    plain,
                };
                close_run(cx, Ending::BudgetExhausted, options).await
            }
            RunEnd::Failed { .. } => stop(cx, BegunCalls::Reached, plain).await,
            RunEnd::Stopped {} | RunEnd::Suspended {} | RunEnd::BudgetExhausted {} => {
                stop(cx, BegunCalls::Recorded, plain).await
            }
        };
        match ended {
            // An answer came between looking and writing, for example.
            Err(error) if error.is_moved() => {}
            other => return other,
        }
    }
    Err(scope.moving())
}

/// Options of the end of a run from outside of a step.
#[derive(Clone, Copy)]
struct EndOptions {
    /// The rule for calls that have no result.
    closing: Closing,
    /// Whether the run does not end like this when it is asked to stop.
    heeds_stop: bool,
    /// Whether hooks and state are left alone.
    plain: bool,
}

/// Ends the run; an open step is closed and moved into the history.
async fn close_run(
    cx: EffectContext<'_>,
    ending: Ending,
    options: EndOptions,
) -> Result<Event, PerformError> {
    let EffectContext { scope, view, .. } = cx;
    let status = ending.status();
    let Some(open) = &view.open else {
        // A process that is gone may have left an unfinished reply in the stream.
        let run_start = Sequence(view.run.start_sequence);
        discard_orphans(scope, view.attempt, run_start).await?;
        return finish(cx.renewed(), ending, options).await;
    };
    let commit = cx.begin().unless_moved(Some(open));
    let (open, closed) = close(scope, open, commit, options.closing).await?;
    let settling = Settling {
        ending: Some(ending),
        heeds_stop: options.heeds_stop,
        plain: options.plain,
        ..Settling::new(open, || closed.clone())
    };
    let event = settle(cx, settling).await?;
    Ok(Event {
        what: EventKind::Ended { status },
        ..event
    })
}

/// Ends the run where no step is open.
async fn finish(
    cx: EffectContext<'_>,
    ending: Ending,
    options: EndOptions,
) -> Result<Event, PerformError> {
    let EffectContext { scope, view, now } = cx;
    let at = scope.at();
    let (mut told, mut writes) = (Vec::new(), StepWrites::default());
    if !options.plain {
        let hooks = Hooks::over(cx, &view.state());
        if let Ending::Failed { error } = &ending {
            let state = hooks.state()?;
            fire!(
                hooks,
                on_agent_fail,
                "on_agent_fail",
                AgentFail::new(error, &state, at.step)
            );
        }
        writes = hooks.writes()?;
        if !writes.is_empty() {
            let patches = to_rfc6902(&writes, &view.state())?;
            told.extend(scope.ports.bounds().state_patches(patches));
        }
        told.extend(hooks.take_said());
    }
    let mut run = RunRecord::clone(&view.run);
    ending.note(&mut run, now);
    let status = ending.status();
    let commit = || {
        let mut commit = cx.begin().unless_moved(None);
        if options.heeds_stop {
            commit = commit.unless_stopped();
        }
        commit = commit.tell(told.iter().cloned()).write_state(&writes);
        ending.write(commit, &run)
    };
    match scope.write(commit).await? {
        CommitOutcome::Made(committed) => {
            ending.log(at);
            let event = scope.event(EventKind::Ended { status });
            Ok(event.with_messages(!committed.inbox.is_empty()))
        }
        CommitOutcome::Before(event) => Ok(event),
    }
}
