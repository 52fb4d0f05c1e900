//! Turns and the runs they are made of.

use helix_agents_core::error::ErrorCode;
use helix_agents_core::session::{RunStatus, RunTrigger, SessionStatus, StepStart, Suspended};
use helix_agents_core::step::StopCause;
use helix_agents_core::store::{Lookup, Sessions};
use serde_json::json;

use super::agents::{Gate, agent, answer_schema, browser, calling, echo, gated};
use super::subject::{calls, session};
use super::{MockReply, RuntimeSubject};

/// Every turn and every resume writes one record of a run, and the latest is the current one.
///
/// proves: SES-03
pub async fn each_turn_and_each_resume_writes_one_run(on: &RuntimeSubject) {
    let replies = [
        MockReply::text("hello"),
        calling([("c1", "browser")]),
        MockReply::text("seen"),
    ];
    let agent = agent(replies).tools(browser("browser")).build().unwrap();
    let first = on.turn(&agent, "one").await;
    assert_eq!(on.runs().await, std::slice::from_ref(&first));
    let second = on.turn(&agent, "two").await;
    assert_eq!(on.runs().await, [first.clone(), second.clone()]);
    on.answered(on.waiting("c1").await.result(1)).await;
    let third = on.resumed().await;
    let runs = [first.clone(), second, third.clone()];
    assert_eq!(on.runs().await, runs);
    assert_eq!(
        runs.map(|run| (run.trigger, run.turn, run.status)),
        [
            (RunTrigger::Execute, 1, RunStatus::Completed),
            (RunTrigger::Execute, 2, RunStatus::SuspendedClientTool),
            (RunTrigger::Continue, 2, RunStatus::Completed),
        ]
    );
    assert_eq!(on.snapshot().await.run, Some(third));
    let one = Lookup::One(first.id.clone());
    let found = on
        .backend()
        .store
        .runs(session().as_root(), one)
        .await
        .unwrap();
    assert_eq!(found.items, [first]);
}

/// A run records its turn, its steps, its times, and where in the stream it begins.
///
/// proves: SES-04
pub async fn a_run_records_its_start_and_its_progress(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "echo")]),
        MockReply::text("one"),
        MockReply::text("two"),
    ];
    let agent = agent(replies).tools(echo("echo")).build().unwrap();
    let before = on.clock.now();
    let first = on.turn(&agent, "one").await;
    let between = on.clock.now();
    let second = on.turn(&agent, "two").await;
    let after = on.clock.now();
    let of = |run: &helix_agents_core::session::RunRecord| {
        (run.turn, run.step_count, run.status, run.completion_reason)
    };
    let text = Some(StopCause::Text);
    assert_eq!(of(&first), (1, 2, RunStatus::Completed, text));
    assert_eq!(of(&second), (2, 1, RunStatus::Completed, text));
    for (run, from, to) in [(&first, before, between), (&second, between, after)] {
        let ended = run.ended_at.expect("it has ended");
        assert!(from <= run.started_at && run.started_at <= ended && ended <= to);
    }

    // A reader that knows the record finds exactly the run's own chunks.
    let chunks = on.chunks().await;
    assert_eq!(first.start_sequence, 0);
    for run in [&first, &second] {
        let own = chunks.iter().filter(|it| it.chunk.base.run_id == run.id);
        let own: Vec<_> = own.map(|it| it.sequence.0).collect();
        assert!(own.iter().all(|at| *at > run.start_sequence), "{own:?}");
        assert!(!own.is_empty());
    }
    let split = chunks
        .iter()
        .filter(|it| it.sequence.0 <= second.start_sequence);
    assert!(split.into_iter().all(|it| it.chunk.base.run_id == first.id));
}

