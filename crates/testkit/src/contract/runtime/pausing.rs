//! Runs that suspend because a client or a person must act.

use std::time::Duration;

use helix_agents_core::error::{Coded, ErrorCode};
use helix_agents_core::session::{
    CallState, PendingCall, PendingKind, RunStatus, SubmissionOutcome,
};
use helix_agents_core::store::{Lookup, Page};
use helix_agents_core::stream::StreamStatus;
use helix_agents_core::usage::UsageKind;
use serde_json::json;

use super::super::builders::call;
use super::agents::{Log, agent, browser, calling, noted};
use super::lines::names;
use super::subject::{calls, session};
use super::{MockReply, RuntimeSubject};

/// A call that the client runs becomes a pending call and a chunk that announces it, and the run
/// ends.
///
/// proves: CLT-01
pub async fn a_clients_call_waits_and_the_run_ends(on: &RuntimeSubject) {
    let replies = [MockReply::calls([("c1", "browser", json!({ "url": "/" }))])];
    let deadline = Duration::from_secs(60);
    let tool = browser("browser").deadline(deadline);
    let agent = agent(replies).tools(tool).build().unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::SuspendedClientTool);
    let found = on.waiting("c1").await;
    let input = json!({ "url": "/" });
    let asked = found.created_at;
    let mut entry = PendingCall::client(
        session(),
        run.id,
        call("c1"),
        "browser",
        input.clone(),
        asked,
    );
    entry.deadline = Some(asked.saturating_add(deadline));
    assert_eq!(found, entry);
    assert_eq!(
        names(&on.payloads().await),
        [
            "run_started",
            "tool_start c1",
            "checkpoint_created",
            "run_paused"
        ]
    );
    let told = on.payloads().await.into_iter().any(|chunk| {
        chunk
            == helix_agents_core::stream::ChunkPayload::ToolStart {
                tool_call_id: call("c1"),
                tool_name: "browser".into(),
                arguments: input.clone().into(),
            }
    });
    assert!(told, "readers learn what the client is to do");
}

/// When a run waits for a person, everything is in the store: the open step, the pending call, a
/// checkpoint that names the step, the paused stream. Nothing is only in memory.
///
/// proves: SUS-01
pub async fn a_paused_run_is_in_the_store_alone(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")])];
    let agent = agent(replies).tools(browser("browser")).build().unwrap();
    let run = on.turn(&agent, "go").await;
    let found = on.snapshot().await;
    let open = found.open_step.expect("the step is open");
    assert_eq!(found.state.suspended_step_id.as_ref(), Some(&open.id));
    assert_eq!(found.lease, None);
    assert_eq!(open.run_id, run.id);
    let states: Vec<_> = open.calls.iter().map(|call| call.state).collect();
    assert_eq!(states, [CallState::AwaitingClient]);
    let checkpoint = on.checkpoints().await.pop().expect("there is a checkpoint");
    assert_eq!(checkpoint.open_step, Some(open.id));
    assert_eq!(found.state.checkpoint_id, Some(checkpoint.id));
    assert_eq!(
        on.transcript_lines().await,
        ["user: go"],
        "no call without its result"
    );
    assert_eq!(on.stream_status().await, Some(StreamStatus::Paused));
}

/// A process that never saw the run accepts the answer, and another one resumes it.
///
/// proves: SUS-02
pub async fn other_processes_answer_and_resume(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        calling([("c1", "noted"), ("c2", "browser")]),
        MockReply::text("done"),
    ];
    let tools = [noted("noted", &log), browser("browser")];
    let agent = agent(replies).tools(tools).build().unwrap();
    on.turn(&agent, "go").await;
    let second = on.restarted().await;
    let waiting = second.waiting("c2").await;
    second.answered(waiting.result(json!({ "n": 1 }))).await;
    drop(second);
    let third = on.restarted().await;
    let run = third.resumed().await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(log.take(), ["noted c1 {}"]);
    assert_eq!(
        third.transcript_lines().await,
        [
            "user: go",
            "assistant: c1=noted{} c2=browser{}",
            "c1=success: done",
            r#"c2=success: {"n":1}"#,
            "assistant: done",
        ]
    );
}

