//! Requests that are refused with a typed error, and leave nothing behind.

use helix_agents_core::entries::{EntryError, ExecuteRequest};
use helix_agents_core::error::ErrorCode;
use helix_agents_core::model::ModelErrorKind;
use helix_agents_core::runtime::{RunOptions, RuntimeError};
use helix_agents_core::session::RunStatus;

use super::super::builders;
use super::agents::{Gate, agent, browser, calling, gated};
use super::subject::{calls, session};
use super::{MockReply, RuntimeSubject};

/// An unknown agent cannot be started, and a session of an agent that was removed cannot be
/// resumed.
pub async fn an_unknown_agent_is_refused(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")]), MockReply::text("done")];
    let agent = agent(replies).tools(browser("browser")).build().unwrap();
    on.refuses(ErrorCode::AgentNotFound, async || {
        on.try_start(&agent, "go").await
    })
    .await;
    on.turn(&agent, "go").await;
    on.answered(on.waiting("c1").await.result(1)).await;
    on.runtime.agents().unregister("agent");
    on.refuses(ErrorCode::AgentNotFound, async || on.try_resume().await)
        .await;
    on.runtime.agents().keep(&agent).unwrap();
    assert_eq!(on.resumed().await.status, RunStatus::Completed);
}

/// A session with a running run accepts no second turn and is not resumed.
pub async fn a_running_session_is_left_alone(on: &RuntimeSubject) {
    let gate = Gate::default();
    let replies = [calling([("c1", "gated")]), MockReply::text("done")];
    let agent = agent(replies).tools(gated("gated", &gate)).build().unwrap();
    let run = on.start(&agent, "go").await;
    gate.reached(1).await;
    for by in [on, &on.restarted().await] {
        let refused = by
            .refuses(ErrorCode::SessionRunning, async || {
                by.try_start(&agent, "again").await
            })
            .await;
        let RuntimeError::Entry(EntryError::AlreadyRunning { run: named, .. }) = refused else {
            panic!("it names the run: {refused:?}");
        };
        assert_eq!(named, run.run_id);
        by.refuses(ErrorCode::SessionRunning, async || by.try_resume().await)
            .await;
    }
    gate.open();
    assert_eq!(on.ended(&run).await.status, RunStatus::Completed);
    assert_eq!(on.transcript_lines().await[0], "user: go");
    assert_eq!(on.transcript_lines().await.len(), 4);
}

/// A completed session continues with a new message, and is not resumed.
pub async fn a_completed_session_is_not_resumed(on: &RuntimeSubject) {
    let agent = agent([MockReply::text("done")]).build().unwrap();
    on.turn(&agent, "go").await;
    on.refuses(ErrorCode::SessionCompleted, async || on.try_resume().await)
        .await;
}

/// A failed session is retried, not resumed, and the refusal names the remedy.
pub async fn a_failed_session_is_not_resumed(on: &RuntimeSubject) {
    let agent = agent([MockReply::error(ModelErrorKind::Auth)])
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let refused = on
        .refuses(ErrorCode::StateStale, async || on.try_resume().await)
        .await;
    assert!(refused.to_string().contains("retry"), "{refused}");
}

/// A session with pending calls is neither resumed nor given a new turn, and the refusal names the
/// calls.
pub async fn a_session_that_waits_is_not_resumed(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "browser"), ("c2", "browser")]),
        MockReply::text("done"),
    ];
    let agent = agent(replies).tools(browser("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    let names = |refused| match refused {
        RuntimeError::Entry(EntryError::AwaitingAnswers { calls, .. }) => {
            assert!(calls.iter().all(|call| call.tool_name == "browser"));
            let ids = calls.into_iter().map(|call| call.tool_call_id);
            ids.collect::<Vec<_>>()
        }
        other => panic!("it names the calls: {other:?}"),
    };
    let code = ErrorCode::SessionAwaitingAnswers;
    let refused = on.refuses(code, async || on.try_resume().await).await;
    assert_eq!(names(refused), calls(&["c1", "c2"]));
    let refused = on.refuses(code, async || on.try_start(&agent, "and").await);
    assert_eq!(names(refused.await), calls(&["c1", "c2"]));
    on.answered(on.waiting("c1").await.result(1)).await;
    let refused = on.refuses(code, async || on.try_resume().await).await;
    assert_eq!(names(refused), calls(&["c2"]));
    let refused = on.refuses(code, async || on.try_start(&agent, "and").await);
    assert_eq!(names(refused.await), calls(&["c2"]));
    on.answered(on.waiting("c2").await.result(2)).await;
    let refused = on.refuses(ErrorCode::StateStale, async || {
        on.try_start(&agent, "and").await
    });
    let refused = refused.await.to_string();
    assert!(refused.contains("resume"), "{refused}");
}

/// A turn with another agent than the session's, or without a message, is refused, and so is the
/// resume of a session that does not exist.
pub async fn a_turn_needs_a_message_and_its_own_agent(on: &RuntimeSubject) {
    let agent = agent([MockReply::text("done")]).build().unwrap();
    on.turn(&agent, "go").await;
    let other = helix_agents_core::Agent::builder("other").model(crate::MockModel::new());
    let other = other.build().unwrap();
    on.keep(&other);
    on.refuses(ErrorCode::ValidationError, async || {
        on.try_start(&other, "go").await
    })
    .await;
    on.refuses(ErrorCode::ValidationError, async || {
        let silent = ExecuteRequest::new(&agent, "").with_messages(Vec::new());
        let silent = silent.in_session(session());
        on.runtime.start(silent, RunOptions::default()).await
    })
    .await;
    on.refuses(ErrorCode::SessionNotFound, async || {
        let nowhere = builders::session("nowhere");
        on.runtime
            .resume_session((&nowhere).into(), RunOptions::default())
            .await
    })
    .await;
}
