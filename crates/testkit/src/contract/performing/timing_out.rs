//! Timeouts and late answers beside other writers, and on a store that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helix_agents_core::agent::Agent;
use helix_agents_core::entries::{Continuation, Entries};
use helix_agents_core::message::{Message, ResultStatus};
use helix_agents_core::session::{RunStatus, SubmissionOutcome};
use helix_agents_core::store::{Change, Commit};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_core::tool::OnUnknown;

use super::super::Subject;
use super::super::builders::call;
use super::super::runtime::agents::{Log, browser, calling, noted, of_model};
use super::faulty_store::{CommitFate, FaultyStore, Meanwhile};
use super::run_driver::{RunDriver, answer, performer, session_id};
use crate::{MockModel, MockReply, SequentialIds, VirtualClock};

const MINUTE: Duration = Duration::from_secs(60);
const LATE: SubmissionOutcome = SubmissionOutcome::LateAnswerAfterTimeout;

/// An agent that asks the client once.
fn asking() -> Agent {
    let replies = [calling([("c1", "ask")]), MockReply::text("done")];
    let model = Arc::new(MockModel::replies(replies));
    let ask = browser("ask").deadline(MINUTE);
    of_model(&model).tools(ask).build().unwrap()
}

/// A run that waits for call `c1`, whose deadline is now.
async fn overdue(on: &Subject) -> RunDriver {
    let mut driver = RunDriver::new(on, asking()).await;
    driver.drive().await;
    assert!(driver.run().await.status.is_suspended());
    let found = driver.found().await.state.pending_client_tool_calls;
    let deadline = found[&call("c1")].deadline.expect("the tool has one");
    driver.ports.clock.sleep_until(deadline).await;
    assert_eq!(driver.ports.clock.now(), deadline);
    driver
}

/// The entries of another process, in front of a store that chooses the fate of its first commit of an
/// entry that answers or tells something.
fn beside(
    on: &Subject,
    clock: &Arc<dyn Clock>,
    mut fate: impl FnMut() -> CommitFate + Send + 'static,
) -> Entries {
    let met = AtomicBool::new(false);
    let store = FaultyStore::new(on, move |commit| {
        if !is_about_an_answer(commit) || met.swap(true, Ordering::SeqCst) {
            return CommitFate::Made;
        }
        fate()
    });
    let store = Arc::new(store);
    let ids = Arc::new(SequentialIds::new());
    Entries::new(store.clone(), store, Arc::clone(clock), ids)
}

/// Lets these entries act before the commit is made.
fn first<F>(
    entries: Entries,
    act: impl Fn(Entries) -> F + Send + 'static,
) -> impl Fn() -> CommitFate + Send
where
    F: Future<Output = ()> + Send + 'static,
{
    move || CommitFate::After(Box::pin(act(entries.clone())) as Meanwhile)
}

fn is_about_an_answer(commit: &Commit) -> bool {
    let mut changes = commit.changes.iter();
    changes.any(|(_, change)| {
        matches!(
            change,
            Change::Answer(..) | Change::Notice(_) | Change::RemovePending(_)
        )
    })
}

/// A clock that is one millisecond behind that of a run.
fn slow_clock(driver: &RunDriver) -> Arc<dyn Clock> {
    let now = driver.ports.clock.now().as_millis() - 1;
    Arc::new(VirtualClock::new(Timestamp::from_millis(now)))
}

/// Another process answers in time, by its clock.
fn answers_in_time(on: &Subject, driver: &RunDriver) -> impl Fn() -> CommitFate + Send + use<> {
    let other = beside(on, &slow_clock(driver), || CommitFate::Made);
    first(other, async |other: Entries| {
        let stored = other.submit(&answer("c1", "red")).await.unwrap();
        assert_eq!(stored.outcome, SubmissionOutcome::Accepted);
    })
}

/// Another process answers late.
fn answers_late(driver: &RunDriver) -> impl Fn() -> CommitFate + Send + use<> {
    first(driver.entries.clone(), async |other: Entries| {
        let told = other.submit(&answer("c1", "blue")).await.unwrap();
        assert_eq!(told.outcome, LATE);
    })
}

