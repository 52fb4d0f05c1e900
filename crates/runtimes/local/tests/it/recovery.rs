//! Tests of runs that stalled and are recovered.

use std::sync::atomic::Ordering;
use std::time::Duration;

use helix_agents_core::entries::{EntryError, ExecuteRequest, Performer};
use helix_agents_core::message::{Message, ResultStatus};
use helix_agents_core::runtime::{Outcome, Runtime, RuntimeError, RuntimeExt, Turn};
use helix_agents_core::store::{DueReason, Page};
use helix_agents_runtime_local::{LocalRuntime, SweepReport};
use helix_agents_store_sqlite::SqliteStore;

use crate::failing_store::{FalseDue, failing_store};
use crate::kit::{Gate, LEASE, Place, cause, clock, desk, entries, runs, session, timed, waiting};

/// A process is killed during a call: its tasks vanish between two polls.
///
/// proves in part: RUN-01
#[test]
fn a_run_whose_process_is_gone_is_taken_over() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let time = clock();
        let process = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_time().build().unwrap()
        };
        let killed = process();
        let run = killed.block_on(async {
            let runtime = timed(&place, "killed", &time).await;
            waiting(&runtime, &agent, &gate).await.run_id().clone()
        });
        drop(killed);

        process().block_on(async {
            let next = timed(&place, "next", &time).await;
            next.agents().register(&agent).unwrap();
            time.advance(LEASE - Duration::from_millis(1));
            assert_eq!(next.recover().await.unwrap(), SweepReport::default());
            time.advance(Duration::from_millis(1));
            let without = timed(&place, "without", &time).await;
            let left = without.recover().await.unwrap();
            assert_eq!(left, SweepReport::default(), "it does not have the agent");
            let careful = place.builder_at(&time).await.holder("careful").lease(LEASE);
            let careful = careful.take_over(false);
            let careful = careful.agent(&agent).build();
            let left = careful.recover().await.unwrap();
            assert_eq!(left, SweepReport::default(), "taking over is turned off");
            let report = next.recover().await.unwrap();
            assert_eq!(report.recovered.len(), 1, "the lease has lapsed");
            assert_eq!(report.recovered[0].run_id, run);

            let handle = next.handle(&agent, session("s")).await.unwrap().unwrap();
            let Outcome::Done(text) = handle.outcome().await.unwrap() else {
                panic!("the run ends");
            };
            let text = text.as_str();
            assert!(text.contains("may or may not have taken effect"), "{text}");
            assert_eq!(
                gate.entered(),
                1,
                "a call that may have taken effect is not repeated"
            );
            assert_eq!(runs(next.backend(), &session("s")).await.len(), 1);
        });
    }
}

/// A run whose store fails stalls, its handle is told, and it continues later.
#[tokio::test]
async fn a_run_that_cannot_write_stalls_and_is_recovered() {
    for place in Place::all() {
        let time = clock();
        let (backend, failures) = failing_store(place.open_at(&time).await);
        let builder = LocalRuntime::builder(backend)
            .recovery(false)
            .holder("one")
            .lease(LEASE);
        let runtime = builder.clock(time.clone()).build();
        let gate = Gate::new();
        let agent = desk(&gate);
        let handle = waiting(&runtime, &agent, &gate).await;
        failures.refuses_steps.store(true, Ordering::SeqCst);
        gate.open();
        let told = handle.outcome().await;
        let Some(RuntimeError::Stalled { source, .. }) = cause(&told) else {
            panic!("unexpected: {told:?}");
        };
        assert!(
            source.to_string().contains("refuses this commit"),
            "{source}"
        );

        failures.refuses_steps.store(false, Ordering::SeqCst);
        time.advance(LEASE);
        let report = runtime.recover().await.unwrap();
        assert_eq!(report.recovered.len(), 1);
        assert!(handle.ended().await.unwrap().status.is_ended());
        assert_eq!(
            gate.entered(),
            1,
            "a call that may have taken effect is not repeated"
        );
    }
}

/// A driver that panics does not leave its waiters hanging.
#[tokio::test]
async fn a_driver_that_panics_is_reported_and_its_run_recovered() {
    let place = Place::memory();
    let (backend, failures) = failing_store(place.open().await);
    let time = clock();
    let builder = LocalRuntime::builder(backend)
        .recovery(false)
        .holder("one")
        .lease(LEASE);
    let runtime = builder.clock(time.clone()).build();
    let gate = Gate::new();
    let agent = desk(&gate);
    let handle = waiting(&runtime, &agent, &gate).await;
    failures.panics_on_steps.store(true, Ordering::SeqCst);
    gate.open();
    let told = handle.outcome().await;
    let Some(RuntimeError::Host { why }) = cause(&told) else {
        panic!("unexpected: {told:?}");
    };
    assert!(why.contains(handle.run_id().as_str()), "{why}");
    failures.panics_on_steps.store(false, Ordering::SeqCst);
    time.advance(LEASE);
    assert_eq!(runtime.recover().await.unwrap().recovered.len(), 1);
    assert!(handle.ended().await.unwrap().status.is_ended());
    assert_eq!(runtime.shutdown(LEASE).await.busy, 0);
}

