//! Tells how far a persistent child is.

use serde::Serialize;
use serde_json::{Value, json};

use super::super::Calling;
use super::super::child::{ChildEnd, outcome};
use crate::entries::waiting_run;
use crate::id::RunId;
use crate::machine::Event;
use crate::perform::PerformError;
use crate::perform::deltas::Deltas;
use crate::session::{
    PersistentChild, RunRecord, RunStatus, SessionStatus, WaitingCall, companion_address,
};
use crate::store::Snapshot;
use crate::tool::COMPANION_TOOL_PREFIX;

/// A child as companion tools report it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChildReport {
    name: String,
    address: String,
    agent: String,
    mode: &'static str,
    pub(super) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The calls for whose answers it waits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) waits_for: Vec<Value>,
}

/// The run of a child that is in progress, or that messages wait for.
pub(super) fn current_run(found: &Snapshot) -> Option<RunId> {
    let run = found.run.as_ref();
    let run = run.filter(|run| !run.status.is_ended() || run.status.is_suspended());
    let waiting = waiting_run(&found.inbox);
    let waiting = waiting.filter(|_| found.state.status != SessionStatus::Paused);
    waiting.or(run.map(|run| &run.id)).cloned()
}

impl Calling<'_> {
    pub(super) fn report(self, found: &Snapshot, child: &PersistentChild) -> ChildReport {
        let run = found.run.as_ref().map(|run| run.status);
        let is_paused = found.state.status == SessionStatus::Paused;
        let status = match run {
            _ if !found.inbox.is_empty() && !is_paused => "running",
            None | Some(RunStatus::Running) => "running",
            Some(RunStatus::Completed) => "completed",
            Some(RunStatus::Failed) => "failed",
            Some(RunStatus::Interrupted) if is_paused => "paused",
            Some(RunStatus::Interrupted) => "interrupted",
            Some(_) => "suspended",
        };
        let calls = found.state.unanswered_calls();
        let waits_for = |call: &WaitingCall| json!({ "toolCallId": call.tool_call_id, "toolName": call.tool_name });
        ChildReport {
            name: child.name.clone(),
            address: companion_address(&self.cx.at().session_id, &child.name),
            agent: found.state.agent_type.to_string(),
            mode: match child.blocking {
                true => "blocking",
                false => "non-blocking",
            },
            status,
            output: None,
            error: None,
            waits_for: calls.iter().map(waits_for).collect(),
        }
    }

    /// A report with the outcome of the last run.
    pub(super) async fn full_report(
        self,
        found: &Snapshot,
        child: &PersistentChild,
    ) -> Result<ChildReport, PerformError> {
        let mut report = self.report(found, child);
        if matches!(report.status, "running" | "suspended") {
            return Ok(report);
        }
        match outcome(self.cx.scope, found, found.run.as_ref()).await? {
            Ok(output) => report.output = Some(output),
            Err(why) => report.error = Some(why),
        }
        Ok(report)
    }

    /// Takes the outcome of a persistent child that has done what the call gave it to do.
    pub(in crate::perform::tool) async fn take_companion(
        self,
        found: &Snapshot,
        child: &PersistentChild,
        run: Option<&RunRecord>,
    ) -> Result<Event, PerformError> {
        let scope = self.cx.scope;
        let op = self.call.name.strip_prefix(COMPANION_TOOL_PREFIX);
        let mut report = self.report(found, child);
        report.waits_for.clear();
        report.status = match run.map(|run| run.status) {
            Some(RunStatus::Completed) => "completed",
            Some(RunStatus::Failed) => "failed",
            _ => "interrupted",
        };
        match outcome(scope, found, run).await? {
            Ok(output) => report.output = Some(output),
            Err(why) => report.error = Some(why),
        }
        let result = match op {
            // To have ended is what was asked for.
            Some("terminateChild") => Ok(json!(report)),
            _ => outcome_of(&report),
        };
        let result = self.told(result);
        let (agent, session) = (&found.state.agent_type, &found.state.session_id);
        let has_begun = matches!(op, Some("spawnAgent" | "sendMessage"));
        let told = has_begun.then(|| self.child_ended(agent, session, &result));
        let end = ChildEnd {
            child: None,
            usage: None,
            told,
        };
        let outcome = self.outcome_of_child(result, run, end);
        let deltas = Deltas::of_call(scope, self.step, self.index, self.open.attempts());
        self.finish(outcome, deltas).await
    }
}

/// The result of a call that waits for a child: its report, or why there is no output.
pub(super) fn outcome_of(report: &ChildReport) -> Result<Value, String> {
    match &report.error {
        None => Ok(json!(report)),
        Some(why) => Err(format!(
            "The agent named {} gave no output. {why}",
            report.name
        )),
    }
}
