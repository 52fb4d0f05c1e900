//! Actions after a deadline, after the end of a run, and back in time.

use std::time::Duration;

use helix_agents_core::entries::{EntryError, ResumeMode, ResumeRequest};
use helix_agents_core::machine::RunState;
use helix_agents_core::session::{RunStatus, RunTrigger, SubmissionOutcome};

use super::{Play, Process, ProcessEnd, Stored};
use crate::crash::Moment;
use crate::crash::scenario::{LateAnswer, Return};

/// The tool during which people act.
pub(super) const HALTING_TOOL: &str = "charge";
/// Longer than the deadline of any tool of a scenario.
const DEADLINE: Duration = Duration::from_secs(3600);

impl Play<'_> {
    /// Takes the next action of these kinds; `None` if there is none to take now.
    pub(super) async fn act_later(
        &mut self,
        process: &Process,
        stored: &Stored,
    ) -> Option<ProcessEnd> {
        let open = stored.unanswered(false).into_iter();
        self.asked
            .extend(open.map(|call| (call.tool_call_id.clone(), call)));
        match stored.runs.last()?.status {
            RunStatus::Running => {
                // A call that was begun is not begun again, so nobody waits for that moment.
                if stored.has_open_call(HALTING_TOOL) {
                    process.world.texts(Moment::MidTool).await;
                }
                None
            }
            status if status.is_suspended() => self.pass_deadlines(process, stored).await,
            _ if stored.has_waiting_messages() => {
                let session = &self.world.session;
                let begun = process.entries.deliver(session, &process.performer).await;
                Some(self.driven(process, begun).await)
            }
            _ if self.scenario.late == Some(LateAnswer::AfterTheTurn) => {
                self.answer_late(process, stored).await
            }
            status => self.return_to_the_turn(process, stored, status).await,
        }
    }

    /// Times out the calls that have a deadline, as a sweeper does, and answers them after it.
    async fn pass_deadlines(&mut self, process: &Process, stored: &Stored) -> Option<ProcessEnd> {
        let late = self.scenario.late?;
        let open = stored.unanswered(false);
        if open.iter().any(|call| call.deadline.is_some()) {
            self.world.clock.advance(DEADLINE);
            let expired = process.entries.expire(self.world.session.as_root()).await;
            return Some(match expired {
                Ok(expired) if !expired.calls.is_empty() => ProcessEnd::Continues,
                other => ProcessEnd::Failed(format!("no call has timed out: {other:?}")),
            });
        }
        match late {
            LateAnswer::BeforeItIsTaken => self.answer_late(process, stored).await,
            LateAnswer::Never | LateAnswer::AfterTheTurn => None,
        }
    }

    /// Answers a call that has timed out.
    async fn answer_late(&mut self, process: &Process, stored: &Stored) -> Option<ProcessEnd> {
        let call = stored.timed_out().find_map(|id| self.asked.get(id))?;
        let answer = self.scenario.answer(call);
        self.last_answer = Some(answer.clone());
        Some(match process.entries.submit(&answer).await {
            Ok(late) if late.outcome == SubmissionOutcome::LateAnswerAfterTimeout => {
                ProcessEnd::Continues
            }
            other => ProcessEnd::Failed(format!("an answer was not late: {other:?}")),
        })
    }

    /// Resumes a session that a budget has paused: as it is, which is refused, and then with higher limits.
    pub(super) async fn raise_budget(&self, process: &Process) -> Result<RunState, EntryError> {
        let (session, performer) = (&self.world.session, &process.performer);
        let refused = process.entries.resume(session, performer).await;
        if !matches!(refused, Err(EntryError::BudgetExhausted { .. })) {
            return refused;
        }
        let request = ResumeRequest::new(session, ResumeMode::Continue);
        let request = request.budget(self.scenario.raises.unwrap_or_default());
        process.entries.resume(request, performer).await
    }

    /// Begins the last turn again, once.
    async fn return_to_the_turn(
        &mut self,
        process: &Process,
        stored: &Stored,
        status: RunStatus,
    ) -> Option<ProcessEnd> {
        let turn = stored.runs.last()?.turn;
        let (trigger, mode) = match (self.scenario.return_of(turn)?, status) {
            (Return::Retry, RunStatus::Failed | RunStatus::Interrupted) => {
                (RunTrigger::Retry, ResumeMode::Retry)
            }
            (Return::Rewind, RunStatus::Completed) => {
                let first = stored.checkpoints.last()?.id.clone();
                (
                    RunTrigger::FromCheckpoint,
                    ResumeMode::FromCheckpoint(first),
                )
            }
            _ => return None,
        };
        let mut runs = stored.runs.iter().filter(|run| run.turn == turn);
        if runs.any(|run| run.trigger == trigger) {
            return None;
        }
        if trigger == RunTrigger::FromCheckpoint {
            let asked = std::mem::take(&mut self.asked).into_values();
            let answers = asked.map(|call| self.scenario.answer(&call));
            self.late_answers.extend(answers);
        }
        let request = ResumeRequest::new(&self.world.session, mode);
        let begun = process.entries.resume(request, &process.performer).await;
        Some(self.driven(process, begun).await)
    }
}
