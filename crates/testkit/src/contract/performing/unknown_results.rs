//! Calls that were started and have no result: how their outcome is found out, and what is not
//! repeated.

use std::sync::Arc;

use helix_agents_core::agent::{Agent, AgentBuilder};
use helix_agents_core::message::ResultStatus;
use helix_agents_core::perform::{Attempt, perform};
use helix_agents_core::session::{RunStatus, StopKind, SubmissionOutcome};
use helix_agents_core::store::{Change, Field, Page};
use helix_agents_core::tool::{OnUnknown, Reconciled, ToolBuilder, ToolCx, ToolError};
use helix_agents_core::usage::UsageKind;
use serde_json::{Value, json};

use super::super::Subject;
use super::super::builders::{call, changed, child_of};
use super::super::runtime::agents::{Gate, Log, browser, calling, of_model, tool};
use super::run_driver::{RunDriver, answer, performer, session_id, stop, under_way};
use crate::{MockModel, MockReply};

/// Tools that log their runs, and end only after the first process has died.
#[derive(Default)]
struct Scene {
    gate: Gate,
    log: Log,
}

impl Scene {
    fn tool(&self, name: &'static str) -> ToolBuilder {
        let (gate, log) = (self.gate.clone(), self.log.clone());
        tool(name, move |_, cx| {
            log.note(format!("{name} {}", cx.call_id()));
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok(json!("done"))
            }
        })
    }

    /// A process starts these calls and dies.
    async fn dies_in<const N: usize>(
        &self,
        on: &Subject,
        calls: [(&str, &str); N],
        tools: impl IntoIterator<Item = ToolBuilder>,
    ) -> (RunDriver, Agent) {
        let model = Arc::new(MockModel::replies([
            calling(calls),
            MockReply::text("done"),
        ]));
        let tools = tools.into_iter();
        let agent = tools.fold(of_model(&model), AgentBuilder::tools);
        let agent = agent.build().unwrap();
        let mut driver = RunDriver::new(on, agent.clone()).await;
        let effects = driver.begin();
        let effects = driver.next(&effects).await;
        let ports = driver.ports.clone();
        for effect in &effects {
            let mut dies = Box::pin(perform(effect, Attempt::First, &ports));
            under_way(&mut dies);
        }
        self.gate.open();
        (driver, agent)
    }
}

async fn statuses(driver: &RunDriver) -> Vec<ResultStatus> {
    let results = driver.results().await.into_iter();
    results.map(|one| one.status).collect()
}

/// Each of several calls that were started in parallel is unknown, not only the first: none is run
/// again, and none is counted in the usage again.
pub async fn all_calls_that_were_begun_are_unknown(on: &Subject) {
    let scene = Scene::default();
    let calls = [("a", "charge"), ("b", "charge"), ("c", "charge")];
    let (mut driver, agent) = scene.dies_in(on, calls, [scene.tool("charge")]).await;
    driver.taken_over(&agent).await;
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    assert_eq!(statuses(&driver).await, [ResultStatus::Unknown; 3]);
    assert_eq!(scene.log.take(), ["charge a", "charge b", "charge c"]);
    let used = on
        .store
        .usage(session_id().as_root(), Page::ALL)
        .await
        .unwrap()
        .items;
    let of_tools = used
        .iter()
        .filter(|it| matches!(it.kind, UsageKind::Tool { .. }));
    assert_eq!(of_tools.count(), 0, "no tool was run to its end");
}

/// A started call that may finish the turn is unknown like any other.
pub async fn a_finishing_call_that_was_begun_is_unknown(on: &Subject) {
    let scene = Scene::default();
    let finishes = scene.tool("submit").finish_with();
    let (mut driver, agent) = scene.dies_in(on, [("f", "submit")], [finishes]).await;
    driver.taken_over(&agent).await;
    driver.drive().await;
    assert_eq!(driver.run().await.output, None);
    assert_eq!(statuses(&driver).await, [ResultStatus::Unknown]);
    assert_eq!(scene.log.take(), ["submit f"]);
}

