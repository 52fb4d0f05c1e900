//! Writes of others between the read and the commit of an effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use helix_agents_core::agent::{Agent, AgentBuilder};
use helix_agents_core::error::ErrorCode;
use helix_agents_core::hooks::{AgentHooks, AgentResumed, HookCx, HookResult};
use helix_agents_core::message::ResultStatus;
use helix_agents_core::perform::{Attempt, perform};
use helix_agents_core::session::{InterruptContext, RunStatus, StopKind};
use helix_agents_core::store::{Change, Field};
use helix_agents_core::tool::{Reconciled, ToolCx, ToolError};
use serde_json::{Value, json};

use super::super::Subject;
use super::super::builders::{self, call, changed};
use super::super::runtime::agents::{Gate, Log, browser, calling, gated, noted, of_model, tool};
use super::faulty_store::{CommitFate, FaultyStore};
use super::run_driver::{RunDriver, answer, performer, session_id, stop, under_way};
use crate::{MockModel, MockReply};

/// An agent that makes these calls in its first reply.
fn making<const N: usize>(calls: [(&str, &str); N], gate: &Gate) -> Agent {
    let replies = [calling(calls), MockReply::text("done")];
    let model = Arc::new(MockModel::replies(replies));
    let tools = [gated("work", gate), browser("ask")];
    let agent = tools
        .into_iter()
        .fold(of_model(&model), AgentBuilder::tools);
    agent.build().unwrap()
}

/// Another process commits a different result of the first call, as if that had ended later.
async fn say_otherwise(on: &Subject) {
    let found = on
        .store
        .load(session_id().as_root())
        .await
        .unwrap()
        .unwrap();
    let mut first = found.open_step.unwrap().calls[0].clone();
    if let Some(effect) = &mut first.effect {
        effect.attempts += 1;
    }
    if let Some(result) = &mut first.result {
        result.content = "otherwise".into();
    }
    let commit = builders::commit(on, &session_id());
    let commit = commit.then(Change::OpenCall(0, call("a"), Box::new(first)));
    on.store.commit(commit).await.unwrap();
}

/// A store in which another process commits a different result right before a step is first
/// settled.
fn otherwise(on: &Subject) -> (FaultyStore, Arc<AtomicBool>) {
    let said = Arc::new(AtomicBool::new(false));
    let once = Arc::clone(&said);
    let on = on.clone();
    let store = FaultyStore::new(&on.clone(), move |commit| {
        let settles = |change: &Change| matches!(change, Change::AppendStep(_));
        let settles = commit.changes.iter().any(|(_, change)| settles(change));
        if !settles || once.swap(true, Ordering::SeqCst) {
            return CommitFate::Made;
        }
        let on = on.clone();
        CommitFate::After(Box::pin(async move { say_otherwise(&on).await }))
    });
    (store, said)
}

async fn said_otherwise(driver: &RunDriver, said: &AtomicBool) {
    assert!(said.load(Ordering::SeqCst), "somebody was faster");
    let first = &driver.results().await[0];
    assert_eq!(first.content, "otherwise", "the step is settled as it is");
}

/// The last call of a step settles it without overwriting a result that another call got meanwhile.
pub async fn a_call_settles_its_step_with_the_latest_results(on: &Subject) {
    let gate = Gate::default();
    gate.open();
    let (store, said) = otherwise(on);
    let agent = making([("a", "work"), ("b", "work")], &gate);
    let mut driver = RunDriver::on(store, on, agent, Vec::new()).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    driver.next(&effects[..1]).await;
    let rest = driver.next(&effects[1..]).await;
    driver.through(rest).await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    said_otherwise(&driver, &said).await;
}

/// The same for a step that is settled by itself, because its last calls ended at the same time.
pub async fn a_step_is_settled_as_it_is(on: &Subject) {
    let gate = Gate::default();
    let (store, said) = otherwise(on);
    let agent = making([("a", "work"), ("b", "work")], &gate);
    let mut driver = RunDriver::on(store, on, agent, Vec::new()).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let ports = driver.ports.clone();
    let both = effects.iter();
    let mut both: Vec<_> = both
        .map(|effect| Box::pin(perform(effect, Attempt::First, &ports)))
        .collect();
    both.iter_mut().for_each(under_way);
    gate.open();
    let mut rest = Vec::new();
    for one in both {
        let event = one.await.unwrap();
        rest.extend(driver.feed(event));
    }
    driver.through(rest).await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    said_otherwise(&driver, &said).await;
}

