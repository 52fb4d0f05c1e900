//! The checks at the end of a schedule.

use std::collections::BTreeSet;

use helix_agents_core::CallId;
use helix_agents_core::message::ResultStatus;
use helix_agents_core::session::Submission;

use super::commit_checks::CommitChecks;
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
    let stored = match context.stored() {
        Ok(stored) => stored,
        Err(why) => return vec![why],
    };
    let unfinished = unfinished(context, rest, &stored);
    if !unfinished.is_empty() {
        return unfinished;
    }
    let ledger = context.ledger();
    let is_planned = !context.scenario.stops.is_empty();
    let was_stopped = is_planned || ledger.stop != WriteOutcome::No;
    let mut all = whole(context, &ledger, &stored, wanted, &BTreeSet::new());
    all.extend(stored.flaws_of_the_account(was_stopped));
    let beside = (BESIDE, ledger.appended.times());
    all.extend(stored.flaws_of_the_turns(&context.scenario.turns, beside));
    if !was_stopped && ledger.appended == WriteOutcome::No {
        let seen = context.observer.seen();
        all.extend(compared(context.eager, &ledger, &stored, &seen, wanted));
    }
    all
}

/// Every violation that is found when two rivals are done and the session has come to rest.
pub(super) fn violations_of_rivals(
    context: &ScheduleContext,
    rest: SchedulerOutcome,
    wanted: &Wanted,
    checks: &CommitChecks,
) -> Vec<String> {
    let stored = match context.stored() {
        Ok(stored) => stored,
        Err(why) => return vec![why],
    };
    let mut unfinished = unfinished(context, rest, &stored);
    if !unfinished.is_empty() {
        unfinished.extend(checks.flaws(&stored));
        return unfinished;
    }
    let ledger = context.ledger();
    let accepted = ledger.messages.values().any(|outcome| outcome.is_certain());
    if stored.session.is_none() && !accepted {
        return Vec::new();
    }
    let removed = checks.removed_calls();
    let mut all = whole(context, &ledger, &stored, wanted, &removed);
    if checks.was_cut() {
        // What a child said after the point to which the root went back is gone from the stream, and the child is not.
        let is_of_a_child = |flaw: &String| flaw.starts_with("under ");
        let is_of_the_stream = |flaw: &String| {
            let words = ["readers", "steps were announced"];
            words.iter().any(|word| flaw.contains(word))
        };
        all.retain(|flaw| !(is_of_a_child(flaw) && is_of_the_stream(flaw)));
    } else {
        all.extend(stored.flaws_of_the_account(true));
    }
    all.extend(checks.flaws_of_the_messages(ledger.messages.iter(), &stored));
    all.extend(stored.flaws_of_the_senders(&ledger.told));
    all.extend(timeouts(&ledger, &stored, checks.was_cut()));
    all.extend(checks.flaws(&stored));
    all
}

/// Checks that a call that has timed out has no other answer, and that a late answer is told once.
fn timeouts(ledger: &Ledger, stored: &Stored, was_cut: bool) -> Vec<String> {
    let mut all = Vec::new();
    for call in &ledger.expired {
        if ledger.answers.contains_key(call) {
            all.push(format!(
                "call {call} has timed out, and its answer was accepted"
            ));
        }
        let status = stored.result_of(call).map(|result| result.status);
        if status.is_some_and(|status| status.is_success()) {
            all.push(format!("call {call} has timed out, but is {status:?}"));
        }
    }
    for call in &ledger.late {
        let told = stored.times_told_of(call);
        if told > 1 || (told == 0 && !was_cut) {
            all.push(format!(
                "the model was told {told} times of the late answer to call {call}"
            ));
        }
    }
    all
}

/// The violations because of which the checks of the end do not apply.
fn unfinished(context: &ScheduleContext, rest: SchedulerOutcome, stored: &Stored) -> Vec<String> {
    let mut all = context.ledger().violations.clone();
    match rest {
        SchedulerOutcome::Over => {}
        SchedulerOutcome::Stuck => all.push("a task waits without end".to_owned()),
        SchedulerOutcome::TooLong => all.push("a task does not end".to_owned()),
    }
    all.extend(once(&context.observer.seen(), stored));
    if !all.is_empty() {
        all.extend(stored.flaws());
    }
    all
}

/// The violations that can be seen without an undisturbed play.
fn whole(
    context: &ScheduleContext,
    ledger: &Ledger,
    stored: &Stored,
    wanted: &Wanted,
    removed: &BTreeSet<CallId>,
) -> Vec<String> {
    let mut all = stored.flaws_at_the_end();
    all.extend(stored.flaws_of_the_tale());
    let stops = [ledger.stops.clone(), context.world.people.accepted()].concat();
    all.extend(stored.flaws_of_the_stops(&stops, &wanted.stored.failures()));
    all.extend(answers(ledger, stored, removed));
    all
}

/// Checks that no call that must not be repeated was run twice, and that no call that was started is
/// reported as not executed.
fn once(seen: &ObservedCounts, stored: &Stored) -> Vec<String> {
    let mut all = Vec::new();
    for ((session, call), (count, may_repeat)) in &seen.started {
        if *count > 1 && !may_repeat {
            all.push(format!("call {call} was run {count} times"));
        }
        let result = stored.session(session);
        let result = result.and_then(|stored| stored.result_of(call));
        if result.is_some_and(|result| result.status == ResultStatus::NotExecuted) {
            all.push(format!(
                "call {call} was started, but is reported as not executed"
            ));
        }
    }
    all
}

/// Checks that every accepted answer reached the model, unless its call was removed.
fn answers(ledger: &Ledger, stored: &Stored, removed: &BTreeSet<CallId>) -> Vec<String> {
    let mut all = Vec::new();
    for (call, (pending, answer)) in &ledger.answers {
        if removed.contains(call) {
            continue;
        }
        // The session of a sub-agent whose call was removed is not looked at.
        let Some(stored) = stored.session(&pending.session_id) else {
            continue;
        };
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
            Submission::Expired { .. } => {
                matches!(
                    result.status,
                    ResultStatus::TimedOut | ResultStatus::Unknown
                )
            }
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