/// The finding of a reconciler is used; if it fails, panics or cannot tell, the outcome is unknown
/// and the call is not run again.
pub async fn a_reconciler_decides_about_a_call_that_was_begun(on: &Subject) {
    let scene = Scene::default();
    let tools = [
        scene
            .tool("done")
            .reconcile(async |_: Value, _: ToolCx| Ok(Reconciled::Done(json!("it was")))),
        scene
            .tool("not_done")
            .reconcile(async |_: Value, _: ToolCx| Ok(Reconciled::NotDone)),
        scene
            .tool("cannot_tell")
            .reconcile(async |_: Value, _: ToolCx| Ok(Reconciled::Unknown)),
        scene
            .tool("fails")
            .reconcile(async |_: Value, _: ToolCx| Err(ToolError::tell_model("nobody answers"))),
        scene
            .tool("panics")
            .reconcile(async |_: Value, _: ToolCx| panic!("the reconciler is broken")),
    ];
    let calls = [
        ("c1", "done"),
        ("c2", "not_done"),
        ("c3", "cannot_tell"),
        ("c4", "fails"),
        ("c5", "panics"),
    ];
    let (mut driver, agent) = scene.dies_in(on, calls, tools).await;
    assert_eq!(scene.log.take().len(), 5, "all of them were begun");
    driver.taken_over(&agent).await;
    driver.drive().await;
    assert_eq!(scene.log.take(), ["not_done c2"]);
    let results = driver.results().await;
    assert_eq!(results[0].content, "it was");
    assert_eq!(
        statuses(&driver).await,
        [
            ResultStatus::Success,
            ResultStatus::Success,
            ResultStatus::Unknown,
            ResultStatus::Unknown,
            ResultStatus::Unknown,
        ]
    );
}

/// Calls that can be repeated without harm are run again: those of idempotent and of read-only
/// tools.
pub async fn repeatable_calls_are_run_again(on: &Subject) {
    let scene = Scene::default();
    let tools = [
        scene.tool("put").idempotent(),
        scene.tool("look").read_only(),
        scene.tool("charge"),
    ];
    let calls = [("c1", "put"), ("c2", "look"), ("c3", "charge")];
    let (mut driver, agent) = scene.dies_in(on, calls, tools).await;
    scene.log.take();
    driver.taken_over(&agent).await;
    driver.drive().await;
    let mut again = scene.log.take();
    again.sort();
    assert_eq!(again, ["look c2", "put c1"]);
    let (ran, unknown) = (ResultStatus::Success, ResultStatus::Unknown);
    assert_eq!(statuses(&driver).await, [ran, ran, unknown]);
}

/// A tool may require that a person decides: the pending call exists as soon as the call waits,
/// nothing is run again, and the answer is the call's result.
pub async fn a_person_is_asked_about_a_call_that_was_begun(on: &Subject) {
    let scene = Scene::default();
    let asks = scene.tool("charge").on_unknown(OnUnknown::Pause);
    let (mut driver, agent) = scene.dies_in(on, [("c1", "charge")], [asks]).await;
    driver.taken_over(&agent).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let pending = driver.found().await.state.pending_client_tool_calls;
    assert_eq!(
        pending.keys().collect::<Vec<_>>(),
        [&call("c1")],
        "the question comes with the wait"
    );
    driver.through(effects).await;
    assert!(driver.run().await.status.is_suspended());
    let taken = driver.entries.submit(&answer("c1", "it was charged")).await;
    assert_eq!(taken.unwrap().outcome, SubmissionOutcome::Accepted);
    driver.state = driver
        .entries
        .resume(&session_id(), &performer())
        .await
        .unwrap();
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    assert_eq!(driver.results().await[0].content, "it was charged");
    assert_eq!(scene.log.take(), ["charge c1"]);
}

/// Answers name a call by its id alone: while another session of the tree waits for a call of the same id, nobody is
/// asked about this one. The model is told that its outcome is unknown, and the other call keeps its owner.
pub async fn nobody_is_asked_about_a_call_whose_id_another_session_waits_for(on: &Subject) {
    let scene = Scene::default();
    let asks = scene.tool("charge").on_unknown(OnUnknown::Pause);
    let (mut driver, agent) = scene.dies_in(on, [("call_0", "charge")], [asks]).await;
    let other = child_of(on, &session_id(), &session_id(), "other").await;
    let owned = Field::CallOwner(call("call_0"), Some(other.clone()));
    changed(on, &session_id(), Change::Set(owned)).await;
    driver.taken_over(&agent).await;
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    assert_eq!(statuses(&driver).await, [ResultStatus::Unknown]);
    assert_eq!(scene.log.take(), ["charge call_0"]);
    let found = driver.found().await.state;
    assert!(found.pending_client_tool_calls.is_empty());
    let owner = &found.client_tool_call_ownership[&call("call_0")];
    assert_eq!(*owner, other);
}

