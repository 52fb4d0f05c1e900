//! Runs whose process has died.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::poll_immediate;
use helix_agents_core::agent::{Agent, AgentBuilder};
use helix_agents_core::error::ErrorCode;
use helix_agents_core::hooks::{AgentFail, AgentHooks, HookCx, HookResult};
use helix_agents_core::message::ResultStatus;
use helix_agents_core::model::{ModelEvent, TokenUsage};
use helix_agents_core::perform::{Attempt, perform};
use helix_agents_core::session::RunStatus;
use helix_agents_core::step::StopReason;
use helix_agents_core::store::Change;
use helix_agents_core::stream::ChunkPayload;
use helix_agents_core::tool::{ToolCx, ToolError};
use serde_json::json;

use super::super::Subject;
use super::super::builders::changed;
use super::super::runtime::agents::{Gate, Log, calling, gated, of_model, tool};
use super::super::runtime::stepwise_model::{ModelStep, StepwiseModel};
use super::faulty_store::{CommitFate, FaultyStore};
use super::run_driver::{GatedModel, RunDriver, pause, session_id, under_way};
use crate::{MockModel, MockReply};

/// One call ends the run, another one was begun, and the process dies: the begun call is not
/// reported as not executed.
pub async fn a_started_call_beside_a_fatal_one_is_unknown(on: &Subject) {
    let gate = Gate::default();
    let model = Arc::new(MockModel::replies([calling([
        ("a", "fatal"),
        ("b", "charge"),
    ])]));
    let agent = of_model(&model)
        .tools(tool("fatal", async |_, _| Err(ToolError::fatal("no"))))
        .tools(gated("charge", &gate))
        .build()
        .unwrap();
    let mut driver = RunDriver::new(on, agent.clone()).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let ports = driver.ports.clone();
    let mut dies = Box::pin(perform(&effects[1], Attempt::First, &ports));
    under_way(&mut dies);
    perform(&effects[0], Attempt::First, &ports).await.unwrap();
    drop(dies);
    driver.taken_over(&agent).await;
    driver.drive().await;
    let run = driver.run().await;
    assert_eq!(
        run.error.map(|error| error.code),
        Some(ErrorCode::ToolFatal)
    );
    let statuses: Vec<_> = driver
        .results()
        .await
        .iter()
        .map(|one| one.status)
        .collect();
    assert_eq!(statuses, [ResultStatus::Error, ResultStatus::Unknown]);
}

/// A call was begun, the process died, and the agent has changed since: its tool was removed, or
/// now needs an approval. The call is not reported as not executed.
pub async fn a_started_call_of_a_changed_agent_is_unknown(on: &Subject) {
    for is_gone in [false, true] {
        let gate = Gate::default();
        let model = Arc::new(MockModel::replies([
            calling([("b", "charge")]),
            MockReply::text("done"),
        ]));
        let build = |changed: bool| -> Agent {
            let agent = of_model(&model);
            let charge = gated("charge", &gate);
            match (changed, is_gone) {
                (false, _) => agent.tools(charge).build().unwrap(),
                (true, true) => agent.build().unwrap(),
                (true, false) => agent.tools(charge.approval()).build().unwrap(),
            }
        };
        let on = &on.clone();
        let sessions = on.sessions();
        let mut driver = RunDriver::new(on, build(false)).await;
        let effects = driver.begin();
        let effects = driver.next(&effects).await;
        let ports = driver.ports.clone();
        let mut dies = Box::pin(perform(&effects[0], Attempt::First, &ports));
        under_way(&mut dies);
        drop(dies);
        driver.taken_over(&build(true)).await;
        driver.drive().await;
        assert_eq!(driver.run().await.status, RunStatus::Completed);
        assert_eq!(driver.results().await[0].status, ResultStatus::Unknown);
        sessions.delete_session(&session_id()).await.unwrap();
    }
}

