//! Answers that come after the deadline of their call.

use std::sync::Arc;

use helix_agents_core::entries::{Continuation, Submitted, ToolAnswer};
use helix_agents_core::error::ErrorCode;
use helix_agents_core::runtime::StartedRun;
use helix_agents_core::session::{RunStatus, Submission, SubmissionOutcome};
use serde_json::json;

use super::super::builders::{approval, call};
use super::agents::{Log, agent, calling, noted, of_model};
use super::recording_hooks::RecordingHooks;
use super::subject::session;
use super::timing_out::{NOT_ANSWERED, expire, let_pass, limited};
use super::{MockReply, RuntimeSubject};
use crate::MockModel;

const LATE: &str = "hidden: The client answered call c1 of browser after its deadline, when it had \
                    already been reported as timed out. Its answer: ";

/// Submits an answer that must be late, and another that must change nothing.
async fn late(on: &RuntimeSubject, answer: ToolAnswer) -> Submitted {
    let outcome = SubmissionOutcome::LateAnswerAfterTimeout;
    let submitted = on.submit(answer.clone()).await.unwrap();
    assert_eq!(submitted.outcome, outcome);
    assert_eq!(submitted.owner, session());
    let before = on.everything().await;
    let again = on.restarted().await.submit(answer).await.unwrap();
    assert_eq!(again.outcome, outcome);
    assert_eq!(again.continuation, Continuation::None);
    assert_eq!(on.everything().await, before, "nothing is recorded");
    submitted
}

/// How often the history tells of a late answer.
async fn times_told(on: &RuntimeSubject) -> usize {
    let lines = on.transcript_lines().await.into_iter();
    lines.filter(|line| line.starts_with("hidden: ")).count()
}

/// An answer before the deadline is the result of its call.
pub async fn an_answer_before_the_deadline_is_in_time(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")]), MockReply::text("done")];
    let agent = agent(replies).tools(limited("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    let waiting = on.waiting("c1").await;
    let submitted = on.answered(waiting.result("red")).await;
    assert_eq!(submitted.continuation, Continuation::CallerResumes);
    // The deadline passes before a run takes the answer.
    let mut asked = on.waiting_or_answered("c1").await;
    asked.deadline = Some(on.clock.now());
    on.put_pending(asked).await;
    assert_eq!(expire(on).await.calls, []);
    let again = on.submit(waiting.result("blue")).await.unwrap();
    assert_eq!(again.outcome, SubmissionOutcome::AlreadyCompleted);
    on.resumed().await;
    assert_eq!(
        on.transcript_lines().await[2..],
        ["c1=success: red", "assistant: done"]
    );
}

/// An answer at the deadline is late: the call times out with it, and the model is told of it once, after the
/// result of the call.
///
/// proves: CLT-06
pub async fn an_answer_at_the_deadline_is_late(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")]), MockReply::text("done")];
    let model = Arc::new(MockModel::replies(replies));
    let agent = of_model(&model).tools(limited("browser"));
    let agent = agent.build().unwrap();
    on.turn(&agent, "go").await;
    let waiting = on.waiting("c1").await;
    let_pass(on, &["c1"]).await;
    let submitted = late(on, waiting.result(json!({ "color": "red" }))).await;
    assert_eq!(submitted.continuation, Continuation::CallerResumes);
    assert_eq!(expire(on).await.calls, [], "it has timed out");
    assert_eq!(on.resumed().await.status, RunStatus::Completed);
    assert_eq!(
        on.transcript_lines().await[1..],
        [
            "assistant: c1=browser{}".to_owned(),
            format!("c1=timed_out: {NOT_ANSWERED}"),
            format!(r#"{LATE}{{"color":"red"}}"#),
            "assistant: done".to_owned(),
        ]
    );
    let seen = model.seen();
    let last = seen.last().expect("the model was asked");
    assert!(format!("{last:?}").contains("Its answer"), "{last:?}");
}

/// With `auto_continue`, a late answer that times out the last open call starts the run that continues.
pub async fn a_late_answer_continues_by_itself(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")]), MockReply::text("done")];
    let agent = agent(replies).tools(limited("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    let waiting = on.waiting("c1").await;
    let_pass(on, &["c1"]).await;
    let continuing = on.auto_continuing().await;
    let submitted = continuing.submit(waiting.result("red")).await.unwrap();
    assert_eq!(submitted.outcome, SubmissionOutcome::LateAnswerAfterTimeout);
    assert_eq!(submitted.continuation, Continuation::NewRun);
    let run = on.runs().await.pop().expect("it runs").id;
    let run = StartedRun::new(session().as_root(), run);
    assert_eq!(on.ended(&run).await.status, RunStatus::Completed);
    assert_eq!(times_told(on).await, 1);
}

/// A late answer before the run has taken the timeout does not replace it. The model is told of it after the
/// result.
///
/// proves in part: CLT-06
pub async fn a_late_answer_does_not_replace_a_timeout(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")]), MockReply::text("done")];
    let agent = agent(replies).tools(limited("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    let waiting = on.waiting("c1").await;
    let_pass(on, &["c1"]).await;
    expire(on).await;
    let submitted = late(on, waiting.result("red")).await;
    assert_eq!(submitted.continuation, Continuation::None);
    on.resumed().await;
    assert_eq!(
        on.transcript_lines().await[2..],
        [
            format!("c1=timed_out: {NOT_ANSWERED}"),
            format!("{LATE}red"),
            "assistant: done".to_owned(),
        ]
    );
}

/// A late answer after the turn is told to the model in the next one.
///
/// proves in part: CLT-06
pub async fn a_late_answer_to_a_completed_session_is_told_in_the_next_turn(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "browser")]),
        MockReply::text("done"),
        MockReply::text("I see"),
    ];
    let log = Log::default();
    let agent = agent(replies).tools(limited("browser"));
    let agent = agent.hooks(RecordingHooks::new(&log)).build().unwrap();
    on.turn(&agent, "go").await;
    let waiting = on.waiting("c1").await;
    let_pass(on, &["c1"]).await;
    on.resumed().await;
    let submitted = late(on, waiting.error("no screen")).await;
    assert_eq!(submitted.continuation, Continuation::None);
    log.take();
    assert_eq!(
        on.turn(&agent, "and now").await.status,
        RunStatus::Completed
    );
    assert_eq!(
        on.transcript_lines().await[2..],
        [
            format!("c1=timed_out: {NOT_ANSWERED}"),
            "assistant: done".to_owned(),
            "hidden: The client failed at call c1 of browser after its deadline, when it had already \
             been reported as timed out. Its error: no screen"
                .to_owned(),
            "user: and now".to_owned(),
            "assistant: I see".to_owned(),
        ]
    );
    assert_eq!(
        log.take()[0],
        r#"start ["and now"]"#,
        "the notice is no input"
    );
}

/// A late answer that comes while a later step waits stands after that step: never between a call and its
/// result.
pub async fn a_late_answer_does_not_stand_between_a_call_and_its_result(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "browser")]),
        calling([("c2", "browser"), ("c3", "browser")]),
        MockReply::text("done"),
    ];
    let agent = agent(replies).tools(limited("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    let waiting = on.waiting("c1").await;
    let_pass(on, &["c1"]).await;
    assert!(on.resumed().await.status.is_suspended());
    let count = on.messages().await.len();
    late(on, waiting.result("red")).await;
    assert_eq!(on.messages().await.len(), count, "it waits for the step");
    for id in ["c2", "c3"] {
        on.answered(on.waiting(id).await.result(id)).await;
    }
    on.restarted().await.resumed().await;
    assert_eq!(
        on.transcript_lines().await[2..],
        [
            format!("c1=timed_out: {NOT_ANSWERED}"),
            "assistant: c2=browser{} c3=browser{}".to_owned(),
            "c2=success: c2".to_owned(),
            "c3=success: c3".to_owned(),
            format!("{LATE}red"),
            "assistant: done".to_owned(),
        ]
    );
}

/// A call that timed out before anybody approved it is never run, also if it is approved later.
pub async fn an_approval_after_the_deadline_runs_nothing(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        calling([("c1", "pay"), ("c2", "pay")]),
        MockReply::text("done"),
    ];
    let pay = noted("pay", &log).approval();
    let pay = pay.deadline(std::time::Duration::from_secs(3_600));
    let agent = agent(replies).tools(pay).build().unwrap();
    on.turn(&agent, "go").await;
    let (one, other) = (on.waiting("c1").await, on.waiting("c2").await);
    let_pass(on, &["c1", "c2"]).await;
    late(on, one.approve()).await;
    on.resumed().await;
    late(on, other.deny("too much")).await;
    assert_eq!(log.take(), [""; 0]);
    let lines = on.transcript_lines().await;
    let undecided = r#"timed_out: {"error":"Nobody decided on this call before its deadline; it was not executed."}"#;
    assert_eq!(
        lines[2..],
        [
            format!("c1={undecided}"),
            format!("c2={undecided}"),
            "hidden: Call c1 of pay was approved after its deadline; it was not executed."
                .to_owned(),
            "assistant: done".to_owned(),
            "hidden: Call c2 of pay was denied after its deadline (too much); it was not executed."
                .to_owned(),
        ]
    );
}

