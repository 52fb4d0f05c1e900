//! A store that fails under a live run.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};

use async_trait::async_trait;
use helix_agents_core::agent::Agent;
use helix_agents_core::entries::Entries;
use helix_agents_core::hooks::{AgentHooks, BeforeModelCall, HookCx, HookResult};
use helix_agents_core::model::{ModelError, ModelErrorKind, ModelEvent, TokenUsage};
use helix_agents_core::perform::{Attempt, PerformError, perform};
use helix_agents_core::session::{RunStatus, SubmissionOutcome};
use helix_agents_core::step::StopReason;
use helix_agents_core::store::{Change, Commit};
use helix_agents_core::stream::ChunkPayload;
use serde_json::{Value, json};

use super::super::Subject;
use super::super::builders::call;
use super::super::runtime::agents::{Gate, Log, browser, calling, of_model, tool};
use super::super::runtime::stepwise_model::{ModelStep, StepwiseModel};
use super::faulty_store::{CommitFate, FaultyStore};
use super::run_driver::{RunDriver, answer, pause, under_way};
use crate::{MockModel, MockReply};

fn opens_a_step(commit: &Commit) -> bool {
    let opens = |change: &Change| matches!(change, Change::OpenStep(Some(_)));
    commit.changes.iter().any(|(_, change)| opens(change))
}

/// The acknowledgement of a reply is lost, and so is the read that checks it: the reply is not
/// committed twice, and an answer that came in between is not overwritten.
pub async fn a_commit_whose_acknowledgement_is_lost_is_made_once(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        calling([("q1", "ask"), ("q2", "ask")]),
        MockReply::text("done"),
    ]));
    let agent = of_model(&model).tools(browser("ask")).build().unwrap();
    let lost = AtomicBool::new(false);
    let entries = Arc::new(OnceLock::<(Entries, FaultyStore)>::new());
    let store = FaultyStore::new(on, {
        let entries = Arc::clone(&entries);
        move |commit| {
            if !opens_a_step(commit) || lost.swap(true, Ordering::SeqCst) {
                return CommitFate::Made;
            }
            let entries = Arc::clone(&entries);
            CommitFate::UnacknowledgedAfter(Box::pin(async move {
                let (entries, store) = entries.get().unwrap();
                let early = entries.submit(&answer("q1", "blue")).await.unwrap();
                assert_eq!(early.outcome, SubmissionOutcome::Accepted);
                // The first looks afterwards fail, too.
                store.fail_reads(2);
            }))
        }
    });
    let mut driver = RunDriver::on(store.clone(), on, agent, Vec::new()).await;
    entries.set((driver.entries.clone(), store)).unwrap();
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let found = driver.found().await;
    let pending = &found.state.pending_client_tool_calls[&call("q1")];
    assert!(pending.answer.is_some(), "the answer is not overwritten");
    let starts = driver.streamed().await.into_iter();
    let starts = starts.filter(|said| matches!(said, ChunkPayload::ToolStart { .. }));
    assert_eq!(starts.count(), 2, "the reply is told once");

    driver.entries.submit(&answer("q2", "red")).await.unwrap();
    driver.through(effects).await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    let contents: Vec<_> = driver
        .results()
        .await
        .into_iter()
        .map(|one| one.content)
        .collect();
    assert_eq!(contents, ["blue", "red"]);
}

/// Writes to the state before every model call.
struct Counts;

#[async_trait]
impl AgentHooks for Counts {
    async fn before_llm_call(&self, _: &BeforeModelCall<'_>, cx: &HookCx) -> HookResult {
        cx.update_state(|state: &mut Value| state["asked"] = json!(count(state) + 1))?;
        Ok(())
    }
}

fn count(state: &Value) -> u64 {
    state["asked"].as_u64().unwrap_or_default()
}