/// A run that kills its process is not taken over without end: the fifth take-over without a commit
/// of the run in between ends it, with its step paired.
pub async fn a_run_without_progress_fails_after_five_take_overs(on: &Subject) {
    let gate = Gate::default();
    let model = Arc::new(MockModel::replies([calling([("c1", "charge")])]));
    let tools = [gated("charge", &gate)];
    let agent = tools
        .into_iter()
        .fold(of_model(&model), AgentBuilder::tools);
    let agent = agent.build().unwrap();
    let mut driver = RunDriver::new(on, agent.clone()).await;
    for _ in 0..3 {
        driver.taken_over(&agent).await;
    }
    let effects = driver.begin();
    driver.next(&effects).await;
    assert_eq!(driver.found().await.takeovers, 0, "it has come further");
    for number in 1..5 {
        driver.taken_over(&agent).await;
        assert_eq!(driver.found().await.takeovers, number);
        assert_eq!(driver.state.broken, None);
    }
    driver.taken_over(&agent).await;
    driver.drive().await;
    let run = driver.run().await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(
        run.error.map(|error| error.code),
        Some(ErrorCode::CrashLoop)
    );
    assert_eq!(driver.results().await[0].status, ResultStatus::Unknown);
}

/// Recording that an effect begins is not progress: a run that kills its process is ended also when
/// every attempt makes such a record.
pub async fn a_run_that_only_begins_again_is_given_up(on: &Subject) {
    let gate = Gate::default();
    let replies = [MockReply::text("one"), MockReply::text("two")];
    let waits = Arc::new(GatedModel::new(&gate, usize::MAX, replies));
    let asks = Agent::builder("agent").model(waits).build().unwrap();
    let model = Arc::new(MockModel::replies([calling([("c1", "put")])]));
    let puts = gated("put", &gate).idempotent();
    let calls = of_model(&model).tools(puts).build().unwrap();
    for (agent, is_call) in [(asks, false), (calls, true)] {
        let mut driver = RunDriver::new(on, agent.clone()).await;
        if is_call {
            let effects = driver.begin();
            driver.next(&effects).await;
        }
        let mut takeovers = 0;
        loop {
            driver.taken_over(&agent).await;
            takeovers += 1;
            if driver.state.broken.is_some() {
                break;
            }
            assert!(takeovers < 12, "it is taken over for ever, call: {is_call}");
            let effects = driver.begin();
            let ports = driver.ports.clone();
            let mut dies = Box::pin(perform(&effects[0], Attempt::Untold, &ports));
            under_way(&mut dies);
        }
        assert_eq!(takeovers, 5);
        driver.drive().await;
        assert_eq!(driver.run().await.status, RunStatus::Failed);
        on.sessions().delete_session(&session_id()).await.unwrap();
    }
}

/// A hook that kills the process that ends the run.
struct Deadly(Gate, Log);

#[async_trait]
impl AgentHooks for Deadly {
    async fn on_agent_fail(&self, _: &AgentFail<'_>, _: &HookCx) -> HookResult {
        self.1.note("failed");
        self.0.pass().await;
        Ok(())
    }
}

/// The hook that is told of the end of a run may itself kill the process: it is called once more,
/// and then the run ends without it.
pub async fn a_run_fails_even_if_its_last_hook_kills_the_process(on: &Subject) {
    let (gate, log) = (Gate::default(), Log::default());
    let model = Arc::new(MockModel::replies([calling([("c1", "charge")])]));
    let agent = of_model(&model).tools(gated("charge", &gate));
    let agent = agent.build().unwrap();
    let store = FaultyStore::new(on, |_| CommitFate::Made);
    let deadly: Arc<dyn AgentHooks> = Arc::new(Deadly(gate.clone(), log.clone()));
    let mut driver = RunDriver::on(store, on, agent.clone(), vec![deadly]).await;
    let effects = driver.begin();
    driver.next(&effects).await;
    for _ in 0..5 {
        driver.taken_over(&agent).await;
    }
    let effects = driver.begin();
    let ports = driver.ports.clone();
    let mut dies = Box::pin(perform(&effects[0], Attempt::First, &ports));
    under_way(&mut dies);
    drop(dies);
    driver.taken_over(&agent).await;
    let effects = driver.begin();
    let mut ends = Box::pin(perform(&effects[0], Attempt::First, &ports));
    let mut event = None;
    for _ in 0..64 {
        event = event.or(poll_immediate(&mut ends).await);
        if event.is_some() {
            break;
        }
    }
    let event = event.expect("it ends without the hook").unwrap();
    drop(ends);
    driver.feed(event);
    let run = driver.run().await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(run.error.unwrap().code, ErrorCode::CrashLoop);
    assert_eq!(driver.results().await[0].status, ResultStatus::Unknown);
    assert_eq!(log.take(), ["failed"]);
}

