//! Effects that are performed more than once.

use std::sync::Arc;

use helix_agents_core::agent::Agent;
use helix_agents_core::message::ResultStatus;
use helix_agents_core::perform::{Attempt, perform};
use helix_agents_core::session::RunStatus;
use helix_agents_core::stream::ChunkPayload;
use serde_json::json;

use super::super::Subject;
use super::super::runtime::agents::{Gate, Log, calling, noted, of_model, tool};
use super::run_driver::{GatedModel, RunDriver, under_way};
use crate::{MockModel, MockReply};

/// An agent whose first model call waits at the gate, with a tool that must not be repeated.
fn charging(gate: &Gate, waits: usize, log: &Log, replies: Vec<MockReply>) -> Agent {
    Agent::builder("agent")
        .model(Arc::new(GatedModel::new(gate, waits, replies)))
        .system_prompt("You are held against a contract.")
        .tools(noted("charge", log))
        .build()
        .unwrap()
}

/// An engine repeats a model call while the first attempt is still running: one reply counts, its
/// call is run once, and readers see one text.
pub async fn two_attempts_at_a_model_call_come_to_one_reply(on: &Subject) {
    let (gate, log) = (Gate::default(), Log::default());
    let replies = vec![
        MockReply::text("one ").with_calls([("c1", "charge", json!({}))]),
        MockReply::text("two ").with_calls([("c2", "charge", json!({}))]),
        MockReply::text("done"),
    ];
    let mut driver = RunDriver::new(on, charging(&gate, 1, &log, replies)).await;
    let effects = driver.begin();
    let ports = driver.ports.clone();
    let mut zombie = Box::pin(perform(&effects[0], Attempt::First, &ports));
    under_way(&mut zombie);
    let event = perform(&effects[0], Attempt::Repeat, &ports).await.unwrap();
    let effects = driver.feed(event);
    let effects = driver.next(&effects).await;
    gate.open();
    // Its reply is no longer used: the run has continued.
    let _ = zombie.await;
    assert_eq!(
        driver.found().await.open_step,
        None,
        "no step is opened again"
    );
    driver.through(effects).await;
    assert_eq!(log.take(), ["charge c2 {}"]);
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    assert_eq!(driver.text().await, "two done");
}

/// An attempt that continues after the run has ended changes neither the run nor the next turn.
pub async fn an_attempt_that_ends_after_the_run_adds_nothing(on: &Subject) {
    let (gate, log) = (Gate::default(), Log::default());
    let replies = vec![
        MockReply::text("late").with_calls([("old", "charge", json!({}))]),
        MockReply::text("plain answer"),
    ];
    let mut driver = RunDriver::new(on, charging(&gate, 1, &log, replies)).await;
    let effects = driver.begin();
    let ports = driver.ports.clone();
    let mut zombie = Box::pin(perform(&effects[0], Attempt::First, &ports));
    under_way(&mut zombie);
    let event = perform(&effects[0], Attempt::Repeat, &ports).await.unwrap();
    assert!(driver.feed(event).is_empty(), "the run has ended");
    gate.open();
    let _ = zombie.await;
    let found = driver.found().await;
    assert_eq!(found.open_step, None);
    assert_eq!(found.run.unwrap().status, RunStatus::Completed);
    assert_eq!(driver.messages().await.len(), 2);
    assert_eq!(driver.text().await, "plain answer");
    assert_eq!(log.take(), [""; 0]);
}

/// A worker dies between a tool and its commit: an engine that repeats the effect does not run the
/// tool again, unless the tool is repeatable.
pub async fn a_call_begun_before_is_not_run_again(on: &Subject) {
    let (gate, log) = (Gate::default(), Log::default());
    let once = |name: &'static str| {
        let (gate, log) = (gate.clone(), log.clone());
        tool(name, move |_, cx| {
            log.note(format!("{name} {}", cx.call_id()));
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok(json!("done"))
            }
        })
    };
    let model = Arc::new(MockModel::replies([
        calling([("c1", "charge"), ("c2", "put")]),
        MockReply::text("done"),
    ]));
    let agent = of_model(&model)
        .tools(once("charge"))
        .tools(once("put").idempotent())
        .build()
        .unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let ports = driver.ports.clone();
    for effect in &effects {
        let mut dies = Box::pin(perform(effect, Attempt::First, &ports));
        under_way(&mut dies);
    }
    gate.open();
    let mut rest = Vec::new();
    for effect in &effects {
        let event = perform(effect, Attempt::Repeat, &ports).await.unwrap();
        rest.extend(driver.feed(event));
    }
    driver.through(rest).await;
    assert_eq!(log.take(), ["charge c1", "put c2", "put c2"]);
    let statuses: Vec<_> = driver
        .results()
        .await
        .iter()
        .map(|one| one.status)
        .collect();
    assert_eq!(statuses, [ResultStatus::Unknown, ResultStatus::Success]);
}

/// If the engine does not tell which attempt it is, a call that must not be repeated is claimed
/// before it starts: of two attempts one runs it.
pub async fn an_attempt_of_unknown_order_claims_calls_that_must_not_be_repeated(on: &Subject) {
    let (gate, log) = (Gate::default(), Log::default());
    let model = Arc::new(MockModel::replies([
        calling([("c1", "charge")]),
        MockReply::text("done"),
    ]));
    let counts = {
        let (gate, log) = (gate.clone(), log.clone());
        tool("charge", move |_, cx| {
            log.note(format!("charge {}", cx.call_id()));
            cx.emit("charging", json!(1)).unwrap();
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok(json!("done"))
            }
        })
    };
    let agent = of_model(&model).tools(counts).build().unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    let effects = driver.begin();
    let event = perform(&effects[0], Attempt::Untold, &driver.ports)
        .await
        .unwrap();
    let effects = driver.feed(event);
    let ports = driver.ports.clone();
    let mut one = Box::pin(perform(&effects[0], Attempt::Untold, &ports));
    under_way(&mut one);
    let other = perform(&effects[0], Attempt::Untold, &ports).await.unwrap();
    let effects = driver.feed(other);
    gate.open();
    let _ = one.await;
    driver.through(effects).await;
    assert_eq!(log.take(), ["charge c1"], "it is run once");
    assert_eq!(driver.results().await[0].status, ResultStatus::Unknown);
    let ends = driver.streamed().await.into_iter();
    let ends = ends.filter(|said| {
        matches!(
            said,
            ChunkPayload::ToolEnd { .. } | ChunkPayload::ToolError { .. }
        )
    });
    assert_eq!(ends.count(), 1, "its end is told once");
}