/// An answer is a durable write and starts nothing; resuming continues the run.
///
/// proves: SUS-03
pub async fn an_answer_starts_nothing(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")]), MockReply::text("done")];
    let agent = agent(replies).tools(browser("browser")).build().unwrap();
    let paused = on.turn(&agent, "go").await;
    on.answered(on.waiting("c1").await.result("here")).await;
    let elsewhere = on.restarted().await;
    let found = elsewhere.snapshot().await;
    assert_eq!(found.run, Some(paused));
    let pending = &found.state.pending_client_tool_calls[&call("c1")];
    let answer = pending.answer.as_ref().expect("the answer is stored");
    assert_eq!(
        answer.submission.tool_call_id(),
        &call("c1"),
        "it answers the call"
    );
    let store = &elsewhere.backend().store;
    let all = Lookup::Page(Page::ALL);
    let completed = store
        .answered(session().as_root(), all)
        .await
        .unwrap()
        .items;
    let completed: Vec<_> = completed.into_iter().map(|one| one.call).collect();
    assert_eq!(completed, calls(&["c1"]));
    assert_eq!(found.answered, completed, "the open step's are at hand");
    assert_eq!(elsewhere.transcript_lines().await, ["user: go"]);
    let run = elsewhere.resumed().await;
    assert_eq!(run.status, RunStatus::Completed);
    let state = elsewhere.snapshot().await.state;
    assert!(state.pending_client_tool_calls.is_empty());
    assert!(state.client_tool_call_ownership.is_empty());
    assert_eq!((state.suspended_step_id, state.resume_count), (None, 1));
}

/// A reply with calls for the host, for the client and for a person is suspended in part: the
/// host's calls are stored with their results and not run again.
///
/// proves: SUS-04
pub async fn a_mixed_batch_pauses_in_part(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        calling([
            ("c1", "guarded"),
            ("c2", "noted"),
            ("c3", "browser"),
            ("c4", "noted"),
        ]),
        MockReply::text("done"),
    ];
    let tools = [
        noted("guarded", &log).approval(),
        noted("noted", &log),
        browser("browser"),
    ];
    let agent = agent(replies).tools(tools).build().unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::SuspendedStepPartial);
    let mut ran = log.take();
    ran.sort();
    assert_eq!(ran, ["noted c2 {}", "noted c4 {}"]);
    let kinds: Vec<_> = on.pending().await.into_iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [PendingKind::Approval, PendingKind::Client]);
    let open = on.snapshot().await.open_step.expect("the step is open");
    let kept = open.calls.iter().map(|call| call.result.is_some());
    assert_eq!(kept.collect::<Vec<_>>(), [false, true, false, true]);

    on.answered(on.waiting("c1").await.approve()).await;
    on.answered(on.waiting("c3").await.result("here")).await;
    let run = on.restarted().await.resumed().await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(log.take(), ["guarded c1 {}"], "nothing is run twice");
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: go",
            "assistant: c1=guarded{} c2=noted{} c3=browser{} c4=noted{}",
            "c1=success: done",
            "c2=success: done",
            "c3=success: here",
            "c4=success: done",
            "assistant: done",
        ]
    );
}

/// Exactly one of many concurrent resumes runs; each of the others gets a typed refusal.
///
/// proves: SUS-05
pub async fn exactly_one_of_many_resumes_runs(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [calling([("c1", "guarded")]), MockReply::text("done")];
    let tool = noted("guarded", &log).approval();
    let agent = agent(replies).tools(tool).build().unwrap();
    on.turn(&agent, "go").await;
    on.answered(on.waiting("c1").await.approve()).await;
    let elsewhere = on.restarted().await;
    let came = on.runner.at_once(4, async |index| {
        let by = if index % 2 == 0 { on } else { &elsewhere };
        by.try_resume().await
    });
    let (won, lost): (Vec<_>, Vec<_>) = came.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    for refusal in lost.into_iter().filter_map(Result::err) {
        let code = refusal.code();
        let typed = matches!(
            code,
            ErrorCode::SessionRunning | ErrorCode::SessionCompleted
        );
        assert!(typed, "{refusal}");
    }
    for run in won.into_iter().flatten() {
        on.ended(&run).await;
    }
    assert_eq!(on.runs().await.len(), 2);
    assert_eq!(log.take(), ["guarded c1 {}"]);
}

