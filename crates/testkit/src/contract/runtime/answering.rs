//! Answers that come too early, too late or twice, and the run that continues after them.

use helix_agents_core::entries::{Continuation, ToolAnswer};
use helix_agents_core::session::{RunStatus, Submission, SubmissionOutcome};
use helix_agents_core::tool::ToolError;
use serde_json::json;

use super::super::builders::call;
use super::agents::{Gate, Log, agent, browser, calling, gated, noted, tool};
use super::subject::session;
use super::{MockReply, RuntimeSubject};

/// An answer that comes while other calls run is used by the same run, which continues without a
/// pause.
pub async fn an_early_answer_is_used_by_the_running_run(on: &RuntimeSubject) {
    let (gate, log) = (Gate::default(), Log::default());
    let replies = [
        calling([("c1", "gated"), ("c2", "browser"), ("c3", "guarded")]),
        MockReply::text("done"),
    ];
    let tools = [
        gated("gated", &gate),
        browser("browser"),
        noted("guarded", &log).approval(),
    ];
    let agent = agent(replies).tools(tools).build().unwrap();
    let run = on.start(&agent, "go").await;
    gate.reached(1).await;
    for answer in [
        on.waiting("c2").await.result("here"),
        on.waiting("c3").await.approve(),
    ] {
        let submitted = on.answered(answer).await;
        assert_eq!(
            submitted.continuation,
            Continuation::None,
            "the run takes it"
        );
    }
    gate.open();
    let ended = on.ended(&run).await;
    assert_eq!(ended.status, RunStatus::Completed);
    assert_eq!(on.runs().await, [ended]);
    assert_eq!(log.take(), ["guarded c3 {}"]);
    assert_eq!(
        on.transcript_lines().await[2..5],
        ["c1=success: done", "c2=success: here", "c3=success: done"]
    );
    let state = on.snapshot().await.state;
    assert!(state.pending_client_tool_calls.is_empty());
    assert!(state.client_tool_call_ownership.is_empty());
    let names = super::lines::names(&on.payloads().await);
    assert!(!names.contains(&"run_paused".to_owned()));
}

/// A run whose calls were answered only in part while others ran pauses for the missing answers.
pub async fn a_run_pauses_for_calls_that_are_still_open(on: &RuntimeSubject) {
    let gate = Gate::default();
    let replies = [
        calling([("c1", "gated"), ("c2", "browser"), ("c3", "browser")]),
        MockReply::text("done"),
    ];
    let tools = [gated("gated", &gate), browser("browser")];
    let agent = agent(replies).tools(tools).build().unwrap();
    let run = on.start(&agent, "go").await;
    gate.reached(1).await;
    on.answered(on.waiting("c2").await.result("early")).await;
    gate.open();
    let paused = on.ended(&run).await;
    assert_eq!(paused.status, RunStatus::SuspendedStepPartial);
    let waits = paused.suspended.expect("it says for what").tool_call_ids;
    assert_eq!(waits, [call("c3")]);
    let submitted = on.answered(on.waiting("c3").await.result("late")).await;
    assert_eq!(submitted.continuation, Continuation::CallerResumes);
    on.resumed().await;
    assert_eq!(
        on.transcript_lines().await[2..5],
        ["c1=success: done", "c2=success: early", "c3=success: late"]
    );
}

/// An answer to a call of a failed run, or to an unknown call, gets the outcome
/// `unknown_tool_call`.
pub async fn a_call_of_a_failed_run_is_unknown(on: &RuntimeSubject) {
    let gate = Gate::default();
    let fails = gate.clone();
    let fatal = tool("fatal", move |_, _| {
        let gate = fails.clone();
        async move {
            gate.pass().await;
            Err(ToolError::fatal("over"))
        }
    });
    let replies = [calling([("c1", "browser"), ("c2", "fatal"), ("c3", "pay")])];
    let tools = [
        browser("browser"),
        fatal,
        noted("pay", &Log::default()).approval(),
    ];
    let agent = agent(replies).tools(tools).build().unwrap();
    let run = on.start(&agent, "go").await;
    gate.reached(1).await;
    let asked = [on.waiting("c1").await, on.waiting("c3").await];
    gate.open();
    let failed = on.ended(&run).await;
    assert_eq!(failed.status, RunStatus::Failed);
    let [client, gated] = asked;
    let never = Submission::result(call("never"), json!(1));
    for answer in [
        client.result("late"),
        gated.approve(),
        ToolAnswer::new(session(), never),
    ] {
        let before = on.everything().await;
        let submitted = on.submit(answer).await.unwrap();
        assert_eq!(submitted.outcome, SubmissionOutcome::UnknownToolCall);
        assert_eq!(submitted.continuation, Continuation::None);
        assert_eq!(on.everything().await, before, "nothing is written");
    }
}