/// A run is running, completed, failed or suspended; a suspended one has its kind and its pending
/// calls.
///
/// proves in part: SES-05
pub async fn a_run_has_the_status_of_its_outcome(on: &RuntimeSubject) {
    let gate = Gate::default();
    let replies = [
        calling([("c1", "browser")]),
        calling([("c2", "gated"), ("c3", "browser"), ("c4", "browser")]),
        MockReply::text("done"),
        MockReply::error(helix_agents_core::model::ModelErrorKind::Auth),
    ];
    let tools = [browser("browser"), gated("gated", &gate)];
    let agent = agent(replies).tools(tools).build().unwrap();

    let paused = on.turn(&agent, "go").await;
    assert_eq!(paused.status, RunStatus::SuspendedClientTool);
    let open = on.snapshot().await.open_step.expect("a step is open");
    let mut waits = Suspended::new(open.id, calls(&["c1"]), Vec::new());
    waits.before = Some(StepStart::new(1, open.start_sequence.0));
    assert_eq!(paused.suspended, Some(waits));

    on.answered(on.waiting("c1").await.result(1)).await;
    let run = on.try_resume().await.unwrap();
    gate.reached(1).await;
    let running = on.snapshot().await.run.expect("a run is running");
    assert_eq!(
        (running.status, running.ended_at),
        (RunStatus::Running, None)
    );
    gate.open();
    let partial = on.ended(&run).await;
    assert_eq!(partial.status, RunStatus::SuspendedStepPartial);
    let open = on.snapshot().await.open_step.expect("a step is open");
    let mut waits = Suspended::new(open.id, calls(&["c3", "c4"]), Vec::new());
    waits.before = Some(StepStart::new(1, open.start_sequence.0));
    assert_eq!(partial.suspended, Some(waits));

    on.answered(on.waiting("c3").await.result(1)).await;
    on.answered(on.waiting("c4").await.result(1)).await;
    let completed = on.resumed().await;
    assert_eq!(completed.status, RunStatus::Completed);
    assert_eq!((completed.error, completed.suspended), (None, None));

    let failed = on.turn(&agent, "again").await;
    assert_eq!(failed.status, RunStatus::Failed);
    let error = failed.error.expect("it says why");
    assert_eq!(error.code, ErrorCode::ProviderAuth);
}

/// A session is active while a run is running and while it waits, then completed or failed.
///
/// proves in part: SES-06
pub async fn a_session_that_waits_is_active_and_has_pending_calls(on: &RuntimeSubject) {
    let gate = Gate::default();
    let replies = [
        calling([("c1", "gated")]),
        calling([("c2", "browser")]),
        MockReply::text("done"),
        MockReply::error(helix_agents_core::model::ModelErrorKind::Auth),
    ];
    let tools = [browser("browser"), gated("gated", &gate)];
    let agent = agent(replies).tools(tools).build().unwrap();
    let stands = async || {
        let found = on.snapshot().await.state;
        let pending = found.pending_client_tool_calls.into_keys();
        (found.status, pending.collect::<Vec<_>>())
    };
    let run = on.start(&agent, "go").await;
    gate.reached(1).await;
    assert_eq!(stands().await, (SessionStatus::Active, vec![]));
    gate.open();
    on.ended(&run).await;
    assert_eq!(stands().await, (SessionStatus::Active, calls(&["c2"])));
    on.answered(on.waiting("c2").await.result(1)).await;
    assert_eq!(stands().await, (SessionStatus::Active, calls(&["c2"])));
    on.resumed().await;
    assert_eq!(stands().await, (SessionStatus::Completed, vec![]));
    on.turn(&agent, "again").await;
    assert_eq!(stands().await, (SessionStatus::Failed, vec![]));
    let error = on.snapshot().await.state.error.expect("it says why");
    assert_eq!(error.code, ErrorCode::ProviderAuth);
}

