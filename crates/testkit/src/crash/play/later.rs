//! Actions after a deadline, after the end of a run, and back in time.

use std::time::Duration;

use helix_agents_core::entries::{EntryError, ResumeMode, ResumeRequest};
use helix_agents_core::machine::RunState;
use helix_agents_core::session::{PendingCall, RunStatus, RunTrigger, SubmissionOutcome};
use helix_agents_core::store::{DueQuery, SessionKey, SessionQuery};
use helix_agents_core::time::Clock;

use super::{KillableHost, Play, Process, ProcessEnd, Stored};
use crate::crash::Moment;
use crate::crash::scenario::{LateAnswer, Return};
use crate::host::drive_child;

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
                let begun = process
                    .entries
                    .deliver(&process.agent, session, &process.performer)
                    .await;
                Some(self.driven(process, begun).await)
            }
            _ if self.scenario.late == Some(LateAnswer::AfterTheTurn) => {
                self.answer_late(process, stored).await
            }
            status => self.return_to_the_turn(process, stored, status).await,
        }
    }

    /// The pending calls that somebody will answer.
    pub(super) fn unanswered(&self, stored: &Stored, backwards: bool) -> Vec<PendingCall> {
        let mut open = stored.unanswered(backwards);
        open.retain(|call| !self.scenario.unanswered.contains(call.tool_name.as_str()));
        open
    }

    /// Attends to the sessions under the root that nobody waits for, as a sweeper does; `None` if there is nothing
    /// to do. While the root runs, they are left alone.
    pub(super) async fn attend(
        &mut self,
        process: &Process,
        stored: &Stored,
    ) -> Option<ProcessEnd> {
        let root = stored.runs.last()?.status;
        if root == RunStatus::Running {
            return None;
        }
        let Some(found) = stored.unattended() else {
            // Nobody resumes a root whose turn is over for the calls of those under it.
            let open = match root.is_suspended() {
                true => Vec::new(),
                false => self.unanswered(stored, false),
            };
            let call = open.first()?.clone();
            return Some(self.submit(process, &call).await);
        };
        let session = &found.state.session_id;
        let run = found.run.as_ref().map(|run| run.status);
        let mut found = found.clone();
        if run.is_some_and(RunStatus::is_suspended) {
            let resumed = process.entries.resume(session, &process.performer).await;
            if let Err(error) = resumed {
                return Some(ProcessEnd::Failed(format!(
                    "{session} does not go on: {error}"
                )));
            }
            let key = SessionKey::new(&self.world.session, session);
            match process.ports.store.load(key).await {
                Ok(Some(now)) => found = now,
                other => return Some(ProcessEnd::Failed(format!("{session} is gone: {other:?}"))),
            }
        }
        let host = KillableHost {
            host: self.host,
            switch: &self.world.switch,
        };
        Some(match drive_child(&host, found, &process.ports).await {
            Ok(()) => ProcessEnd::Continues,
            Err(error) => ProcessEnd::Failed(format!("an effect has no event: {error}")),
        })
    }

    /// What is left of a session that was deleted, and of those under it.
    pub(super) async fn flaws_of_a_deletion(&self) -> Vec<String> {
        let mut flaws = Vec::new();
        let store = &self.durable.store;
        match store.list(&SessionQuery::default()).await {
            Ok(left) if left.items.is_empty() => {}
            left => flaws.push(format!("sessions are left: {left:?}")),
        }
        let later = self.world.clock.now().saturating_add(DEADLINE);
        let due = store.due(&DueQuery::at(later)).await;
        match due {
            Ok(due) if due.items.is_empty() => {}
            due => flaws.push(format!("work is left: {due:?}")),
        }
        match self.durable.streams.info(&self.world.session).await {
            Ok(None) => {}
            left => flaws.push(format!("the stream is left: {left:?}")),
        }
        flaws
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