/// A model call fails, and the acknowledgement of the state changes of its hooks is lost: they are
/// written once, and the failure is reported unchanged.
pub async fn state_changes_of_hooks_before_a_failed_call_are_written_once(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        MockReply::error(ModelErrorKind::Overloaded),
        MockReply::text("done"),
    ]));
    let agent = of_model(&model).build().unwrap();
    let lost = AtomicBool::new(false);
    let store = FaultyStore::new(on, move |commit| {
        let writes = |change: &Change| matches!(change, Change::WriteState(_));
        let writes = commit.changes.iter().any(|(_, change)| writes(change));
        match writes && !lost.swap(true, Ordering::SeqCst) {
            true => CommitFate::Unacknowledged,
            false => CommitFate::Made,
        }
    });
    let hooks: Vec<Arc<dyn AgentHooks>> = vec![Arc::new(Counts)];
    let mut driver = RunDriver::on(store, on, agent, hooks).await;
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    let state = driver.found().await.state.custom_state;
    assert_eq!(*state, json!({ "asked": 2 }), "once for each attempt");
    assert_eq!(model.seen().len(), 2);
}

/// Reads, deltas and commits fail for a while: the run continues, a tool is not cut short, and no
/// chunk is streamed twice.
pub async fn a_store_that_fails_for_a_while_ends_no_run(on: &Subject) {
    let log = Log::default();
    let model = Arc::new(MockModel::replies([
        MockReply::text("thinking. ").with_calls([("c1", "work", json!({}))]),
        MockReply::text("done"),
    ]));
    let mut commits = 0;
    let store = FaultyStore::new(on, move |_| {
        commits += 1;
        // Of three commits one is not made, and one is not acknowledged.
        match commits % 3 {
            1 => CommitFate::Failed,
            2 => CommitFate::Unacknowledged,
            _ => CommitFate::Made,
        }
    });
    let tool = {
        let (log, store) = (log.clone(), store.clone());
        tool("work", move |_, cx| {
            let (log, store) = (log.clone(), store.clone());
            async move {
                log.note("begins");
                store.fail_deltas(1);
                cx.emit("progress", json!(1)).unwrap();
                pause().await;
                store.lose_deltas(1);
                cx.emit("progress", json!(2)).unwrap();
                pause().await;
                store.fail_reads(2);
                log.note("ends");
                Ok(json!("worked"))
            }
        })
    };
    let agent = of_model(&model).tools(tool).build().unwrap();
    let mut driver = RunDriver::on(store, on, agent, Vec::new()).await;
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    assert_eq!(log.take(), ["begins", "ends"]);
    assert_eq!(driver.text().await, "thinking. done");
    let progress: Vec<_> = driver
        .streamed()
        .await
        .into_iter()
        .filter_map(|said| match said {
            ChunkPayload::Custom { data, .. } => Some(data),
            _ => None,
        })
        .collect();
    assert_eq!(
        progress,
        [json!(1), json!(2)],
        "each is told once, in order"
    );
    assert_eq!(model.seen().len(), 2, "no reply is bought twice");
}

/// A store stays unavailable: an effect waits for a limited time and then returns an error, so that
/// a host can do something else.
pub async fn an_effect_does_not_wait_for_a_store_for_ever(on: &Subject) {
    let model = Arc::new(MockModel::replies([MockReply::text("hello")]));
    let agent = of_model(&model).build().unwrap();
    let tries = Arc::new(AtomicUsize::new(0));
    let store = FaultyStore::new(on, {
        let tries = Arc::clone(&tries);
        move |_| {
            let tried = tries.fetch_add(1, Ordering::SeqCst);
            assert!(tried < 1_000, "it is tried for ever");
            CommitFate::Failed
        }
    });
    let mut driver = RunDriver::on(store.clone(), on, agent, Vec::new()).await;
    let effects = driver.begin();
    let given_up = perform(&effects[0], Attempt::First, &driver.ports).await;
    assert!(
        matches!(given_up, Err(PerformError::Store(_))),
        "{given_up:?}"
    );
    assert!(tries.load(Ordering::SeqCst) > 10, "it is tried for a while");
    // The same of reads, which are many before a minute is over.
    store.fail_reads(1_000);
    let given_up = perform(&effects[0], Attempt::First, &driver.ports).await;
    assert!(
        matches!(given_up, Err(PerformError::Store(_))),
        "{given_up:?}"
    );
}

