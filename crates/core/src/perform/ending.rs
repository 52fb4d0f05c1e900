//! The end of a run, as its record, its session and its readers get it.

use serde_json::Value;

use super::commit::EffectCommit;
use super::view::Family;
use crate::entries::{ENDED_BY_PARENT, NEW_MESSAGE, TAKEN_BACK};
use crate::error::{ErrorCode, ErrorRecord};
use crate::machine::EffectAddress;
use crate::message::UserMessage;
use crate::session::{
    ChildStatus, InterruptContext, PersistentChild, RunRecord, RunStatus, SessionStatus,
};
use crate::step::{StopCause, told};
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

    /// Tells the session for which this one works that it works no longer.
    fn tell_parent<'a>(
        &self,
        commit: EffectCommit<'a>,
        run: &RunRecord,
        family: &Family,
    ) -> EffectCommit<'a> {
        let (at, parent) = (commit.effect(), &family.parent);
        let in_parent = |commit: EffectCommit<'a>, change| {
            commit.with(|commit| commit.then_in(parent.clone(), change))
        };
        // A parent that is suspended waits for no more of it.
        let ended = Change::Set(Field::EndedChild(at.session_id.clone()));
        let commit = in_parent(commit, ended);
        let Some(child) = family.persistent.as_deref() else {
            return commit;
        };
        let status = match run.status {
            RunStatus::Completed => ChildStatus::Completed,
            RunStatus::Interrupted => ChildStatus::Interrupted,
            _ => ChildStatus::Failed,
        };
        let commit = match family.noted(&run.id, status) {
            Some(noted) => in_parent(commit, noted),
            None => commit,
        };
        if child.blocking {
            return commit;
        }
        let output = match self {
            Self::Completed { output, .. } => {
                let text = || commit.reply_text().map_or(Value::Null, Value::String);
                Some(output.clone().unwrap_or_else(text))
            }
            _ => None,
        };
        let notice = self.notice(child, output.as_ref());
        let told = run
            .parent_call
            .clone()
            .map(|call| ChunkPayload::SubagentEnd {
                tool_call_id: call,
                sub_agent_type: at.agent_type.to_string(),
                sub_session_id: at.session_id.clone(),
                success: output.is_some(),
                result: output,
            });
        let commit = commit.tell(told);
        match notice {
            Some(notice) => in_parent(commit, Change::Notice(notice)),
            None => commit,
        }
    }

    /// The message that tells the model of the parent how a child ended for which it does not wait. What the parent
    /// did to the child itself is not told.
    fn notice(&self, child: &PersistentChild, output: Option<&Value>) -> Option<UserMessage> {
        let name = &child.name;
        Some(UserMessage::hidden(match self {
            Self::Completed { .. } => {
                let output = match output {
                    Some(Value::String(text)) => told(text),
                    Some(other) => told(&other.to_string()),
                    None => "null".to_owned(),
                };
                format!("The agent named {name} has completed. Its output: {output}")
            }
            Self::Failed { error } => {
                format!(
                    "The agent named {name} has failed: {}",
                    told(&error.message)
                )
            }
            Self::Interrupted { reason } => {
                let reason = reason.as_deref();
                let known = [NEW_MESSAGE, ENDED_BY_PARENT, TAKEN_BACK];
                if reason.is_some_and(|reason| known.contains(&reason)) {
                    return None;
                }
                format!("The agent named {name} was stopped before it was done.")
            }
            Self::BudgetExhausted => {
                format!("The agent named {name} was stopped because a budget is used up.")
            }
        }))
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
        let commit = match commit.family() {
            Some(family) => self.tell_parent(commit, run, family),
            None => commit,
        };
        let commit = match self {
            Self::Completed { .. } => commit.leave_budget(),
            // It may be tried again, or continued.
            _ => commit.end_budget(),
        };
        commit
            .set([Field::Status(status)])
            .set(fields)
            .changes([Change::Run(Box::new(run.clone())), Change::Lease(None)])
            .tell(told)
            .stream(stream)
    }
}