/// Continues the run to its end, and returns the status of the result of `c1` and how often the model
/// was told of a late answer.
async fn outcome(driver: &mut RunDriver) -> (ResultStatus, usize) {
    if driver.run().await.status.is_suspended() {
        let resumed = driver.entries.resume(&session_id(), &performer()).await;
        driver.state = resumed.unwrap();
        driver.drive().await;
    }
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    let messages = driver.messages().await;
    let is_notice = |message: &&Message| matches!(message, Message::User(user) if user.is_hidden());
    let told = messages.iter().filter(is_notice).count();
    (driver.results().await[0].status, told)
}

/// An answer is stored just before the timeout of its call is written: the answer counts, and the timeout does
/// nothing.
pub async fn an_answer_just_before_a_timeout_counts(on: &Subject) {
    let mut driver = overdue(on).await;
    let entries = beside(on, &driver.ports.clock, answers_in_time(on, &driver));
    let expired = entries.expire(session_id().as_root()).await.unwrap();
    assert_eq!(expired.calls, []);
    assert_eq!(outcome(&mut driver).await, (ResultStatus::Success, 0));
}

/// The timeout of a call is written just before an answer to it is stored: the answer is late.
pub async fn an_answer_just_after_a_timeout_is_late(on: &Subject) {
    let mut driver = overdue(on).await;
    let others = first(driver.entries.clone(), async |other: Entries| {
        let expired = other.expire(session_id().as_root()).await.unwrap();
        assert_eq!(expired.calls, [call("c1")]);
        assert_eq!(expired.continuation, Continuation::CallerResumes);
    });
    let entries = beside(on, &slow_clock(&driver), others);
    let submitted = entries.submit(&answer("c1", "red")).await.unwrap();
    assert_eq!(submitted.outcome, LATE);
    assert_eq!(submitted.continuation, Continuation::None);
    assert_eq!(outcome(&mut driver).await, (ResultStatus::TimedOut, 1));
}

/// An answer is stored just before a resume takes its call as timed out: the run continues with the answer.
pub async fn an_answer_just_before_a_resume_is_taken(on: &Subject) {
    let mut driver = overdue(on).await;
    let entries = beside(on, &driver.ports.clock, answers_in_time(on, &driver));
    driver.state = entries.resume(&session_id(), &performer()).await.unwrap();
    driver.drive().await;
    assert_eq!(outcome(&mut driver).await, (ResultStatus::Success, 0));
}

/// A second late answer comes just before the first times the call out and is told: one of them is told.
pub async fn one_of_two_late_answers_is_told(on: &Subject) {
    let mut driver = overdue(on).await;
    let entries = beside(on, &driver.ports.clock, answers_late(&driver));
    let submitted = entries.submit(&answer("c1", "red")).await;
    assert_eq!(submitted.unwrap().outcome, LATE);
    assert_eq!(outcome(&mut driver).await, (ResultStatus::TimedOut, 1));
}

/// The same for a call whose timeout a run has taken.
pub async fn one_of_two_late_answers_to_an_ended_run_is_told(on: &Subject) {
    let mut driver = overdue(on).await;
    let expired = driver.entries.expire(session_id().as_root()).await;
    assert_eq!(expired.unwrap().calls, [call("c1")]);
    assert_eq!(outcome(&mut driver).await, (ResultStatus::TimedOut, 0));
    let entries = beside(on, &driver.ports.clock, answers_late(&driver));
    let submitted = entries.submit(&answer("c1", "red")).await.unwrap();
    assert_eq!(submitted.outcome, LATE);
    assert_eq!(outcome(&mut driver).await, (ResultStatus::TimedOut, 1));
}

