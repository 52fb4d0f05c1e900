//! Tests of a process whose lease has lapsed, and of telling tools when it is lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use helix_agents_core::agent::Agent;
use helix_agents_core::model::Model;
use helix_agents_core::runtime::{Handle, Outcome, Runtime, RuntimeError, RuntimeExt, Turn};
use helix_agents_core::tool::{Tool, ToolBuilder, ToolCx};
use helix_agents_core::{SessionId, ToolResult};
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_testkit::VirtualClock;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::failing_store::{Failures, failing_store};
use crate::kit::{
    Gate, LEASE, Place, Slow, cause, clock, desk, desk_with, session, timed, waiting,
};

const SECOND: Duration = Duration::from_secs(1);

/// A runtime whose store refuses to renew its lease, and a model that waits at a gate.
struct Scene {
    place: Place,
    time: Arc<VirtualClock>,
    failures: Arc<Failures>,
    reply: Arc<Gate>,
    tool: Arc<Gate>,
    runtime: LocalRuntime,
    handle: Handle<String>,
}

impl Scene {
    /// Runs until the first reply is complete, its tool is at the gate, and the lease has lapsed.
    async fn lapsed(place: Place) -> Self {
        let time = clock();
        let (backend, failures) = failing_store(place.open_at(&time).await);
        let builder = LocalRuntime::builder(backend)
            .recovery(false)
            .holder("one")
            .lease(LEASE);
        let runtime = builder.clock(time.clone()).build();
        let (reply, tool) = (Gate::new(), Gate::new());
        let agent = desk_with(Arc::new(Slow(Arc::clone(&reply))), &tool);
        reply.open();
        let handle = waiting(&runtime, &agent, &tool).await;
        failures.refuses_renewals.store(true, Ordering::SeqCst);
        // The renewal is retried every second.
        time.advance(LEASE * 3 / 10);
        let before = time.next_deadline();
        for tries in 1..=8 {
            while failures.renewals.load(Ordering::SeqCst) < tries || time.next_deadline() == before
            {
                tokio::task::yield_now().await;
            }
            time.advance(SECOND);
        }
        Self {
            place,
            time,
            failures,
            reply,
            tool,
            runtime,
            handle,
        }
    }
}

async fn a_while() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Effects in progress continue when the lease lapses; the next effect is started only after a
/// renewal under the same fence.
#[tokio::test]
async fn no_effect_is_begun_after_the_lease_has_lapsed() {
    for place in Place::all() {
        let scene = Scene::lapsed(place).await;
        scene.tool.open();
        scene.reply.open();
        a_while().await;
        assert_eq!(scene.tool.passed(), 1, "the running call continues");
        assert_eq!(scene.reply.entered(), 1, "no effect is started");
        scene
            .failures
            .refuses_renewals
            .store(false, Ordering::SeqCst);
        while scene.handle.ended().now_or_never().is_none() {
            scene.time.advance(SECOND);
            a_while().await;
        }
        let outcome = scene.handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("waited: done".to_owned()));
        assert_eq!((scene.reply.entered(), scene.tool.entered()), (2, 1));
        assert_eq!(scene.runtime.shutdown(SECOND).await.busy, 0);
    }
}

/// Another process has the run by the time the store can be reached again: no effect is started.
#[tokio::test]
async fn a_process_that_lost_its_run_starts_no_effect() {
    for place in Place::all() {
        let scene = Scene::lapsed(place).await;
        let other = timed(&scene.place, "other", &scene.time).await;
        let gate = Gate::new();
        other.agents().register(&desk(&gate)).unwrap();
        assert_eq!(other.recover().await.unwrap().recovered.len(), 1);
        scene.reply.open();
        scene
            .failures
            .refuses_renewals
            .store(false, Ordering::SeqCst);
        scene.time.advance(SECOND);
        let told = scene.handle.outcome().await;
        assert!(
            matches!(cause(&told), Some(RuntimeError::Superseded { .. })),
            "{told:?}"
        );
        assert_eq!(scene.reply.entered(), 1, "no effect was started");
    }
}

