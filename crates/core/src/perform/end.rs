//! Ends a run.

mod stop;
mod suspend;

use std::sync::Arc;

use serde_json::Value;

use self::stop::stop;
use self::suspend::suspend;
use super::applied::write_state;
use super::deltas::discard_orphans;
use super::hooks::{Hooks, fire};
use super::settle::{Settling, close, moving, settle};
use super::work::{Look, Work, forget, look_again};
use super::writing::{Written, as_read, base, begin, say, then, write};
use super::{PerformError, Ports};
use crate::entries::{Begun, MAX_TAKEOVERS};
use crate::error::{ErrorCode, ErrorRecord};
use crate::hooks::AgentFail;
use crate::machine::{At, Effect, EndAs, Event, Happened};
use crate::session::{InterruptContext, RunRecord, RunStatus, SessionStatus};
use crate::state::{StepWrites, to_rfc6902};
use crate::step::StopCause;
use crate::store::{Change, Commit, Field, Precondition};
use crate::stream::{ChunkBase, ChunkPayload, Sequence, StreamStatus};
use crate::time::Timestamp;

/// How a run ends.
pub(super) enum Ending {
    Completed {
        cause: StopCause,
        output: Option<Value>,
    },
    Failed {
        error: ErrorRecord,
    },
    Interrupted {
        reason: Option<String>,
    },
}

impl Ending {
    pub(super) fn status(&self) -> RunStatus {
        match self {
            Self::Completed { .. } => RunStatus::Completed,
            Self::Failed { .. } => RunStatus::Failed,
            Self::Interrupted { .. } => RunStatus::Interrupted,
        }
    }

    /// Tells whoever looks after the process of a run that failed.
    pub(super) fn log(&self, at: &At) {
        if let Self::Failed { error } = self {
            tracing::warn!(
                event = "run.failed",
                session = %at.session_id,
                run = %at.run_id,
                agent = at.agent_type,
                code = %error.code,
                detail = error.detail,
            );
        }
    }

    /// Notes the end in the run.
    pub(super) fn note(&self, run: &mut RunRecord, now: Timestamp) {
        run.status = self.status();
        run.ended_at = Some(now);
        match self {
            Self::Completed { cause, output } => {
                run.completion_reason = Some(*cause);
                run.output.clone_from(output);
            }
            Self::Failed { error } => {
                if error.code == ErrorCode::MaxSteps {
                    run.completion_reason = Some(StopCause::MaxSteps);
                }
                run.error = Some(error.clone());
            }
            Self::Interrupted { .. } => {}
        }
    }
}

/// Adds the end of a run to a commit. It is noted in the run already.
pub(super) fn write_end(
    mut commit: Commit,
    at: &At,
    run: &RunRecord,
    ending: &Ending,
    base: &Arc<ChunkBase>,
    now: Timestamp,
) -> Commit {
    let (status, stream, fields, said) = match ending {
        Ending::Completed { output, .. } => {
            let fields = vec![Field::Output(output.clone()), Field::Error(None)];
            let output = output.clone();
            let said = output.map(|output| ChunkPayload::Output { output });
            (SessionStatus::Completed, StreamStatus::Ended, fields, said)
        }
        Ending::Failed { error } => {
            let fields = vec![
                Field::Output(None),
                Field::Error(Some(error.clone())),
                Field::InterruptContext(None),
            ];
            let said = ChunkPayload::Error {
                error: error.message.clone(),
                detail: Some(error.detail.clone()),
                code: error.code,
                recoverable: false,
            };
            (
                SessionStatus::Failed,
                StreamStatus::Failed,
                fields,
                Some(said),
            )
        }
        Ending::Interrupted { reason } => {
            let context = InterruptContext::new(at.run_id.clone(), reason.clone(), now);
            let fields = vec![Field::InterruptContext(Some(context))];
            let said = ChunkPayload::RunInterrupted {
                reason: reason.clone(),
            };
            (
                SessionStatus::Interrupted,
                StreamStatus::Ended,
                fields,
                Some(said),
            )
        }
    };
    commit = then(commit, at, [Change::Set(Field::Status(status))]);
    commit = then(commit, at, fields.into_iter().map(Change::Set));
    commit = then(
        commit,
        at,
        [Change::Run(Box::new(run.clone())), Change::Lease(None)],
    );
    commit = say(commit, base, now, said);
    let is_root = at.session_id == at.root_session_id;
    if is_root {
        commit.stream(stream)
    } else {
        commit
    }
}

/// How often the end is put together anew because the session changed beside the run.
const MAX_TRIES: usize = 8;