/// When something that an effect needs is missing, the run ends as failed with its step paired, and
/// a call that may have begun is unknown.
pub async fn a_run_that_cannot_continue_fails(on: &Subject) {
    let model = Arc::new(MockModel::replies([calling([
        ("c1", "note"),
        ("c2", "note"),
    ])]));
    let writes = tool("note", async |_, cx| {
        cx.edit_state(|state| state.push("/notes", "x"))?;
        Ok(json!("noted"))
    });
    let agent = of_model(&model)
        .initial_state(json!({ "notes": [] }))
        .tools(writes)
        .build()
        .unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let event = perform(&effects[0], Attempt::First, &driver.ports)
        .await
        .unwrap();
    let mut rest = driver.feed(event);
    // Somebody puts something else in the place that the call has written to.
    let other = Arc::new(json!({ "notes": "none" }));
    changed(on, &session_id(), Change::SetState(other)).await;
    let event = perform(&effects[1], Attempt::First, &driver.ports)
        .await
        .unwrap();
    rest.extend(driver.feed(event));
    driver.through(rest).await;
    let found = driver.found().await;
    assert_eq!(found.run.unwrap().status, RunStatus::Failed);
    assert_eq!(found.open_step, None);
    let results = driver.results().await;
    assert_eq!(results.len(), 2, "the step is paired");
    assert!(
        results
            .iter()
            .all(|one| one.status != ResultStatus::NotExecuted)
    );
}

/// A process dies during a reply, after it has streamed more than one read returns: the deltas of
/// that reply are removed, and nothing that was finished before.
pub async fn an_unfinished_reply_is_found_behind_a_long_stream(on: &Subject) {
    const EVENTS: usize = 700;
    let gate = Gate::default();
    let model = Arc::new(StepwiseModel::new([
        vec![
            emit(ModelEvent::Text("first ".to_owned())),
            emit(ModelEvent::CallStart {
                id: Some("c1".to_owned()),
                name: "talk".to_owned(),
            }),
            emit(ModelEvent::CallEnd {
                call: 0,
                provider_metadata: None,
            }),
            finished(StopReason::ToolUse),
        ],
        vec![
            emit(ModelEvent::Text("half ".to_owned())),
            ModelStep::Wait(gate.clone()),
        ],
        vec![
            emit(ModelEvent::Text("whole".to_owned())),
            finished(StopReason::EndTurn),
        ],
    ]));
    let talks = tool("talk", async |_, cx: ToolCx| {
        for number in 0..EVENTS {
            cx.emit("talk", json!(number))?;
        }
        // Readers hear it before the call ends.
        pause().await;
        Ok(json!("said"))
    });
    let agent = Agent::builder("agent").model(Arc::clone(&model));
    let agent = agent.tools(talks).build().unwrap();
    let mut driver = RunDriver::new(on, agent.clone()).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let effects = driver.next(&effects).await;
    let ports = driver.ports.clone();
    let mut dies = Box::pin(perform(&effects[0], Attempt::First, &ports));
    under_way(&mut dies);
    assert_eq!(driver.text().await, "first half ", "readers have seen it");
    drop(dies);
    driver.taken_over(&agent).await;
    driver.drive().await;
    assert_eq!(driver.text().await, "first whole");
    let said = driver.streamed().await.into_iter();
    let events = said.filter(|one| matches!(one, ChunkPayload::Custom { .. }));
    assert_eq!(events.count(), EVENTS);
}

fn emit(event: ModelEvent) -> ModelStep {
    ModelStep::Emit(event)
}

fn finished(stop_reason: StopReason) -> ModelStep {
    let usage = TokenUsage::new(1, 1);
    ModelStep::Emit(ModelEvent::Finished { stop_reason, usage })
}