/// The same for a step that is closed because the run is stopped.
pub async fn a_stopped_step_is_closed_as_it_is(on: &Subject) {
    let gate = Gate::default();
    gate.open();
    let (store, said) = otherwise(on);
    let agent = making([("a", "work"), ("q", "ask")], &gate);
    let mut driver = RunDriver::on(store, on, agent, Vec::new()).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let effects = driver.next(&effects).await;
    stop(on, StopKind::Interrupt).await;
    driver.through(effects).await;
    assert_eq!(driver.run().await.status, RunStatus::Interrupted);
    said_otherwise(&driver, &said).await;
    assert_eq!(driver.results().await[1].status, ResultStatus::NotExecuted);
}

/// A call failed fatally, and another call that may finish the turn later turns out to have
/// succeeded: the run has failed nevertheless.
pub async fn a_fatal_error_beats_a_result_that_would_finish(on: &Subject) {
    let calls = [("f1", "fatal"), ("f2", "submit")];
    let model = Arc::new(MockModel::replies([calling(calls)]));
    let fatal = tool("fatal", async |_, _| Err(ToolError::fatal("no"))).finish_with();
    let submit = noted("submit", &Log::default())
        .finish_with()
        .reconcile(async |_: Value, _: ToolCx| Ok(Reconciled::Done(json!("submitted"))));
    let agent = of_model(&model).tools([fatal, submit]).build().unwrap();
    let mut driver = RunDriver::new(on, agent.clone()).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    driver.next(&effects).await;
    driver.taken_over(&agent).await;
    driver.drive().await;
    let run = driver.run().await;
    assert_eq!((run.status, run.output), (RunStatus::Failed, None));
    assert_eq!(
        run.error.map(|error| error.code),
        Some(ErrorCode::ToolFatal)
    );
}

/// Writes to the state when a run is resumed.
struct Notes;

#[async_trait]
impl AgentHooks for Notes {
    async fn on_agent_resumed(&self, _: &AgentResumed<'_>, cx: &HookCx) -> HookResult {
        cx.edit_state(|state| state.push("/told", "resumed"))?;
        Ok(())
    }
}

/// A run is resumed with a call whose tool was removed: state changes that hooks made before are
/// kept.
pub async fn state_changes_of_hooks_are_kept_when_a_tool_is_missing(on: &Subject) {
    let replies = [calling([("p1", "pay")]), MockReply::text("done")];
    let model = Arc::new(MockModel::replies(replies));
    let told = json!({ "told": [] });
    let agent = of_model(&model).initial_state(&told);
    let agent = agent.tools(noted("pay", &Log::default()).approval());
    let store = FaultyStore::new(on, |_| CommitFate::Made);
    let hooks: Vec<Arc<dyn AgentHooks>> = vec![Arc::new(Notes)];
    let mut driver = RunDriver::on(store, on, agent.build().unwrap(), hooks).await;
    driver.drive().await;
    let pending = driver.found().await.state.pending_client_tool_calls;
    let agreed = pending[&call("p1")].approve();
    driver.entries.submit(&agreed).await.unwrap();
    driver.state = driver
        .entries
        .resume(&session_id(), &performer())
        .await
        .unwrap();
    let without = of_model(&model).initial_state(&told).build().unwrap();
    driver.ports.agents.replace(&without);
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    let state = driver.found().await.state.custom_state;
    assert_eq!(*state, json!({ "told": ["resumed"] }));
}

/// An answer is stored for a call that already has its result, as a program that writes rows itself
/// can cause: the result does not change.
pub async fn an_answer_to_a_call_with_a_result_is_not_used(on: &Subject) {
    let gate = Gate::default();
    gate.open();
    let mut driver = RunDriver::new(on, making([("a", "work"), ("q", "ask")], &gate)).await;
    driver.drive().await;
    let run = driver.run().await;
    assert!(run.status.is_suspended());
    let mut stray = builders::waiting(on, &session_id(), &run.id, "a");
    stray.answer = Some(builders::answer(on, "a"));
    changed(on, &session_id(), Change::Pending(Box::new(stray))).await;
    driver.entries.submit(&answer("q", "blue")).await.unwrap();
    driver.state = driver
        .entries
        .resume(&session_id(), &performer())
        .await
        .unwrap();
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    let contents = driver.results().await.into_iter();
    let contents: Vec<_> = contents.map(|one| one.content).collect();
    assert_eq!(contents, ["done", "blue"]);
}

/// Another process saved an older reading during the run: a run that fails does not report an
/// interruption.
pub async fn a_failed_run_is_not_an_interrupted_one(on: &Subject) {
    let model = Arc::new(MockModel::replies([]));
    let mut driver = RunDriver::new(on, of_model(&model).build().unwrap()).await;
    let context = InterruptContext::new(driver.state.run_id.clone(), None, on.now());
    let stale = Field::InterruptContext(Some(context));
    changed(on, &session_id(), Change::Set(stale)).await;
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Failed);
    assert_eq!(driver.found().await.state.interrupt_context, None);
}