pub(super) async fn perform(
    effect: &Effect,
    as_: &EndAs,
    ports: &Ports,
) -> Result<Event, PerformError> {
    let event = match end(effect, as_, ports, false).await {
        // What hooks or calls wrote cannot be kept: the run ends without it.
        Err(error) if error.is_permanent() => {
            tracing::error!(event = "run.ends_plainly", session = %effect.at.session_id, %error);
            end(effect, as_, ports, true).await?
        }
        other => other?,
    };
    forget(ports);
    Ok(event)
}

async fn end(
    effect: &Effect,
    as_: &EndAs,
    ports: &Ports,
    plain: bool,
) -> Result<Event, PerformError> {
    if matches!(as_, EndAs::Suspended {}) {
        return suspend(effect, ports).await;
    }
    for _ in 0..MAX_TRIES {
        // Others may have written meanwhile: what is remembered does not count here.
        let work = match look_again(effect, ports).await? {
            Look::Work(work) => *work,
            Look::Done(event) => return Ok(event),
        };
        // Whoever was to end it before is gone, too: perhaps a hook was the end of them.
        let plain = plain || work.takeovers > MAX_TAKEOVERS;
        let ended = match as_ {
            // Who asked it to stop is heard before it fails by itself.
            EndAs::Failed { error } if !work.stop => {
                let error = error.clone();
                let ending = Ending::Failed { error };
                let how = How {
                    begun: Begun::Reached,
                    why: "the run failed before it.",
                    heeds_stop: true,
                    plain,
                };
                close_run(effect, ports, &work, ending, how).await
            }
            EndAs::Failed { .. } => stop(effect, ports, &work, Begun::Reached, plain).await,
            EndAs::Stopped {} | EndAs::Suspended {} => {
                stop(effect, ports, &work, Begun::Known, plain).await
            }
        };
        match ended {
            // An answer came between looking and writing, for example.
            Err(error) if error.is_moved() => {}
            other => return other,
        }
    }
    Err(moving(&effect.at))
}

/// How a run is brought to its end from outside of a step.
#[derive(Clone, Copy)]
struct How {
    /// Which calls count as begun.
    begun: Begun,
    /// What the model is told of those that were not.
    why: &'static str,
    /// Whether the run does not end like this when it is asked to stop.
    heeds_stop: bool,
    /// Whether hooks and state are left alone.
    plain: bool,
}

/// Ends the run; an open step is closed and moved into the history.
async fn close_run(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    ending: Ending,
    how: How,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let status = ending.status();
    let Some(open) = &work.open else {
        // A process that is gone may have left an unfinished reply in the stream.
        let run_start = Sequence(work.run.start_sequence);
        discard_orphans(at, ports, work.attempt, run_start).await?;
        return finish(effect, ports, work, ending, how).await;
    };
    let commit = as_read(begin(effect, work, ports.clock.now()), at, Some(open));
    let (open, closed) = close(effect, ports, open, commit, how.begun, how.why).await?;
    let settling = Settling {
        after: Some(open.start_sequence),
        open,
        writes: StepWrites::default(),
        output: None,
        begun: || closed.clone(),
        unsent: &[],
        base: &base(at),
        greet: false,
        ending: Some(ending),
        heeds_stop: how.heeds_stop,
        plain: how.plain,
    };
    let event = settle(effect, ports, work, settling).await?;
    Ok(Event {
        what: Happened::Ended { status },
        ..event
    })
}

/// Ends the run where no step is open.
async fn finish(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    ending: Ending,
    how: How,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let now = ports.clock.now();
    let base = base(at);
    let (mut told, mut writes) = (Vec::new(), StepWrites::default());
    if !how.plain {
        let hooks = Hooks::over(at, work, ports, &work.state());
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
            let patches = to_rfc6902(&writes, &work.state())?;
            told.extend(ports.bounds().state_patches(patches));
        }
        told.extend(hooks.take_said());
    }
    let mut run = RunRecord::clone(&work.run);
    ending.note(&mut run, now);
    let status = ending.status();
    let commit = || {
        let mut commit = as_read(begin(effect, work, now), at, None);
        if how.heeds_stop {
            let not_stopped = Precondition::Stop(at.run_id.clone(), false);
            commit = commit.when_in(at.session_id.clone(), not_stopped);
        }
        commit = say(commit, &base, now, told.iter().cloned());
        commit = write_state(commit, at, &writes);
        write_end(commit, at, &run, &ending, &base, now)
    };
    match write(effect, ports, commit).await? {
        Written::Now(_) => {
            ending.log(at);
            Ok(Event::of(at, Happened::Ended { status }))
        }
        Written::Before(event) => Ok(event),
    }
}