/// A timeout whose acknowledgement is lost is made once, and reported.
pub async fn a_timeout_whose_acknowledgement_is_lost_is_made_once(on: &Subject) {
    for fate in [|| CommitFate::Unacknowledged, || CommitFate::Failed] {
        let mut driver = overdue(on).await;
        let entries = beside(on, &driver.ports.clock, fate);
        let expired = entries.expire(session_id().as_root()).await.unwrap();
        assert_eq!(expired.calls, [call("c1")]);
        assert_eq!(expired.continuation, Continuation::CallerResumes);
        assert_eq!(outcome(&mut driver).await, (ResultStatus::TimedOut, 0));
        on.sessions().delete_session(&session_id()).await.unwrap();
    }
}

/// A late answer whose acknowledgement is lost is told once: when it times its call out, when the timeout was
/// made before, and when a run has taken it.
pub async fn a_late_answer_whose_acknowledgement_is_lost_is_told_once(on: &Subject) {
    for fate in [|| CommitFate::Unacknowledged, || CommitFate::Failed] {
        for before in ["nothing", "expired", "taken"] {
            let mut driver = overdue(on).await;
            if before != "nothing" {
                let expired = driver.entries.expire(session_id().as_root()).await;
                assert_eq!(expired.unwrap().calls, [call("c1")]);
            }
            if before == "taken" {
                outcome(&mut driver).await;
            }
            let entries = beside(on, &driver.ports.clock, fate);
            let submitted = entries.submit(&answer("c1", "red")).await.unwrap();
            assert_eq!(submitted.outcome, LATE, "{before}");
            let continues = match before {
                "nothing" => Continuation::CallerResumes,
                _ => Continuation::None,
            };
            assert_eq!(submitted.continuation, continues, "{before}");
            assert_eq!(
                outcome(&mut driver).await,
                (ResultStatus::TimedOut, 1),
                "{before}"
            );
            on.sessions().delete_session(&session_id()).await.unwrap();
        }
    }
}

/// A late answer comes while the model is asked: it stands after the reply, and the model is told in the
/// next turn.
pub async fn a_late_answer_beside_a_model_call_comes_after_its_reply(on: &Subject) {
    let mut driver = overdue(on).await;
    let resumed = driver.entries.resume(&session_id(), &performer()).await;
    driver.state = resumed.unwrap();
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let told = driver.entries.submit(&answer("c1", "red")).await.unwrap();
    assert_eq!(
        (told.outcome, told.continuation),
        (LATE, Continuation::None)
    );
    driver.through(effects).await;
    let messages = driver.messages().await;
    let is_notice = matches!(messages.last(), Some(Message::User(user)) if user.is_hidden());
    assert!(is_notice, "{messages:?}");
    assert_eq!(outcome(&mut driver).await, (ResultStatus::TimedOut, 1));
}

/// Nobody answers whether a call that may have run took effect: its outcome stays unknown.
pub async fn a_question_about_an_unknown_outcome_times_out(on: &Subject) {
    let log = Log::default();
    let replies = [calling([("c1", "pay")]), MockReply::text("done")];
    let model = Arc::new(MockModel::replies(replies));
    let pay = noted("pay", &log)
        .on_unknown(OnUnknown::Pause)
        .deadline(MINUTE);
    let agent = of_model(&model).tools(pay).build().unwrap();
    let mut driver = RunDriver::new(on, agent.clone()).await;
    let effects = driver.begin();
    driver.next(&effects).await;
    driver.taken_over(&agent).await;
    driver.drive().await;
    assert!(driver.run().await.status.is_suspended());
    let later = driver.ports.clock.now().saturating_add(MINUTE);
    driver.ports.clock.sleep_until(later).await;
    let expired = driver.entries.expire(session_id().as_root()).await;
    assert_eq!(expired.unwrap().calls, [call("c1")]);
    assert_eq!(outcome(&mut driver).await, (ResultStatus::Unknown, 0));
    let late = answer("c1", "paid");
    assert_eq!(driver.entries.submit(&late).await.unwrap().outcome, LATE);
    assert_eq!(outcome(&mut driver).await, (ResultStatus::Unknown, 1));
    assert_eq!(log.take(), [""; 0], "it is not run again");
}