/// A run that was due when it was listed may be performed by the time it is handled: by another
/// process, or by another runtime of this one, even under the same holder name.
#[tokio::test]
async fn a_run_that_is_performed_elsewhere_is_not_taken_over() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let time = clock();
        let one = timed(&place, "one", &time).await;
        let handle = waiting(&one, &agent, &gate).await;
        let (backend, failures) = failing_store(place.open_at(&time).await);
        for holder in ["one", "other"] {
            let due = DueReason::LapsedLease {
                run: handle.run_id().clone(),
                host: "local".to_owned(),
            };
            failures
                .due
                .lock()
                .unwrap()
                .push(FalseDue::Stale(session("s"), due));
            let builder = LocalRuntime::builder(backend.clone())
                .recovery(false)
                .holder(holder);
            let beside = builder.clock(time.clone()).agent(&agent).build();
            assert_eq!(beside.recover().await.unwrap(), SweepReport::default());
        }
        gate.open();
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("waited: done".to_owned()));
    }
}

/// Only the same kind of host can take a run over, with or without a lease.
#[tokio::test]
async fn runs_of_other_hosts_are_left_alone() {
    for place in Place::all() {
        for (name, leased) in [("leased", true), ("not", false)] {
            let agent = desk(&Gate::new());
            let time = clock();
            let backend = place.open_at(&time).await;
            let mut elsewhere = Performer::new("elsewhere");
            if leased {
                elsewhere = elsewhere.leased("gone", LEASE);
            }
            let request = ExecuteRequest::new(&agent, "hello").in_session(session(name));
            let begun = entries(&backend, &time).execute(request, &elsewhere).await;
            begun.unwrap();
            time.advance(LEASE);

            let local = timed(&place, "local", &time).await;
            local.agents().register(&agent).unwrap();
            assert_eq!(local.recover().await.unwrap(), SweepReport::default());
            let refused = local.recover_session(&session(name)).await;
            let Some(RuntimeError::Entry(EntryError::OtherHost { has, .. })) = cause(&refused)
            else {
                panic!("unexpected: {refused:?}");
            };
            assert_eq!(has, "elsewhere");
            assert_eq!(runs(&backend, &session(name)).await[0].host, "elsewhere");
        }
    }
}

/// A runtime does not take over a run that it performs, not even on request or after the lease has
/// lapsed.
#[tokio::test]
async fn a_runtime_does_not_recover_its_own_runs() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let time = clock();
        let (backend, failures) = failing_store(place.open_at(&time).await);
        failures.refuses_renewals.store(true, Ordering::SeqCst);
        let builder = LocalRuntime::builder(backend).recovery(false).lease(LEASE);
        let runtime = builder.clock(time.clone()).build();
        let handle = waiting(&runtime, &agent, &gate).await;
        for _ in 0..2 {
            let refused = runtime.recover_session(&session("s")).await;
            let Some(RuntimeError::Entry(EntryError::StillHeld { run, .. })) = cause(&refused)
            else {
                panic!("unexpected: {refused:?}");
            };
            assert_eq!(run, handle.run_id());
            time.advance(LEASE);
        }
        failures.refuses_renewals.store(false, Ordering::SeqCst);
        time.advance(LEASE);
        gate.open();
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("waited: done".to_owned()));
        assert_eq!((gate.entered(), gate.passed()), (1, 1));
    }
}

/// Two runtimes of one process are two holders, and the store still recognises their process.
#[tokio::test]
async fn two_runtimes_of_one_process_have_different_holder_names() {
    let place = Place::Sqlite(tempfile::tempdir().unwrap());
    let backend = place.open().await;
    let gate = Gate::new();
    let agent = desk(&gate);
    let mut holders = Vec::new();
    for name in ["s", "t"] {
        let runtime = LocalRuntime::builder(backend.clone())
            .recovery(false)
            .build();
        let request = Turn::new("wait").session(session(name));
        let handle = runtime.execute(&agent, request);
        handle.await.unwrap();
        gate.reached().await;
        let found = backend
            .store
            .load(session(name).as_root())
            .await
            .unwrap()
            .unwrap();
        holders.push(found.lease.unwrap().holder);
    }
    let prefix = format!("{}:", SqliteStore::holder());
    assert!(
        holders.iter().all(|one| one.starts_with(&prefix)),
        "{holders:?}"
    );
    assert_ne!(holders[0], holders[1]);
}

/// When the result of one call cannot be stored after all retries, its siblings are awaited: their
/// results are known afterwards, and none is reported as not executed.
#[tokio::test]
async fn results_of_siblings_are_kept_when_one_call_cannot_be_stored() {
    for place in Place::all() {
        let time = clock();
        let (backend, failures) = failing_store(place.open_at(&time).await);
        let builder = LocalRuntime::builder(backend)
            .recovery(false)
            .holder("one")
            .lease(LEASE);
        let runtime = builder.clock(time.clone()).build();
        let gate = Gate::new();
        let agent = desk(&gate);
        let handle = runtime.execute(&agent, "both").await.unwrap();
        gate.reached().await;
        gate.reached().await;
        failures.refused_calls.store(1, Ordering::SeqCst);
        gate.open();
        while failures.refused_calls.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
        gate.open();
        let told = handle.outcome().await;
        assert!(matches!(told, Ok(Outcome::Failed(_))), "{told:?}");
        assert_eq!(gate.passed(), 2);
        let store = &runtime.backend().store;
        let messages = store
            .messages(handle.session_id().as_root(), Page::ALL)
            .await;
        let mut results: Vec<_> = messages
            .unwrap()
            .items
            .into_iter()
            .filter_map(|message| match message {
                Message::Tool(result) => Some(result.status),
                _ => None,
            })
            .collect();
        results.sort_by_key(|status| status.is_success());
        assert_eq!(results, [ResultStatus::Unknown, ResultStatus::Success]);
    }
}