/// An accepted answer is the result of its call, also when the run fails at the same time.
pub async fn an_accepted_answer_outlives_a_failure(on: &RuntimeSubject) {
    let gate = Gate::default();
    let fails = gate.clone();
    let fatal = tool("fatal", move |_, _| {
        let gate = fails.clone();
        async move {
            gate.pass().await;
            Err(ToolError::fatal("over"))
        }
    });
    let replies = [calling([
        ("c1", "browser"),
        ("c2", "fatal"),
        ("c3", "browser"),
    ])];
    let tools = [browser("browser"), fatal];
    let agent = agent(replies).tools(tools).build().unwrap();
    let run = on.start(&agent, "go").await;
    gate.reached(1).await;
    let waiting = on.waiting("c1").await;
    on.answered(waiting.result("paid for")).await;
    gate.open();
    assert_eq!(on.ended(&run).await.status, RunStatus::Failed);
    assert_eq!(
        on.transcript_lines().await[2..],
        [
            "c1=success: paid for",
            r#"c2=error: {"error":"The tool failed."}"#,
            r#"c3=not_executed: {"error":"Not executed: the run ended before it."}"#,
        ]
    );
    let again = on.submit(waiting.result("again")).await.unwrap();
    assert_eq!(again.outcome, SubmissionOutcome::AlreadyCompleted);
}

/// An error instead of an approval abandons the call: it is not executed.
pub async fn an_approval_can_be_given_up(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [calling([("c1", "pay")]), MockReply::text("done")];
    let agent = agent(replies)
        .tools(noted("pay", &log).approval())
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    on.answered(on.waiting("c1").await.error("nobody is here"))
        .await;
    let run = on.resumed().await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(
        on.transcript_lines().await[2],
        r#"c1=not_executed: {"error":"Not executed: nobody is here"}"#
    );
}

/// Without `auto_continue`, the last answer asks its caller to resume the session; earlier answers
/// ask nobody.
pub async fn the_caller_resumes_after_the_last_answer(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "browser"), ("c2", "browser")]),
        MockReply::text("done"),
    ];
    let agent = agent(replies).tools(browser("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    let first = on.answered(on.waiting("c2").await.result(2)).await;
    assert_eq!(first.continuation, Continuation::None);
    let last = on.answered(on.waiting("c1").await.result(1)).await;
    assert_eq!(last.continuation, Continuation::CallerResumes);
    assert_eq!(last.owner, session());
    assert_eq!(on.runs().await.len(), 1);
    assert_eq!(on.resumed().await.status, RunStatus::Completed);
}

/// With `auto_continue`, the last answer starts the run that continues the turn, once.
pub async fn the_last_answer_continues_by_itself(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        calling([("c1", "browser"), ("c2", "pay")]),
        MockReply::text("done"),
    ];
    let tools = [browser("browser"), noted("pay", &log).approval()];
    let agent = agent(replies).tools(tools).build().unwrap();
    on.turn(&agent, "go").await;
    let continuing = on.auto_continuing().await;
    let first = continuing.answered(on.waiting("c2").await.approve()).await;
    assert_eq!(first.continuation, Continuation::None);
    let answer = on.waiting("c1").await.result(1);
    let last = continuing.answered(answer.clone()).await;
    assert_eq!(last.continuation, Continuation::NewRun);
    let runs = on.runs().await;
    assert_eq!(runs.len(), 2, "it is durable when the answer returns");
    let run = runs.last().expect("there are two").id.clone();
    let run = helix_agents_core::runtime::StartedRun::new(session().as_root(), run);
    assert_eq!(on.ended(&run).await.status, RunStatus::Completed);
    let again = continuing.submit(answer).await.unwrap();
    assert_eq!(again.continuation, Continuation::None);
    assert_eq!(on.runs().await.len(), 2);
    assert_eq!(log.take(), ["pay c2 {}"]);
}