/// When deltas reach the stream without an acknowledgement and the model then fails, readers do not
/// keep the discarded deltas.
pub async fn unacknowledged_deltas_are_discarded_too(on: &Subject) {
    let gate = Gate::default();
    let text = |text: &str| ModelStep::Emit(ModelEvent::Text(text.to_owned()));
    let (stop_reason, usage) = (StopReason::EndTurn, TokenUsage::new(1, 1));
    let model = Arc::new(StepwiseModel::new([
        vec![
            text("never mind"),
            ModelStep::Wait(gate.clone()),
            ModelStep::Fail(ModelError::new(ModelErrorKind::Transport, "gone")),
        ],
        vec![
            text("kept"),
            ModelStep::Emit(ModelEvent::Finished { stop_reason, usage }),
        ],
    ]));
    let agent = Agent::builder("agent").model(Arc::clone(&model));
    let agent = agent.build().unwrap();
    let store = FaultyStore::new(on, |_| CommitFate::Made);
    let mut driver = RunDriver::on(store.clone(), on, agent, Vec::new()).await;
    let effects = driver.begin();
    store.lose_deltas(1);
    let ports = driver.ports.clone();
    let mut asking = Box::pin(perform(&effects[0], Attempt::First, &ports));
    // A failed batch is looked for after half a second: the model fails before that.
    let mut context = Context::from_waker(Waker::noop());
    while driver.text().await.is_empty() {
        assert!(asking.as_mut().poll(&mut context).is_pending());
    }
    gate.open();
    let event = asking.await.unwrap();
    let effects = driver.feed(event);
    driver.through(effects).await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    assert_eq!(driver.text().await, "kept");
}

/// A call is taken over twice, and the stream fails for the last attempt: its chunks are not
/// mistaken for those of the attempt before.
pub async fn attempts_at_a_call_are_distinguished(on: &Subject) {
    let gate = Gate::default();
    let model = Arc::new(MockModel::replies([
        calling([("c1", "put")]),
        MockReply::text("done"),
    ]));
    let store = FaultyStore::new(on, |_| CommitFate::Made);
    let puts = {
        let gate = gate.clone();
        tool("put", move |_, cx| {
            let gate = gate.clone();
            async move {
                cx.emit("put", json!("begins")).unwrap();
                gate.pass().await;
                Ok(json!("done"))
            }
        })
    };
    let agent = of_model(&model).tools(puts.idempotent()).build().unwrap();
    let mut driver = RunDriver::on(store.clone(), on, agent.clone(), Vec::new()).await;
    let effects = driver.begin();
    driver.next(&effects).await;
    driver.taken_over(&agent).await;
    let effects = driver.begin();
    let ports = driver.ports.clone();
    let mut dies = Box::pin(perform(&effects[0], Attempt::First, &ports));
    under_way(&mut dies);
    drop(dies);
    assert_eq!(events(&driver).await, 1, "readers have seen it");
    driver.taken_over(&agent).await;
    store.fail_deltas(1);
    let effects = driver.begin();
    let mut puts_again = Box::pin(perform(&effects[0], Attempt::First, &ports));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..64 {
        assert!(puts_again.as_mut().poll(&mut context).is_pending());
    }
    gate.open();
    let event = puts_again.await.unwrap();
    let effects = driver.feed(event);
    driver.through(effects).await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    assert_eq!(events(&driver).await, 2, "each attempt is heard");
}

async fn events(driver: &RunDriver) -> usize {
    let said = driver.streamed().await.into_iter();
    said.filter(|one| matches!(one, ChunkPayload::Custom { .. }))
        .count()
}
