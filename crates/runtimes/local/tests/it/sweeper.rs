//! Due work, and what looks for it.

use std::time::Duration;

use helix_agents_core::entries::{Continuation, Execute};
use helix_agents_core::runtime::{Outcome, RunOptions, Runtime, RuntimeExt};
use helix_agents_runtime_local::{LocalRuntime, SweepReport};
use serde_json::json;

use crate::kit::{Gate, LEASE, Place, clock, desk, runs, session, timed, waiting};
use crate::moody::{Lie, moody};

/// An answer that was given where nobody continues is continued by a runtime that does.
#[tokio::test]
async fn answers_that_nobody_continued_are_due_work() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let asking = place.runtime().await;
        let request = Execute::new(&agent, "pay").in_session(session("s"));
        let options = RunOptions::default();
        let handle = asking.execute_with(&agent, request, options).await.unwrap();
        let pause = handle.result().await.unwrap().suspended().unwrap();
        let yes = pause.pending()[0].approve();
        let submitted = asking.submit_tool_result(yes).await.unwrap();
        assert_eq!(submitted.continuation, Continuation::CallerResumes);

        let without = place.builder().await.agent(&agent).build();
        assert_eq!(without.recover().await.unwrap(), SweepReport::default());
        let with = place
            .builder()
            .await
            .agent(&agent)
            .auto_continue(true)
            .build();
        let report = with.recover().await.unwrap();
        let [run] = report.continued.as_slice() else {
            panic!("unexpected: {report:?}");
        };
        assert!(with.ended(run).await.unwrap().status.is_ended());
        assert_eq!(gate.passed(), 1);
        assert_eq!(with.recover().await.unwrap(), SweepReport::default());
    }
}

/// Work of others, however much and however old, does not hide what can be done here.
#[tokio::test]
async fn due_work_of_others_does_not_hide_ours() {
    let place = Place::memory();
    let gate = Gate::new();
    let agent = desk(&gate);
    let time = clock();
    let asking = timed(&place, "asking", &time).await;
    for at in 0..300 {
        let request = Execute::new(&agent, "pay").in_session(session(&format!("paused-{at}")));
        let options = RunOptions::default();
        let handle = asking.execute_with(&agent, request, options).await.unwrap();
        let pause = handle.result().await.unwrap().suspended().unwrap();
        let yes = pause.pending()[0].approve();
        asking.submit_tool_result(yes).await.unwrap();
    }
    let handle = waiting(&asking, &agent, &gate).await;
    let shutdown = asking.shutdown(LEASE);
    gate.open();
    assert_eq!(shutdown.await.handed_over, 1);

    let next = timed(&place, "next", &time).await;
    next.agents().register(&agent).unwrap();
    let report = next.recover().await.unwrap();
    assert_eq!(report.recovered.len(), 1, "{report:?}");
    assert_eq!(report.recovered[0].run_id, *handle.run_id());
    assert!(next.ended(&report.recovered[0]).await.is_ok());
}

/// The sweeper looks again and again, and ends with its runtime.
#[tokio::test]
async fn the_sweeper_finds_what_comes_later() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let time = clock();
        let every = Duration::from_secs(60);
        let builder = place.builder_at(&time).await.agent(&agent);
        let builder = builder.auto_continue(true).sweep_every(every);
        let sweeping = builder.build();
        sweeping.sweeper().unwrap();
        sweeping.sweeper().unwrap();
        while time.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(time.sleepers(), 1, "one sweeper, which has looked once");

        let asking = place.runtime().await;
        let request = Execute::new(&agent, "pay").in_session(session("s"));
        let options = RunOptions::default();
        let handle = asking.execute_with(&agent, request, options).await.unwrap();
        let pause = handle.result().await.unwrap().suspended().unwrap();
        let yes = pause.pending()[0].approve();
        asking.submit_tool_result(yes).await.unwrap();
        assert_eq!(runs(asking.backend(), &session("s")).await.len(), 1);

        time.advance(every);
        while runs(asking.backend(), &session("s")).await.len() == 1 {
            tokio::task::yield_now().await;
        }
        let handle = asking.handle(&agent, &session("s")).await.unwrap().unwrap();
        let outcome = handle.result().await.unwrap();
        assert_eq!(outcome, Outcome::Done(json!("paid: 5")));

        sweeping.shutdown(every).await;
        while time.sleepers() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// A look that fails, or even panics, is followed by the next.
#[tokio::test]
async fn the_sweeper_outlives_what_goes_wrong() {
    let place = Place::memory();
    let gate = Gate::new();
    let agent = desk(&gate);
    let time = clock();
    let leaving = timed(&place, "leaving", &time).await;
    let handle = waiting(&leaving, &agent, &gate).await;
    gate.open();
    assert_eq!(leaving.shutdown(LEASE).await.handed_over, 1);

    let (backend, mood) = moody(place.open().await);
    mood.due.lock().unwrap().extend([Lie::Panic, Lie::Failure]);
    let every = Duration::from_secs(1);
    let builder = LocalRuntime::builder(backend).sweep_every(every);
    let next = builder.clock(time.clone()).agent(&agent).build();
    next.sweeper().unwrap();
    for left in [1, 0] {
        while time.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(mood.due.lock().unwrap().len(), left);
        time.advance(every);
    }
    let run = handle.ended();
    let backend = next.backend();
    let ended = backend.run_ended(&session("s"), handle.run_id()).await;
    assert!(ended.unwrap().status.is_ended());
    assert!(run.await.unwrap().status.is_ended());
}
