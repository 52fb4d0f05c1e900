//! Ends a run.

mod stop;
mod suspend;

use std::sync::Arc;

use serde_json::Value;

use self::stop::stop;
use self::suspend::suspend;
use super::hooks::{Hooks, fire};
use super::work::{Look, Work, Written, base, begin, forget, look_again, say, then, write};
use super::{PerformError, Ports};
use crate::error::{ErrorCode, ErrorRecord};
use crate::hooks::AgentFail;
use crate::machine::{At, Effect, EndAs, Event, Happened};
use crate::session::{InterruptContext, RunRecord, RunStatus, SessionStatus};
use crate::state::to_rfc6902;
use crate::step::StopCause;
use crate::store::{Change, Commit, Field};
use crate::stream::{ChunkBase, ChunkPayload, StreamStatus};
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
}

/// Adds the end of a run to a commit.
pub(super) fn write_end(
    commit: Commit,
    at: &At,
    run: &mut RunRecord,
    ending: &Ending,
    base: &Arc<ChunkBase>,
    now: Timestamp,
) -> Commit {
    run.status = ending.status();
    run.ended_at = Some(now);
    let mut commit = commit;
    let (status, stream, fields, said) = match ending {
        Ending::Completed { cause, output } => {
            run.completion_reason = Some(*cause);
            run.output.clone_from(output);
            let fields = vec![Field::Output(output.clone()), Field::Error(None)];
            let output = output.clone();
            let said = output.map(|output| ChunkPayload::Output { output });
            (SessionStatus::Completed, StreamStatus::Ended, fields, said)
        }
        Ending::Failed { error } => {
            if error.code == ErrorCode::MaxSteps {
                run.completion_reason = Some(StopCause::MaxSteps);
            }
            run.error = Some(error.clone());
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

pub(super) async fn perform(
    effect: &Effect,
    as_: &EndAs,
    ports: &Ports,
) -> Result<Event, PerformError> {
    // Others may have written meanwhile: what is remembered does not count here.
    let mut work = match look_again(effect, ports).await? {
        Look::Work(work) => *work,
        Look::Done(event) => return Ok(event),
    };
    let event = match as_ {
        EndAs::Suspended {} => suspend(effect, ports, work).await?,
        EndAs::Failed { error } => {
            let error = error.clone();
            finish(effect, ports, &work, Ending::Failed { error }).await?
        }
        EndAs::Stopped {} => loop {
            match stop(effect, ports, &work).await {
                // An answer came between looking and writing, for example.
                Err(error) if error.is_moved() => {}
                other => break other?,
            }
            work = match look_again(effect, ports).await? {
                Look::Work(work) => *work,
                Look::Done(event) => return Ok(event),
            };
        },
    };
    forget(ports);
    Ok(event)
}

/// Ends the run where no step is open.
async fn finish(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    ending: Ending,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let hooks = Hooks::over(at, work, ports, &work.state);
    if let Ending::Failed { error } = &ending {
        let state = hooks.state()?;
        fire!(
            hooks,
            on_agent_fail,
            "on_agent_fail",
            AgentFail::new(error, &state, at.step)
        );
    }
    let now = ports.clock.now();
    let mut commit = begin(at, now);
    let base = base(at);
    let writes = hooks.writes()?;
    if !writes.is_empty() {
        let patches = to_rfc6902(&writes, &work.state)?;
        commit = say(commit, &base, now, [ChunkPayload::StatePatch { patches }]);
        commit = then(commit, at, [Change::WriteState(writes)]);
    }
    commit = say(commit, &base, now, hooks.take_said());
    let mut run = RunRecord::clone(&work.run);
    let status = ending.status();
    commit = write_end(commit, at, &mut run, &ending, &base, now);
    match write(effect, ports, commit).await? {
        Written::Now(_) => Ok(Event::of(at, Happened::Ended { status })),
        Written::Before(event) => Ok(event),
    }
}
