//! Retries of turns that failed or were interrupted.

use helix_agents_core::agent::AgentBuilder;
use helix_agents_core::entries::{ExecuteRequest, ResumeMode};
use helix_agents_core::error::ErrorCode;
use helix_agents_core::model::ModelErrorKind;
use helix_agents_core::runtime::RunOptions;
use helix_agents_core::session::{RunStatus, RunTrigger, SessionStatus, StopKind};
use helix_agents_core::store::{NewSession, Sessions};
use helix_agents_core::stream::ChunkPayload;
use serde_json::json;

use super::agents::{Gate, Log, agent, browser, calling, counting, fatal, gated, noted};
use super::lines::names;
use super::subject::session;
use super::{MockReply, RuntimeSubject};

fn failing() -> MockReply {
    MockReply::error(ModelErrorKind::Auth)
}

/// An agent that counts its calls in the state.
fn counter(replies: impl IntoIterator<Item = MockReply>) -> AgentBuilder {
    let state = json!({ "count": 0 });
    agent(replies)
        .tools([counting("count"), fatal("fatal")])
        .initial_state(state)
}

/// A retry after a failed model call begins at the last step that was committed: the message is not sent again,
/// finished steps are not made again, and the failure is gone from the session and from its stream.
///
/// proves: CKP-02
pub async fn a_retry_begins_at_the_last_good_checkpoint(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "count")]),
        failing(),
        MockReply::text("done"),
    ];
    let agent = counter(replies).build().unwrap();
    let failed = on.turn(&agent, "go").await;
    assert_eq!(failed.status, RunStatus::Failed);
    let before = on.checkpoints().await;

    let run = on.restarted().await.retried().await;
    assert_eq!(
        (run.trigger, run.status, run.turn),
        (RunTrigger::Retry, RunStatus::Completed, 1)
    );
    assert_eq!(
        (run.step_count, run.steps_before, run.budget_from),
        (2, 1, 1)
    );
    assert_eq!(run.turn_start, failed.turn_start);
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: go",
            "assistant: c1=count{}",
            "c1=success: done",
            "assistant: done",
        ]
    );
    let found = on.snapshot().await.state;
    assert_eq!(*found.custom_state, json!({ "count": 1 }));
    assert_eq!(
        (found.status, found.error),
        (SessionStatus::Completed, None)
    );
    assert_eq!((found.step_count, found.resume_count), (2, 1));
    assert_eq!(on.runs().await.len(), 2, "each run has its record");
    let ids: Vec<_> = on.checkpoints().await.into_iter().map(|it| it.id).collect();
    assert_eq!(ids[..1], [before[0].id.clone()]);
    assert_eq!(
        names(&on.payloads().await),
        [
            "run_started",
            "tool_start c1",
            "state_patch",
            "tool_end c1",
            "step_committed",
            "checkpoint_created",
            "stream_resync",
            "run_started",
            "step_committed",
            "checkpoint_created",
        ]
    );
}

/// A retry drops the step that failed the run, with its writes; the ids of its calls are not used again.
///
/// proves: CKP-02
pub async fn a_retry_drops_a_fatal_step(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "count")]),
        calling([("c2", "count"), ("c3", "fatal")]),
        calling([("c2", "count")]),
        MockReply::text("done"),
    ];
    let agent = counter(replies).build().unwrap();
    let failed = on.turn(&agent, "go").await;
    assert_eq!(failed.status, RunStatus::Failed);
    assert_eq!(on.messages().await.len(), 6);
    assert_eq!(on.retried().await.status, RunStatus::Completed);
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: go",
            "assistant: c1=count{}",
            "c1=success: done",
            "assistant: c2_2=count{}",
            "c2_2=success: done",
            "assistant: done",
        ]
    );
    assert_eq!(on.state().await, json!({ "count": 2 }));
    let told = on.payloads().await;
    let is_gone = |it: &ChunkPayload| !matches!(it, ChunkPayload::Error { .. });
    assert!(told.iter().all(is_gone), "the failure is not told again");
}

/// Without a good checkpoint, a retry begins right after the messages of the turn. The state that the request set
/// is kept, and so are all earlier turns.
///
/// proves: CKP-02
pub async fn a_retry_of_a_first_step_keeps_the_request(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "count")]),
        MockReply::text("one"),
        calling([("c2", "count"), ("c3", "fatal")]),
        MockReply::text("two"),
    ];
    let agent = counter(replies).build().unwrap();
    let first = on.turn(&agent, "first").await;
    let kept = on.chunks().await;
    let request = ExecuteRequest::new(&agent, "second")
        .in_session(session())
        .with_state(json!({ "mood": "good" }));
    let request = request.with_messages(vec!["second".into(), "and third".into()]);
    let started = on.runtime.start(request, RunOptions::default()).await;
    let failed = on.ended(&started.unwrap()).await;
    assert_eq!(failed.status, RunStatus::Failed);
    let start = failed.turn_start.expect("a turn records its start");
    assert_eq!((start.messages, start.user_messages), (4, 2));
    assert_eq!(start.state_after, start.state_version + 1);
    assert_eq!(start.sequence, failed.start_sequence);

    let run = on.retried().await;
    assert_eq!((run.turn, run.step_count), (2, 1));
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: first",
            "assistant: c1=count{}",
            "c1=success: done",
            "assistant: one",
            "user: second",
            "user: and third",
            "assistant: two",
        ]
    );
    assert_eq!(on.state().await, json!({ "count": 1, "mood": "good" }));
    let chunks = on.chunks().await;
    assert_eq!(chunks[..kept.len()], kept, "the first turn is as it was");
    let of_failed = chunks.iter().filter(|it| it.chunk.base.run_id == failed.id);
    assert_eq!(of_failed.count(), 0);
    assert_eq!(on.runs().await[0], first);
}

