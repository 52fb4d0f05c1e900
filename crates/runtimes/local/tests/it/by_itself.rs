//! A runtime recovers by itself, unless that is turned off.

use std::time::Duration;

use helix_agents_core::runtime::{Runtime, RuntimeExt};
use helix_agents_core::session::RunStatus;
use helix_agents_core::{Agent, ErrorCode};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_testkit::VirtualClock;

use crate::kit::{Gate, LEASE, Place, clock, desk, runs, session, timed, waiting};

/// Waits until somebody sleeps, as the sweeper does between two looks.
async fn looked(time: &VirtualClock) {
    while time.sleepers() == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_run_that_was_left_is_taken_over_without_a_word() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let time = clock();
        let leaving = timed(&place, "leaving", &time).await;
        let left = waiting(&leaving, &agent, &gate).await;
        gate.open();
        assert_eq!(leaving.shutdown(LEASE).await.handed_over, 1);

        let backend = place.open_at(&time).await;
        let next = LocalRuntime::builder(backend).clock(time.clone());
        let next = next.agent(agent.clone()).build();
        let root = session("s");
        let key = root.as_root();
        let run = next.backend().run_ended(key, left.run_id(), &*time);
        assert_eq!(run.await.unwrap().status, RunStatus::Completed);
        assert_eq!(runs(next.backend(), &session("s")).await.len(), 1);
        next.shutdown(LEASE).await;
    }
}

/// Outside of a tokio runtime there is nothing to recover on; the first run begins it, and so does the
/// first one in the next tokio runtime.
#[test]
fn recovery_begins_with_the_first_run_in_a_tokio_runtime() {
    let place = Place::memory();
    let (time, agent) = (clock(), desk(&Gate::new()));
    let backend = helix_agents_testkit::block_on(place.open());
    let runtime = LocalRuntime::builder(backend).clock(time.clone()).build();
    assert_eq!(time.sleepers(), 0);
    for _ in 0..2 {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        tokio.block_on(async {
            let run = runtime.execute(&agent, "hello").await.unwrap();
            run.output().await.unwrap();
            looked(&time).await;
        });
        drop(tokio);
        assert_eq!(time.sleepers(), 0);
    }
}

#[tokio::test]
async fn recovery_can_be_turned_off_and_started_by_hand() {
    let place = Place::memory();
    let (time, agent) = (clock(), desk(&Gate::new()));
    let builder = LocalRuntime::builder(place.open().await).clock(time.clone());
    let runtime = builder.recovery(false).build();
    let run = runtime.execute(&agent, "hello").await.unwrap();
    run.output().await.unwrap();
    tokio::task::yield_now().await;
    assert_eq!(time.sleepers(), 0);
    runtime.start_recovery().unwrap();
    looked(&time).await;
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn two_agents_of_one_name_are_reported_when_either_is_used() {
    let named = || {
        let model = helix_agents_testkit::MockModel::new().says("hello");
        Agent::builder("twin").model(model).build().unwrap()
    };
    let (one, other) = (named(), named());
    let place = Place::memory();
    let builder = place.builder().await.agent(&one).agent(&other);
    let runtime = builder.build();
    for agent in [one, other] {
        let refused = runtime.execute(&agent, "hello").await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::DefinitionInvalid);
        assert!(refused.to_string().contains("twin"), "{refused}");
    }
}