/// A repeated answer is reported as repeated, before and after the run continued, in any process.
///
/// proves: SUS-06
pub async fn a_repeated_answer_is_already_completed(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")]), MockReply::text("done")];
    let agent = agent(replies).tools(browser("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    let waiting = on.waiting("c1").await;
    on.answered(waiting.result("first")).await;
    let again = async |by: &RuntimeSubject| {
        let before = by.everything().await;
        let submitted = by.submit(waiting.result("second")).await.unwrap();
        assert_eq!(submitted.outcome, SubmissionOutcome::AlreadyCompleted);
        let none = helix_agents_core::entries::Continuation::None;
        assert_eq!(submitted.continuation, none);
        assert_eq!(by.everything().await, before, "nothing is written");
    };
    again(on).await;
    let elsewhere = on.restarted().await;
    again(&elsewhere).await;
    elsewhere.resumed().await;
    again(on).await;
    again(&on.restarted().await).await;
    assert_eq!(on.transcript_lines().await[2], "c1=success: first");
}

/// One of many equal concurrent answers is accepted, and the others are reported as repeated.
pub async fn one_of_many_equal_answers_is_accepted(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")]), MockReply::text("done")];
    let agent = agent(replies).tools(browser("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    let answer = on.waiting("c1").await.result("here");
    let elsewhere = on.restarted().await;
    let came = on.runner.at_once(4, async |index| {
        let by = if index % 2 == 0 { on } else { &elsewhere };
        by.submit(answer.clone()).await.unwrap().outcome
    });
    let accepted = |outcome: &&SubmissionOutcome| **outcome == SubmissionOutcome::Accepted;
    assert_eq!(came.iter().filter(accepted).count(), 1);
    let repeated = |outcome: &&SubmissionOutcome| **outcome == SubmissionOutcome::AlreadyCompleted;
    assert_eq!(came.iter().filter(repeated).count(), 3);
}

/// The model reads the result or the error of a client as the result of the call.
///
/// proves: CLT-02
pub async fn a_clients_answer_is_the_calls_result(on: &RuntimeSubject) {
    let model = std::sync::Arc::new(crate::MockModel::replies([
        calling([("c1", "browser"), ("c2", "browser"), ("c3", "browser")]),
        MockReply::text("done"),
    ]));
    let agent = super::agents::of_model(&model);
    let agent = agent.tools(browser("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    on.answered(on.waiting("c2").await.error("no such page"))
        .await;
    on.answered(on.waiting("c1").await.result("text")).await;
    on.answered(on.waiting("c3").await.result(json!(null)))
        .await;
    let run = on.resumed().await;
    assert_eq!(run.status, RunStatus::Completed);
    let read = &model.seen()[1].messages;
    assert_eq!(
        super::lines::transcript_lines(read),
        [
            "user: go",
            "assistant: c1=browser{} c2=browser{} c3=browser{}",
            "c1=success: text",
            r#"c2=error: {"error":"no such page"}"#,
            "c3=success: null",
        ]
    );
    let names = names(&on.payloads().await);
    for name in ["tool_end c1", "tool_error c2", "tool_end c3"] {
        let told = names.iter().filter(|found| *found == name).count();
        assert_eq!(told, 1, "{name}");
    }
}

/// The time that the client took is recorded, for each tool.
///
/// proves: CLT-04
pub async fn the_wait_for_a_client_is_recorded(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "browser"), ("c2", "camera")]),
        MockReply::text("done"),
    ];
    let tools = [browser("browser"), browser("camera")];
    let agent = agent(replies).tools(tools).build().unwrap();
    on.turn(&agent, "go").await;
    on.wait(Duration::from_millis(500)).await;
    on.answered(on.waiting("c1").await.result(1)).await;
    on.wait(Duration::from_millis(700)).await;
    on.answered(on.waiting("c2").await.error("no camera")).await;
    on.wait(Duration::from_millis(900)).await;
    on.resumed().await;
    let waits = on
        .usage()
        .await
        .into_iter()
        .filter_map(|entry| match entry.kind {
            UsageKind::ClientToolWaitMs { name, wait_ms } => Some((name, wait_ms)),
            _ => None,
        });
    let waits: Vec<_> = waits.collect();
    let names: Vec<_> = waits.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["browser", "camera"]);
    let [first, second] = [waits[0].1, waits[1].1];
    if on.exact {
        assert_eq!((first, second), (500, 1_200));
    } else {
        assert!(first >= 500 && second >= 1_200, "{waits:?}");
    }
    let tools = on
        .usage()
        .await
        .into_iter()
        .filter_map(|entry| match entry.kind {
            UsageKind::Tool { name, success, .. } => Some((name, success)),
            _ => None,
        });
    let expected = [("browser".into(), true), ("camera".into(), false)];
    assert_eq!(tools.collect::<Vec<_>>(), expected);
}

/// A turn may pause more than once, and continues each time where it paused.
pub async fn a_turn_pauses_more_than_once(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "browser")]),
        calling([("c2", "browser")]),
        MockReply::text("done"),
    ];
    let agent = agent(replies).tools(browser("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    for id in ["c1", "c2"] {
        on.answered(on.waiting(id).await.result(id)).await;
        on.restarted().await.resumed().await;
    }
    let of = |run: helix_agents_core::session::RunRecord| (run.turn, run.step_count, run.status);
    let runs = on.runs().await.into_iter().map(of);
    assert_eq!(
        runs.collect::<Vec<_>>(),
        [
            (1, 0, RunStatus::SuspendedClientTool),
            (1, 1, RunStatus::SuspendedClientTool),
            (1, 3, RunStatus::Completed),
        ]
    );
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: go",
            "assistant: c1=browser{}",
            "c1=success: c1",
            "assistant: c2=browser{}",
            "c2=success: c2",
            "assistant: done",
        ]
    );
}