/// A turn that used up its step budget lacks nothing: a retry keeps it whole, and has a fresh budget. So has every
/// later retry, which does not lose what the one before it kept.
///
/// proves: CKP-02
pub async fn a_retry_after_the_limit_of_steps_has_a_fresh_budget(on: &RuntimeSubject) {
    let step = |n: u32| MockReply::calls([(format!("c{n}").as_str(), "count", json!({}))]);
    let mut replies: Vec<_> = (1..=4).map(step).collect();
    replies.extend([failing(), step(5), MockReply::text("done")]);
    let agent = counter(replies).max_steps(2).build().unwrap();
    let limit = |run: &helix_agents_core::session::RunRecord| {
        let code = run.error.as_ref().map(|error| error.code);
        (run.step_count, run.budget_from, code)
    };
    let run = on.turn(&agent, "go").await;
    assert_eq!(limit(&run), (2, 0, Some(ErrorCode::MaxSteps)));
    let kept = on.chunks().await;
    let run = on.retried().await;
    assert_eq!(limit(&run), (4, 2, Some(ErrorCode::MaxSteps)));
    assert_eq!(on.chunks().await[..kept.len()], kept, "nothing is removed");
    let run = on.retried().await;
    assert_eq!(limit(&run), (4, 4, Some(ErrorCode::ProviderAuth)));
    let run = on.restarted().await.retried().await;
    assert_eq!((run.status, run.step_count), (RunStatus::Completed, 6));
    assert_eq!(on.state().await, json!({ "count": 5 }));
    assert_eq!(on.messages().await.len(), 1 + 5 * 2 + 1);
}

/// A retry after an interruption or an abort drops the step that was stopped, which a resume would keep.
///
/// proves: CKP-02
pub async fn a_retry_drops_a_stopped_step(on: &RuntimeSubject) {
    for (kind, status) in [
        (StopKind::Interrupt, RunStatus::Interrupted),
        (StopKind::Abort, RunStatus::Failed),
    ] {
        let gate = Gate::default();
        let stopped = calling([("c1", "gated"), ("c2", "browser")]);
        let replies = [stopped, MockReply::text("done")];
        let tools = [gated("gated", &gate), browser("browser")];
        let agent = agent(replies).tools(tools).build().unwrap();
        let before = on.backend().store.find(&session()).await.unwrap();
        let before = before.map_or(0, |found| found.message_count);
        let run = on.start(&agent, "go").await;
        gate.reached(1).await;
        let sessions = Sessions::new(&*on.backend().store, &*on.clock);
        let asked = sessions.request_stop(&session(), kind, None).await;
        assert!(asked.unwrap().is_some());
        gate.open();
        assert_eq!(on.ended(&run).await.status, status);
        assert_eq!(on.messages().await.len(), before + 4, "the step is kept");
        let run = on.retried().await;
        assert_eq!(run.status, RunStatus::Completed);
        assert_eq!(
            on.transcript_lines().await[before..],
            ["user: go", "assistant: done"]
        );
        let found = on.snapshot().await.state;
        assert_eq!(found.interrupt_context, None);
    }
}

/// Only a failed or interrupted turn is retried: each other session is refused as what it is, and nothing is
/// written.
///
/// proves: CKP-02
pub async fn a_turn_that_did_not_fail_is_not_retried(on: &RuntimeSubject) {
    let retry = async || on.try_resume_as(ResumeMode::Retry).await;
    let gate = Gate::default();
    let replies = [
        calling([("c1", "gated"), ("c2", "browser")]),
        MockReply::text("done"),
    ];
    let tools = [gated("gated", &gate), browser("browser")];
    let agent = agent(replies).tools(tools).build().unwrap();
    let sessions = Sessions::new(&*on.backend().store, &*on.clock);
    let new = NewSession::of(agent.name());
    sessions.create_session(&session(), new).await.unwrap();
    on.keep(&agent);
    on.refuses(ErrorCode::StateStale, retry).await;

    let run = on.start(&agent, "go").await;
    gate.reached(1).await;
    on.refuses(ErrorCode::SessionRunning, retry).await;
    gate.open();
    assert!(on.ended(&run).await.status.is_suspended());
    on.refuses(ErrorCode::SessionAwaitingAnswers, retry).await;
    on.answered(on.waiting("c2").await.result(1)).await;
    let error = on.refuses(ErrorCode::StateStale, retry).await;
    assert!(error.to_string().contains("resume"), "{error}");
    assert_eq!(on.resumed().await.status, RunStatus::Completed);
    on.refuses(ErrorCode::SessionCompleted, retry).await;
}

/// A turn that paused and then failed is retried before the pause: the answered step is kept once it is in the
/// history, and its tools are not run again.
///
/// proves: CKP-02
pub async fn a_retry_keeps_a_step_that_was_answered(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        calling([("c1", "noted"), ("c2", "browser")]),
        failing(),
        MockReply::text("done"),
    ];
    let tools = [noted("noted", &log), browser("browser")];
    let agent = agent(replies).tools(tools).build().unwrap();
    on.turn(&agent, "go").await;
    on.answered(on.waiting("c2").await.result("yes")).await;
    assert_eq!(on.resumed().await.status, RunStatus::Failed);
    let run = on.retried().await;
    assert_eq!((run.status, run.step_count), (RunStatus::Completed, 2));
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: go",
            "assistant: c1=noted{} c2=browser{}",
            "c1=success: done",
            "c2=success: yes",
            "assistant: done",
        ]
    );
    assert_eq!(log.take(), ["noted c1 {}"]);
}
