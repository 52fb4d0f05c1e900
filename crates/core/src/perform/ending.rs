//! The end of a run, as its record, its session and its readers get it.

use serde_json::Value;

use super::commit::EffectCommit;
use crate::error::{ErrorCode, ErrorRecord};
use crate::machine::EffectAddress;
use crate::session::{InterruptContext, RunRecord, RunStatus, SessionStatus};
use crate::step::StopCause;
use crate::store::{Change, Field};
use crate::stream::{ChunkPayload, StreamStatus};
use crate::time::Timestamp;

/// As what a run ends.
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
    /// A budget leaves no room for the next model call.
    BudgetExhausted,
}

/// The reason of an interruption by a budget.
const BUDGET: &str = "budget";

impl Ending {
    /// The status of a run that ended so.
    pub(super) fn status(&self) -> RunStatus {
        match self {
            Self::Completed { .. } => RunStatus::Completed,
            Self::Failed { .. } => RunStatus::Failed,
            Self::Interrupted { .. } | Self::BudgetExhausted => RunStatus::Interrupted,
        }
    }

    /// Logs a run that failed.
    pub(super) fn log(&self, at: &EffectAddress) {
        if let Self::Failed { error } = self {
            tracing::warn!(
                event = "run.failed",
                session = %at.session_id,
                run = %at.run_id,
                agent = %at.agent_type,
                code = %error.code,
                detail = error.detail,
            );
        }
    }

    /// Notes the end in the record of the run.
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
            Self::BudgetExhausted => run.completion_reason = Some(StopCause::Budget),
        }
    }

    /// The end of a run that stops where it is.
    fn interruption(
        commit: &EffectCommit<'_>,
        run: &RunRecord,
        reason: Option<String>,
    ) -> (Vec<Field>, ChunkPayload) {
        let context = InterruptContext::new(run.id.clone(), reason.clone(), commit.now());
        let fields = vec![Field::InterruptContext(Some(context))];
        (fields, ChunkPayload::RunInterrupted { reason })
    }

    /// Adds the end to a commit. `run` is the record that it is noted in.
    pub(super) fn write<'a>(&self, commit: EffectCommit<'a>, run: &RunRecord) -> EffectCommit<'a> {
        let (status, stream, fields, told) = match self {
            Self::Completed { output, .. } => {
                let fields = vec![Field::Output(output.clone()), Field::Error(None)];
                let output = output.clone();
                let told = output.map(|output| ChunkPayload::Output { output });
                (SessionStatus::Completed, StreamStatus::Ended, fields, told)
            }
            Self::Failed { error } => {
                let fields = vec![
                    Field::Output(None),
                    Field::Error(Some(error.clone())),
                    Field::InterruptContext(None),
                ];
                let told = ChunkPayload::Error {
                    error: error.message.clone(),
                    detail: Some(error.detail.clone()),
                    code: error.code,
                    recoverable: false,
                };
                let (status, stream) = (SessionStatus::Failed, StreamStatus::Failed);
                (status, stream, fields, Some(told))
            }
            Self::Interrupted { reason } => {
                let (fields, told) = Self::interruption(&commit, run, reason.clone());
                let (status, stream) = (SessionStatus::Interrupted, StreamStatus::Ended);
                (status, stream, fields, Some(told))
            }
            Self::BudgetExhausted => {
                let (fields, told) = Self::interruption(&commit, run, Some(BUDGET.to_owned()));
                let (status, stream) = (SessionStatus::Paused, StreamStatus::Ended);
                (status, stream, fields, Some(told))
            }
        };
        let commit = match self {
            Self::Interrupted { .. } | Self::BudgetExhausted => commit.unless_aborted(),
            _ => commit,
        };
        let commit = match (&run.parent_call, commit.parent()) {
            // A parent that is suspended waits for no more of it.
            (Some(call), Some(parent)) => commit.with(|commit| {
                let ended = Field::AwaitedChild(call.clone(), None);
                commit.then_in(parent, Change::Set(ended))
            }),
            _ => commit,
        };
        commit
            .set([Field::Status(status)])
            .set(fields)
            .changes([Change::Run(Box::new(run.clone())), Change::Lease(None)])
            .end_budget()
            .tell(told)
            .stream(stream)
    }
}