/// A tool that spawns a task which watches its abort signal, and then waits at a gate.
fn watching(gate: &Arc<Gate>, told: &Arc<Semaphore>) -> ToolBuilder {
    let (gate, told) = (Arc::clone(gate), Arc::clone(told));
    let schema = json!({ "type": "object" });
    Tool::raw("watch", "Watches.", schema, move |_: Value, cx: ToolCx| {
        let (gate, told) = (Arc::clone(&gate), Arc::clone(&told));
        let signal = cx.abort_signal().clone();
        tokio::spawn(async move {
            signal.aborted().await;
            told.add_permits(1);
        });
        async move {
            gate.pass().await;
            let done: ToolResult<Value> = Ok(json!("done"));
            done
        }
    })
}

/// An agent that calls the tool twice in one step.
fn watcher(gate: &Arc<Gate>, told: &Arc<Semaphore>) -> Agent {
    let calls = json!([{ "id": "c1", "name": "watch" }, { "id": "c2", "name": "watch" }]);
    let script = json!({ "default": [{ "tool_calls": calls }, { "text": "done" }] });
    let model: Arc<dyn Model> = Arc::new(ScriptedModel::new(Script::from_value(script).unwrap()));
    Agent::builder("watcher")
        .model(model)
        .system_prompt("Watch.")
        .tools(watching(gate, told))
        .build()
        .unwrap()
}

/// Tools are told that another process has their run: by the renewal of the lease, and by the first
/// effect that cannot be written.
#[tokio::test]
async fn tools_are_told_when_their_run_is_lost() {
    for place in Place::all() {
        for by_renewal in [false, true] {
            let (gate, told) = (Gate::new(), Arc::new(Semaphore::new(0)));
            let agent = watcher(&gate, &told);
            let (slow_time, time) = (clock(), clock());
            let slow = timed(&place, "slow", &slow_time).await;
            let name = SessionId::new(format!("by-renewal-{by_renewal}")).unwrap();
            let request = Turn::new("go").session(name);
            let handle = slow.execute(&agent, request);
            let handle = handle.await.unwrap();
            gate.reached().await;
            gate.reached().await;

            let other = timed(&place, "other", &time).await;
            other.agents().register(&agent).unwrap();
            time.advance(LEASE);
            let report = other.recover().await.unwrap();
            assert_eq!(report.recovered.len(), 1, "{report:?}");
            assert!(other.ended(&report.recovered[0]).await.is_ok());
            assert_eq!(told.available_permits(), 0, "no call was told yet");
            if by_renewal {
                slow_time.advance(LEASE);
            } else {
                gate.open();
            }
            let ended = handle.outcome().await;
            assert!(
                matches!(cause(&ended), Some(RuntimeError::Superseded { .. })),
                "{ended:?}"
            );
            a_while().await;
            assert_eq!(told.available_permits(), 2, "both calls are told");
            assert_eq!(gate.passed(), usize::from(!by_renewal));
        }
    }
}

/// One process has a clock that is or was an hour ahead, the other a correct one: the store's clock
/// decides for both.
#[tokio::test]
async fn a_process_whose_clock_is_ahead_takes_over_no_live_run() {
    for place in Place::all() {
        let (right, ahead) = (clock(), clock());
        ahead.advance(Duration::from_secs(3600));
        let gate = Gate::new();
        let agent = desk(&gate);
        let process = async |holder: &str, clock: &Arc<VirtualClock>| {
            let builder = LocalRuntime::builder(place.clocked(&right).await)
                .recovery(false)
                .holder(holder);
            builder
                .lease(LEASE)
                .clock(clock.clone())
                .agent(&agent)
                .build()
        };
        let (one, other) = (
            process("right", &right).await,
            process("ahead", &ahead).await,
        );
        let handle = waiting(&one, &agent, &gate).await;
        let report = other.recover().await.unwrap();
        assert!(report.recovered.is_empty(), "{report:?}");
        let refused = other.recover_session(&session("s")).await;
        assert!(refused.is_err(), "{refused:?}");
        gate.open();
        let outcome = handle.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("waited: done".to_owned()));
    }
}
