//! Tests of shutting the runtime down.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::runtime::{Outcome, Runtime, RuntimeError, RuntimeExt, Turn};
use helix_agents_core::session::RunStatus;
use helix_agents_core::time::Clock;

use crate::kit::{Gate, Place, Slow, cause, clock, desk, desk_with, runs, session};

const GRACE: Duration = Duration::from_secs(5);

/// The step is finished, the lease is released, and another process continues at once.
///
/// proves in part: RUN-01
#[tokio::test]
async fn running_runs_are_handed_over_at_shutdown() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        // The clocks stand still: no lease lapses in this test.
        let leaving = place.builder_at(&clock()).await.holder("a").build();
        let request = Turn::new("wait").session(session("s"));
        let handle = leaving.execute(&agent, request).await.unwrap();
        gate.reached().await;

        let shutdown = leaving.shutdown(GRACE);
        let mut shutdown = std::pin::pin!(shutdown);
        assert!(futures_util::poll!(&mut shutdown).is_pending());
        let refused = leaving.execute(&agent, "hello").await;
        assert!(
            matches!(cause(&refused), Some(RuntimeError::ShuttingDown)),
            "{refused:?}"
        );
        gate.open();
        let report = shutdown.await;
        assert_eq!((report.ended, report.handed_over, report.busy), (0, 1, 0));
        let told = handle.outcome().await;
        assert!(
            matches!(cause(&told), Some(RuntimeError::HandedOver { .. })),
            "{told:?}"
        );
        let refused = leaving.recover().await;
        assert!(
            matches!(cause(&refused), Some(RuntimeError::ShuttingDown)),
            "{refused:?}"
        );

        let next = place
            .builder_at(&clock())
            .await
            .holder("b")
            .agent(&agent)
            .build();
        let report = next.recover().await.unwrap();
        assert_eq!(report.recovered.len(), 1);
        assert_eq!(report.recovered[0].run_id, *handle.run_id());
        let taken = next.handle(&agent, session("s")).await.unwrap().unwrap();
        let outcome = taken.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("waited: done".to_owned()));
        assert_eq!(
            gate.entered(),
            1,
            "the call that was finished is not run again"
        );

        // The old handle sees the end too.
        let ended = handle.ended().await.unwrap();
        assert_eq!(ended.status, RunStatus::Completed);
        assert_eq!(runs(&place.open().await, &session("s")).await.len(), 1);
    }
}

/// The process is told to stop while a reply with calls is streaming. The calls are run before it
/// stops; otherwise another process would have to treat their outcome as unknown.
#[tokio::test]
async fn calls_of_a_streaming_reply_are_run_before_shutdown() {
    for place in Place::all() {
        let (reply, gate) = (Gate::new(), Gate::new());
        let agent = desk_with(Arc::new(Slow(Arc::clone(&reply))), &gate);
        let leaving = place.builder_at(&clock()).await.holder("a").build();
        let request = Turn::new("wait").session(session("s"));
        let handle = leaving.execute(&agent, request).await;
        reply.reached().await;
        let shutdown = leaving.shutdown(GRACE);
        reply.open();
        gate.open();
        let report = shutdown.await;
        assert_eq!((report.ended, report.handed_over, report.busy), (0, 1, 0));
        assert_eq!(
            (reply.entered(), gate.passed()),
            (1, 1),
            "no further reply is requested"
        );
        drop(handle);

        let agent = desk(&gate);
        let next = place
            .builder_at(&clock())
            .await
            .holder("b")
            .agent(&agent)
            .build();
        assert_eq!(next.recover().await.unwrap().recovered.len(), 1);
        let taken = next.handle(&agent, session("s")).await.unwrap().unwrap();
        let outcome = taken.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("waited: done".to_owned()));
    }
}

