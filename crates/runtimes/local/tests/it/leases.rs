//! Tests of leases that are held, renewed and lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use helix_agents_core::runtime::{Backend, Outcome, Runtime, RuntimeError, RuntimeExt, Turn};
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::Lease;
use helix_agents_core::time::Clock;
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::{Agent, ToolResult};
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_runtime_local::SweepReport;
use serde_json::{Value, json};

use crate::kit::{
    Gate, LEASE, Place, Slow, cause, clock, desk, desk_with, session, timed, waiting,
};

async fn lease(backend: &Backend) -> Option<Lease> {
    let found = backend.store.load(session("s").as_root()).await.unwrap();
    found.unwrap().lease
}

/// A long run is not taken from the process that performs it.
#[tokio::test]
async fn a_lease_is_renewed_while_its_run_is_performed() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let time = clock();
        let one = timed(&place, "one", &time).await;
        let other = timed(&place, "other", &time).await;
        other.agents().register(&agent).unwrap();
        let handle = waiting(&one, &agent, &gate).await;
        let mut held_until = lease(one.backend()).await.unwrap().until;
        for _ in 0..10 {
            time.advance(LEASE * 3 / 10);
            // Yield to the driver until the lease in the store has changed.
            let renewed = loop {
                tokio::task::yield_now().await;
                let now = lease(one.backend()).await.unwrap();
                if now.until > held_until {
                    break now;
                }
            };
            held_until = renewed.until;
            assert_eq!(renewed.holder, "one");
            assert_eq!(other.recover().await.unwrap(), SweepReport::default());
        }
        gate.open();
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("waited: done".to_owned()));
    }
}

/// A run whose effects never wait still renews its lease.
#[tokio::test]
async fn a_run_that_never_waits_keeps_its_lease() {
    let place = Place::memory();
    let backend = place.open().await;
    let time = clock();
    let left = Arc::new(Mutex::new(Vec::new()));
    let tick = {
        let (time, left) = (Arc::clone(&time), Arc::clone(&left));
        Tool::raw("tick", "Takes 4 s.", json!({ "type": "object" }), {
            move |_: Value, _: ToolCx| {
                let (time, left) = (Arc::clone(&time), Arc::clone(&left));
                let backend = backend.clone();
                async move {
                    time.advance(Duration::from_secs(4));
                    let until = lease(&backend).await.unwrap().until;
                    left.lock().unwrap().push(until.since(time.now()).as_secs());
                    let done: ToolResult<Value> = Ok(Value::Null);
                    done
                }
            }
        })
    };
    let steps = vec![json!({ "tool_calls": [ { "name": "tick" } ] }); 6];
    let script = Script::from_value(json!({ "default": steps })).unwrap();
    let agent = Agent::builder("ticking")
        .model(Arc::new(ScriptedModel::new(script)))
        .system_prompt("Tick.")
        .tools(tick)
        .build()
        .unwrap();
    let runtime = timed(&place, "one", &time).await;
    let request = Turn::new("go").session(session("s"));
    let handle = runtime.execute(&agent, request).await.unwrap();
    assert!(handle.ended().await.unwrap().status.is_ended());
    let left = left.lock().unwrap().clone();
    assert_eq!(left, [6; 6], "seconds left on the lease after each call");
}

/// The clock of `slow` does not move, so for `other` its lease lapses although the process is alive.
///
/// The old handle is told, whether the old process notices through its next write or through the
/// renewal of its lease.
#[tokio::test]
async fn a_run_that_was_taken_over_is_superseded() {
    for place in Place::all() {
        for by_renewal in [false, true] {
            let name = if by_renewal { "renewal" } else { "write" };
            println!("by {name}");
            let (gate, again) = (Gate::new(), Gate::new());
            let (slow_time, time) = (clock(), clock());
            let slow = timed(&place, "slow", &slow_time).await;
            let agent = desk(&gate);
            let request = Turn::new("wait").session(session(name));
            let handle = slow.execute(&agent, request).await.unwrap();
            gate.reached().await;

            let other = timed(&place, "other", &time).await;
            other.agents().register(&desk(&again)).unwrap();
            time.advance(LEASE);
            let report = other.recover().await.unwrap();
            assert_eq!(report.recovered.len(), 1);
            let ended = other.ended(&report.recovered[0]).await.unwrap();
            assert!(ended.status.is_ended());

            if by_renewal {
                slow_time.advance(LEASE);
            } else {
                gate.open();
            }
            for _ in 0..2 {
                let told = handle.outcome().await;
                let Some(RuntimeError::Superseded { run }) = cause(&told) else {
                    panic!("unexpected: {told:?}");
                };
                assert_eq!(run, handle.run_id());
            }
            assert_eq!(gate.passed(), usize::from(!by_renewal));
            assert_eq!(slow.shutdown(LEASE).await.busy, 0);
        }
    }
}

/// A process that was suspended for longer than its lease does not take over its own runs.
#[tokio::test]
async fn a_runtime_does_not_take_its_own_runs_over() {
    for place in Place::all() {
        let gate = Gate::new();
        let agent = desk(&gate);
        let time = clock();
        let one = timed(&place, "one", &time).await;
        let handle = waiting(&one, &agent, &gate).await;
        time.advance(LEASE);
        assert_eq!(one.recover().await.unwrap(), SweepReport::default());
        gate.open();
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("waited: done".to_owned()));
    }
}

/// A run that was lost and is taken back is reported with its outcome, and no longer as lost.
#[tokio::test]
async fn a_run_that_is_taken_back_reports_its_outcome() {
    let place = Place::memory();
    let (gate, reply) = (Gate::new(), Gate::new());
    let (one_time, other_time) = (clock(), clock());
    let one = timed(&place, "one", &one_time).await;
    let handle = waiting(&one, &desk(&gate), &gate).await;

    // The other runtime gets the run and blocks in its model call.
    let other = timed(&place, "other", &other_time).await;
    let slow = desk_with(Arc::new(Slow(Arc::clone(&reply))), &gate);
    other.agents().register(&slow).unwrap();
    other_time.advance(LEASE);
    assert_eq!(other.recover().await.unwrap().recovered.len(), 1);
    reply.reached().await;

    one_time.advance(LEASE * 2);
    let told = handle.ended().await;
    assert!(
        matches!(cause(&told), Some(RuntimeError::Superseded { .. })),
        "{told:?}"
    );
    let report = one.recover().await.unwrap();
    assert_eq!(report.recovered.len(), 1);
    for _ in 0..2 {
        let ended = handle.ended().await.unwrap();
        assert_eq!(ended.status, RunStatus::Completed);
    }
}