/// A new turn keeps the history, and has steps, a limit and an output of its own.
///
/// proves: SES-08
pub async fn a_new_turn_has_steps_and_an_output_of_its_own(on: &RuntimeSubject) {
    let gate = Gate::default();
    let finish = |id, answer| MockReply::calls([(id, "__finish__", json!({ "answer": answer }))]);
    let replies = [
        calling([("c1", "echo")]),
        finish("f1", 1),
        calling([("c2", "gated")]),
        finish("f2", 2),
    ];
    let agent = agent(replies)
        .tools([echo("echo"), gated("gated", &gate)])
        .output_schema(answer_schema())
        .max_steps(2)
        .build()
        .unwrap();
    let first = on.turn(&agent, "one").await;
    assert_eq!(first.output, Some(json!({ "answer": 1 })));
    assert_eq!(on.snapshot().await.state.step_count, 2);
    let history = on.transcript_lines().await;

    let run = on.start(&agent, "two").await;
    gate.reached(1).await;
    let state = on.snapshot().await.state;
    assert_eq!((state.step_count, state.output), (0, None));
    gate.open();
    let second = on.ended(&run).await;
    assert_eq!((second.turn, second.step_count), (2, 2));
    assert_eq!(second.output, Some(json!({ "answer": 2 })));
    assert_eq!(on.snapshot().await.state.output, second.output);
    let told = on.transcript_lines().await;
    assert_eq!(told[..history.len()], history, "what was said is kept");
    assert_eq!(
        told[history.len()..],
        [
            "user: two",
            "assistant: c2=gated{}",
            "c2=success: done",
            r#"assistant: f2=__finish__{"answer":2}"#,
            r#"f2=success: {"acknowledged":true}"#,
        ]
    );
}

/// A new message follows a failed turn like any other.
pub async fn a_new_turn_follows_a_failed_one(on: &RuntimeSubject) {
    let replies = [
        MockReply::error(helix_agents_core::model::ModelErrorKind::Auth),
        MockReply::text("better"),
    ];
    let agent = agent(replies).build().unwrap();
    on.turn(&agent, "one").await;
    let second = on.turn(&agent, "two").await;
    assert_eq!((second.status, second.error), (RunStatus::Completed, None));
    let state = on.snapshot().await.state;
    assert_eq!(
        (state.status, state.error),
        (SessionStatus::Completed, None)
    );
    assert_eq!(
        on.transcript_lines().await,
        ["user: one", "user: two", "assistant: better"]
    );
}

/// A run that is asked to stop starts nothing more. Results of calls that ran are kept, the other
/// calls are paired, and the turn can be continued.
///
/// proves in part: SES-05, SES-06
pub async fn an_interrupted_run_is_paired_and_resumed(on: &RuntimeSubject) {
    let gate = Gate::default();
    let replies = [
        calling([("c1", "gated"), ("c2", "browser")]),
        MockReply::text("done"),
    ];
    let tools = [browser("browser"), gated("gated", &gate)];
    let agent = agent(replies).tools(tools).build().unwrap();
    let run = on.start(&agent, "go").await;
    gate.reached(1).await;
    let elsewhere = on.restarted().await;
    let sessions = Sessions::new(&*elsewhere.backend().store, &*on.clock);
    let reason = Some("enough".to_owned());
    sessions
        .set_interrupt_flag(&session(), reason)
        .await
        .unwrap();
    gate.open();
    let ended = on.ended(&run).await;
    assert_eq!(ended.status, RunStatus::Interrupted);
    let state = on.snapshot().await.state;
    assert_eq!(state.status, SessionStatus::Interrupted);
    let why = state.interrupt_context.expect("it says why");
    assert_eq!(
        (why.run_id, why.reason.as_deref()),
        (ended.id, Some("enough"))
    );
    assert!(state.pending_client_tool_calls.is_empty());
    let history = [
        "user: go",
        "assistant: c1=gated{} c2=browser{}",
        "c1=success: done",
        r#"c2=not_executed: {"error":"Not executed: the run was stopped."}"#,
    ];
    assert_eq!(on.transcript_lines().await, history);
    assert_eq!(elsewhere.resumed().await.status, RunStatus::Completed);
    assert_eq!(on.transcript_lines().await[..4], history);
    assert_eq!(on.transcript_lines().await[4..], ["assistant: done"]);
    assert_eq!(on.snapshot().await.state.status, SessionStatus::Completed);
}