/// The same for a question that somebody took off the list before the run could pause.
pub async fn nobody_is_asked_again_about_a_call_whose_id_another_session_waits_for(on: &Subject) {
    let root = session_id();
    for (is_approval, told) in [
        (false, ResultStatus::Unknown),
        (true, ResultStatus::NotExecuted),
    ] {
        let replies = [calling([("call_0", "ask")]), MockReply::text("done")];
        let agent = of_model(&Arc::new(MockModel::replies(replies)));
        let agent = match is_approval {
            true => agent.tools(Scene::default().tool("ask").approval()),
            false => agent.tools(browser("ask")),
        };
        let mut driver = RunDriver::new(on, agent.build().unwrap()).await;
        let effects = driver.begin();
        let effects = driver.next(&effects).await;
        let other = child_of(on, &root, &root, "other").await;
        changed(on, &root, Change::RemovePending(call("call_0"))).await;
        let owned = Field::CallOwner(call("call_0"), Some(other.clone()));
        changed(on, &root, Change::Set(owned)).await;
        driver.through(effects).await;
        assert_eq!(driver.run().await.status, RunStatus::Completed);
        assert_eq!(statuses(&driver).await, [told]);
        let found = driver.found().await.state;
        assert_eq!(found.client_tool_call_ownership[&call("call_0")], other);
        on.sessions().delete_session(&root).await.unwrap();
    }
}

/// The same for a call that was approved: the earlier approval does not prevent an answer to the
/// second question.
pub async fn a_person_is_asked_about_an_approved_call_that_was_begun(on: &Subject) {
    let scene = Scene::default();
    let model = Arc::new(MockModel::replies([
        calling([("c1", "charge")]),
        MockReply::text("done"),
    ]));
    let charge = scene.tool("charge").approval().on_unknown(OnUnknown::Pause);
    let agent = of_model(&model).tools(charge).build().unwrap();
    let mut driver = RunDriver::new(on, agent.clone()).await;
    driver.drive().await;
    let asked = driver.found().await.state.pending_client_tool_calls;
    let agreed = driver.entries.submit(&asked[&call("c1")].approve()).await;
    assert_eq!(agreed.unwrap().outcome, SubmissionOutcome::Accepted);
    driver.state = driver
        .entries
        .resume(&session_id(), &performer())
        .await
        .unwrap();
    let effects = driver.begin();
    let ports = driver.ports.clone();
    let mut dies = Box::pin(perform(&effects[0], Attempt::First, &ports));
    under_way(&mut dies);
    drop(dies);

    driver.taken_over(&agent).await;
    driver.drive().await;
    assert!(
        driver.run().await.status.is_suspended(),
        "a person has to look"
    );
    let asked = driver.found().await.state.pending_client_tool_calls;
    let looked = asked[&call("c1")].result("it was charged");
    let taken = driver.entries.submit(&looked).await.unwrap();
    assert_eq!(taken.outcome, SubmissionOutcome::Accepted);
    let again = driver.entries.submit(&looked).await.unwrap();
    assert_eq!(again.outcome, SubmissionOutcome::AlreadyCompleted);
    driver.state = driver
        .entries
        .resume(&session_id(), &performer())
        .await
        .unwrap();
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    assert_eq!(driver.results().await[0].content, "it was charged");
    assert_eq!(scene.log.take(), ["charge c1"]);
}

/// A run is stopped before the outcome of a started call was found out: the call is not reported as
/// not executed.
pub async fn a_stopped_run_reports_the_calls_that_were_begun(on: &Subject) {
    let scene = Scene::default();
    let (mut driver, agent) = scene
        .dies_in(on, [("c1", "charge")], [scene.tool("charge")])
        .await;
    stop(on, StopKind::Interrupt).await;
    driver.taken_over(&agent).await;
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Interrupted);
    assert_eq!(statuses(&driver).await, [ResultStatus::Unknown]);
    assert_eq!(scene.log.take(), ["charge c1"]);
}

/// A process that only seemed dead starts nothing of a run that was taken over: it calls no model,
/// and runs no tool, not even a repeatable one.
pub async fn a_superseded_process_begins_nothing(on: &Subject) {
    let scene = Scene::default();
    scene.gate.open();
    let model = Arc::new(MockModel::replies([calling([("c1", "put")])]));
    let agent = of_model(&model).tools(scene.tool("put").idempotent());
    let agent = agent.build().unwrap();
    let mut driver = RunDriver::new(on, agent.clone()).await;
    let late = driver.begin();
    driver.taken_over(&agent).await;
    let asked = perform(&late[0], Attempt::First, &driver.ports).await;
    assert!(asked.unwrap_err().is_superseded());
    assert_eq!(model.seen().len(), 0, "the model is not asked");

    let effects = driver.begin();
    let late = driver.next(&effects).await;
    driver.taken_over(&agent).await;
    let ran = perform(&late[0], Attempt::First, &driver.ports).await;
    assert!(ran.unwrap_err().is_superseded());
    assert_eq!(scene.log.take(), [""; 0], "the tool is not run");
}