/// A late answer is checked like one in time; one that does not fit is refused and not told.
pub async fn a_late_answer_is_checked(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "browser"), ("c2", "pay")]),
        MockReply::text("done"),
    ];
    let pay = noted("pay", &Log::default()).approval();
    let pay = pay.deadline(std::time::Duration::from_secs(3_600));
    let agent = agent(replies).tools([limited("browser"), pay]);
    let agent = agent.build().unwrap();
    on.turn(&agent, "go").await;
    let (client, gated) = (on.waiting("c1").await, on.waiting("c2").await);
    let refuse = async |submission: Submission| {
        let answer = ToolAnswer::new(session(), submission);
        on.refuses(ErrorCode::ValidationError, async || on.submit(answer).await)
            .await;
    };
    let refuse_all = async || {
        let other = approval("other");
        refuse(Submission::decision(call("c1"), other.clone(), true, None)).await;
        refuse(Submission::decision(call("c2"), other, true, None)).await;
        refuse(Submission::result(call("c2"), json!(1))).await;
        let result = Submission::result(call("c1"), json!(1));
        refuse(result.bound_to(gated.digest.clone(), client.run_id.clone())).await;
        let large = "x".repeat(2 * 1024 * 1024);
        refuse(Submission::result(call("c1"), json!(large))).await;
    };
    let_pass(on, &["c1", "c2"]).await;
    refuse_all().await;
    assert_eq!(expire(on).await.calls.len(), 2, "nothing has timed out");
    refuse_all().await;
    on.resumed().await;
    refuse_all().await;
    assert_eq!(times_told(on).await, 0);
    late(on, client.result("red")).await;
    late(on, gated.error("on leave")).await;
    assert_eq!(times_told(on).await, 2);
}
