//! The checks at the end of a schedule.

use std::collections::BTreeSet;

use helix_agents_core::CallId;
use helix_agents_core::message::ResultStatus;
use helix_agents_core::session::Submission;

use super::context::{Ledger, ScheduleContext, WriteOutcome};
use super::interference::BESIDE;
use crate::SchedulerOutcome;
use crate::crash::compare::Stored;
use crate::crash::observer::ObservedCounts;
use crate::crash::play::Wanted;

/// Every violation that is found at the end of a schedule.
pub(super) fn violations_at_the_end(
    context: &ScheduleContext,
    rest: SchedulerOutcome,
    wanted: &Wanted,
) -> Vec<String> {
    let ledger = context.ledger();
    let mut all = ledger.violations.clone();
    match rest {
        SchedulerOutcome::Over => {}
        SchedulerOutcome::Stuck => all.push("a task waits without end".to_owned()),
        SchedulerOutcome::TooLong => all.push("a task does not end".to_owned()),
    }
    let stored = match context.stored() {
        Ok(stored) => stored,
        Err(why) => return vec![why],
    };
    let seen = context.observer.seen();
    all.extend(once(&seen, &stored));
    if !all.is_empty() {
        // The play did not end, so the checks of the end do not apply.
        all.extend(stored.flaws());
        return all;
    }
    all.extend(stored.flaws_at_the_end());
    all.extend(stored.flaws_of_the_tale());
    let appended = match ledger.appended {
        WriteOutcome::No => 0..=0,
        WriteOutcome::Perhaps => 0..=1,
        WriteOutcome::Yes => 1..=1,
    };
    let is_planned = !context.scenario.stops.is_empty();
    let was_stopped = is_planned || ledger.stop != WriteOutcome::No;
    let turns = &context.scenario.turns;
    all.extend(stored.flaws_of_the_account(turns, (BESIDE, appended), was_stopped));
    let stops = [ledger.stops.clone(), context.world.people.accepted()].concat();
    all.extend(stored.flaws_of_the_stops(&stops, &wanted.stored.failures()));
    all.extend(answers(&ledger, &stored));
    if !was_stopped && ledger.appended == WriteOutcome::No {
        all.extend(compared(context.eager, &ledger, &stored, &seen, wanted));
    }
    all
}

/// Checks that no call that must not be repeated was run twice, and that no call that was started is
/// reported as not executed.
fn once(seen: &ObservedCounts, stored: &Stored) -> Vec<String> {
    let mut all = Vec::new();
    for (call, (count, may_repeat)) in &seen.starts {
        if *count > 1 && !may_repeat {
            all.push(format!("call {call} was run {count} times"));
        }
        let result = stored.result_of(call);
        if result.is_some_and(|result| result.status == ResultStatus::NotExecuted) {
            all.push(format!(
                "call {call} was started, but is reported as not executed"
            ));
        }
    }
    all
}

/// Checks that every accepted answer reached the model.
fn answers(ledger: &Ledger, stored: &Stored) -> Vec<String> {
    let mut all = Vec::new();
    for (call, (pending, answer)) in &ledger.answers {
        let Some(result) = stored.result_of(call) else {
            all.push(format!(
                "the answer to call {call} was accepted, but is lost"
            ));
            continue;
        };
        let arrived = match &answer.submission {
            Submission::ClientToolResult {
                result: Some(value),
                ..
            } => result.status.is_success() && result.value() == *value,
            Submission::ClientToolResult { error, .. } => {
                let text = error.as_deref().unwrap_or_default();
                !result.status.is_success() && result.error_text().contains(text)
            }
            Submission::ApprovalResponse { approved: true, .. } => {
                result.status != ResultStatus::Denied
            }
            Submission::ApprovalResponse { .. } => result.status == ResultStatus::Denied,
            _ => false,
        };
        if !arrived {
            let kind = pending.kind;
            all.push(format!(
                "the answer to call {call} ({kind:?}) was accepted, but the model reads {:?}: {}",
                result.status, result.content
            ));
        }
    }
    all
}

/// Checks that a play without stops and added messages has the outcome of an undisturbed one.
fn compared(
    early: bool,
    ledger: &Ledger,
    stored: &Stored,
    seen: &ObservedCounts,
    wanted: &Wanted,
) -> Vec<String> {
    let mut all = Vec::new();
    let mut unsure: BTreeSet<CallId> = BTreeSet::new();
    for call in stored.unknown_results() {
        let may_repeat = seen.starts.get(&call).is_some_and(|(_, may)| *may);
        if may_repeat {
            all.push(format!(
                "call {call} may be run again, but was left unknown"
            ));
        }
        unsure.insert(call);
    }
    // An answer that came before the run ended may be missing from an undisturbed play.
    let answered = |call: &CallId| {
        let result = wanted.stored.result_of(call);
        result.is_some_and(|result| result.status != ResultStatus::NotExecuted)
    };
    for call in &ledger.offered {
        if !answered(call) {
            unsure.insert(call.clone());
        }
    }
    all.extend(stored.loose_differences(&wanted.stored, &unsure, early));
    all
}
