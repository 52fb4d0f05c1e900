//! Checks of runs that were asked to stop.

use std::collections::BTreeSet;

use helix_agents_core::error::ErrorCode;
use helix_agents_core::message::{AssistantMessage, Message};
use helix_agents_core::session::{RunRecord, RunStatus, RunTrigger, StopKind};
use helix_agents_core::{CallId, RunId};

use super::Stored;

/// Whether an interruption cut a reply off.
fn is_cut(reply: &AssistantMessage) -> bool {
    reply.metadata.contains_key("helixInterrupted")
}

impl Stored {
    /// The number of replies that interruptions cut off.
    pub(in crate::crash) fn cut_replies(&self) -> usize {
        let is_cut = |message: &&Message| matches!(message, Message::Assistant(one) if is_cut(one));
        self.messages.iter().filter(is_cut).count()
    }

    /// The messages without the replies that interruptions cut off, and without the results of their
    /// calls.
    pub(super) fn messages_without_cuts(&self) -> Vec<Message> {
        let mut dropped: BTreeSet<&CallId> = BTreeSet::new();
        let mut kept = Vec::new();
        for message in &self.messages {
            match message {
                Message::Assistant(reply) if is_cut(reply) => {
                    dropped.extend(reply.tool_calls().map(|call| &call.id));
                }
                Message::Tool(result) if dropped.contains(&result.tool_call_id) => {}
                _ => kept.push(message.clone()),
            }
        }
        kept
    }

    /// Checks that every accepted stop stopped the run it names. A suspended run is stopped by the run
    /// that continues it. `failures` are the errors with which runs fail by themselves.
    pub(in crate::crash) fn flaws_of_the_stops(
        &self,
        stops: &[(RunId, StopKind)],
        failures: &[ErrorCode],
    ) -> Vec<String> {
        let mut flaws = Vec::new();
        for (run, kind) in stops {
            let Some(record) = self.end_of(run) else {
                flaws.push(format!("run {run} was asked to stop, but is not stored"));
                continue;
            };
            if record.id != *run && record.trigger == RunTrigger::FromCheckpoint {
                // It was suspended, and the session went back instead of continuing it.
                continue;
            }
            let status = record.status;
            let code = record.error.as_ref().map(|error| error.code);
            let is_honoured = match (kind, status) {
                // It may have failed before it could stop.
                (StopKind::Interrupt, RunStatus::Interrupted | RunStatus::Failed) => true,
                (StopKind::Abort, RunStatus::Failed) => code.is_some_and(|code| {
                    code == ErrorCode::FrameworkCancelled || failures.contains(&code)
                }),
                _ => false,
            };
            if !is_honoured {
                let id = &record.id;
                flaws.push(format!(
                    "run {run} was asked to stop ({kind:?}), but run {id} ended as {status:?} {code:?}"
                ));
            }
        }
        flaws
    }

    /// The record of a run, or of the run that continues it if it is suspended.
    fn end_of(&self, run: &RunId) -> Option<&RunRecord> {
        let mut runs = self.runs.iter().skip_while(|record| record.id != *run);
        let asked = runs.next()?;
        if asked.status.is_suspended() {
            return runs.next();
        }
        Some(asked)
    }

    /// The errors with which runs fail by themselves.
    pub(in crate::crash) fn failures(&self) -> Vec<ErrorCode> {
        let errors = self.runs.iter().filter_map(|run| run.error.as_ref());
        errors.map(|error| error.code).collect()
    }
}