/// Detached runs are awaited; a run that takes longer than the grace period is reported as busy.
#[tokio::test]
async fn shutdown_waits_for_detached_runs_up_to_the_grace_period() {
    let place = Place::memory();
    let time = clock();
    let gate = Gate::new();
    let agent = desk(&gate);
    let runtime = place.builder().await.clock(time.clone()).build();
    drop(runtime.execute(&agent, "wait").await.unwrap());
    gate.reached().await;

    let shutdown = runtime.shutdown(GRACE);
    let mut shutdown = std::pin::pin!(shutdown);
    assert!(futures_util::poll!(&mut shutdown).is_pending());
    time.advance(GRACE - Duration::from_millis(1));
    assert!(futures_util::poll!(&mut shutdown).is_pending());
    time.advance(Duration::from_millis(1));
    let report = shutdown.await;
    assert_eq!((report.ended, report.handed_over, report.busy), (0, 0, 1));

    gate.open();
    let report = runtime.shutdown(GRACE).await;
    assert_eq!((report.ended, report.handed_over, report.busy), (0, 1, 0));
}

/// A run that ends within the grace period is counted as ended, not as handed over.
#[tokio::test]
async fn a_run_that_ends_during_shutdown_counts_as_ended() {
    let place = Place::memory();
    let gate = Gate::new();
    let agent = desk(&gate);
    let runtime = place.builder().await.clock(clock()).build();
    let handle = runtime.execute(&agent, "close").await.unwrap();
    gate.reached().await;
    let shutdown = runtime.shutdown(GRACE);
    gate.open();
    let report = shutdown.await;
    assert_eq!((report.ended, report.handed_over, report.busy), (1, 0, 0));
    let outcome = handle.outcome().await.unwrap();
    assert_eq!(outcome, Outcome::Done("closed".to_owned()));
}

/// A paused run has no task, so shutdown does not wait for it, and its call can still be answered.
#[tokio::test]
async fn shutdown_does_not_wait_for_a_paused_run() {
    let place = Place::memory();
    let agent = desk(&Gate::new());
    let runtime = place.builder().await.clock(clock()).build();
    let handle = runtime.execute(&agent, "pay").await.unwrap();
    let pause = handle.outcome().await.unwrap().suspended().unwrap();
    let report = runtime.shutdown(GRACE).await;
    assert_eq!((report.ended, report.handed_over, report.busy), (0, 0, 0));
    let yes = pause.pending()[0].approve();
    runtime.submit(yes).await.unwrap();
    let refused = runtime.resume(&agent, pause.session()).await;
    assert!(
        matches!(cause(&refused), Some(RuntimeError::ShuttingDown)),
        "{refused:?}"
    );
    assert_eq!(runs(runtime.backend(), pause.session()).await.len(), 1);
}

/// A run that waits to retry an overloaded model is handed over without waiting.
#[tokio::test]
async fn a_run_that_only_waits_is_handed_over_at_once() {
    let place = Place::memory();
    let time = clock();
    let agent = desk(&Gate::new());
    let runtime = place.builder().await.clock(time.clone()).build();
    let handle = runtime.execute(&agent, "busy").await.unwrap();
    let back_off = time.now().saturating_add(Duration::from_secs(1));
    while time.next_deadline() != Some(back_off) {
        tokio::task::yield_now().await;
    }
    let report = runtime.shutdown(GRACE).await;
    assert_eq!((report.ended, report.handed_over, report.busy), (0, 1, 0));
    assert_eq!(time.sleepers(), 0, "no task is sleeping");

    let next = place
        .builder()
        .await
        .clock(time.clone())
        .agent(&agent)
        .build();
    let report = next.recover().await.unwrap();
    assert_eq!(report.recovered.len(), 1);
    while time.next_deadline() != Some(back_off) {
        tokio::task::yield_now().await;
    }
    time.advance(Duration::from_secs(1));
    let taken = next.handle(&agent, handle.session_id()).await.unwrap();
    let outcome = taken.unwrap().outcome().await.unwrap();
    assert_eq!(outcome, Outcome::Done("not busy any more".to_owned()));
}
