//! Messages, answers and stops of others while a run is performed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use helix_agents_core::error::ErrorCode;
use helix_agents_core::machine::EffectKind;
use helix_agents_core::message::{Message, ResultStatus};
use helix_agents_core::model::ModelErrorKind;
use helix_agents_core::perform::{Attempt, perform};
use helix_agents_core::session::{RunStatus, StopKind, SubmissionOutcome};
use helix_agents_core::store::Change;
use serde_json::json;

use super::super::Subject;
use super::super::builders::{call, user_message};
use super::super::runtime::agents::{Gate, Log, browser, calling, noted, of_model, tool};
use super::faulty_store::{CommitFate, FaultyStore};
use super::run_driver::{GatedModel, RunDriver, answer, performer, session_id, stop, under_way};
use crate::{MockModel, MockReply};

/// A program appends a message during a model call: the reply comes after it, and the run
/// continues.
pub async fn a_message_beside_a_model_call_comes_before_its_reply(on: &Subject) {
    let gate = Gate::default();
    let model = GatedModel::new(&gate, 1, [MockReply::text("hello")]);
    let agent = helix_agents_core::agent::Agent::builder("agent")
        .model(Arc::new(model))
        .system_prompt("You are held against a contract.")
        .build()
        .unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    let effects = driver.begin();
    let ports = driver.ports.clone().remembering();
    let mut asking = Box::pin(perform(&effects[0], Attempt::First, &ports));
    under_way(&mut asking);
    let sessions = on.sessions();
    let more = [user_message("by the way")];
    sessions
        .append_messages(&session_id(), &more, None)
        .await
        .unwrap();
    gate.open();
    let event = asking.await.unwrap();
    assert!(driver.feed(event).is_empty());
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    let roles: Vec<_> = driver.messages().await.iter().map(role).collect();
    assert_eq!(roles, ["user", "user", "assistant"]);
}

fn role(message: &Message) -> &'static str {
    match message {
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        _ => "tool",
    }
}

/// A message arrives during the first of two calls that may finish the turn, and while another call
/// settles: the second one is not run.
pub async fn a_message_beside_a_call_runs_no_further_finisher(on: &Subject) {
    let log = Log::default();
    let model = Arc::new(MockModel::replies([
        calling([("f1", "first"), ("f2", "second")]),
        MockReply::text("never"),
    ]));
    let first = {
        let (on, log) = (on.clone(), log.clone());
        tool("first", move |_, _| {
            let (on, log) = (on.clone(), log.clone());
            async move {
                log.note("first");
                let sessions = on.sessions();
                let more = [user_message("by the way")];
                sessions
                    .append_messages(&session_id(), &more, None)
                    .await
                    .unwrap();
                Ok(json!("one"))
            }
        })
    };
    let agent = of_model(&model)
        .tools(first.finish_with())
        .tools(noted("second", &log).finish_with())
        .build()
        .unwrap();
    // The commit that settles the step is refused once: the result is then kept by itself.
    let moved = AtomicBool::new(false);
    let store = FaultyStore::new(on, {
        let on = on.clone();
        move |commit| {
            let settles = |change: &Change| matches!(change, Change::AppendStep(_));
            let settles = commit.changes.iter().any(|(_, change)| settles(change));
            if !settles || moved.swap(true, Ordering::SeqCst) {
                return CommitFate::Made;
            }
            let on = on.clone();
            CommitFate::After(Box::pin(async move { touch_second(&on).await }))
        }
    });
    let mut driver = RunDriver::on(store, on, agent, Vec::new()).await;
    let effects = driver.begin();
    driver.through(effects).await;
    assert_eq!(log.take(), ["first"]);
    assert_eq!(driver.run().await.output, Some(json!("one")));
    let statuses: Vec<_> = driver
        .results()
        .await
        .iter()
        .map(|one| one.status)
        .collect();
    assert_eq!(statuses, [ResultStatus::Success, ResultStatus::NotExecuted]);
}

/// Changes the stored state of the second call, as a call in another process would.
async fn touch_second(on: &Subject) {
    let found = on
        .store
        .load(session_id().as_root())
        .await
        .unwrap()
        .unwrap();
    let mut second = found.open_step.unwrap().calls[1].clone();
    if let Some(effect) = &mut second.effect {
        effect.attempts += 1;
    }
    let commit = super::super::builders::commit(on, &session_id());
    let commit = commit.then(Change::OpenCall(1, call("f2"), Box::new(second)));
    on.store.commit(commit).await.unwrap();
}

/// An answer is accepted while the run is being stopped: the model reads it.
pub async fn an_answer_beside_a_stop_reaches_the_model(on: &Subject) {
    let model = Arc::new(MockModel::replies([calling([
        ("q1", "ask"),
        ("q2", "ask"),
    ])]));
    let agent = of_model(&model).tools(browser("ask")).build().unwrap();
    let answered = Arc::new(AtomicBool::new(false));
    let entries = Arc::new(std::sync::OnceLock::<helix_agents_core::entries::Entries>::new());
    let store = FaultyStore::new(on, {
        let (answered, entries) = (Arc::clone(&answered), Arc::clone(&entries));
        move |commit| {
            let closes = |change: &Change| matches!(change, Change::RemovePending(_));
            let closes = commit.changes.iter().any(|(_, change)| closes(change));
            if !closes || answered.swap(true, Ordering::SeqCst) {
                return CommitFate::Made;
            }
            let entries = Arc::clone(&entries);
            CommitFate::After(Box::pin(async move {
                let entries = entries.get().unwrap();
                let taken = entries.submit(&answer("q1", "the money is moved")).await;
                assert_eq!(taken.unwrap().outcome, SubmissionOutcome::Accepted);
            }))
        }
    });
    let mut driver = RunDriver::on(store, on, agent, Vec::new()).await;
    entries.set(driver.entries.clone()).unwrap();
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    stop(on, StopKind::Interrupt).await;
    driver.through(effects).await;
    assert!(
        answered.load(Ordering::SeqCst),
        "the answer came beside the stop"
    );
    assert_eq!(driver.run().await.status, RunStatus::Interrupted);
    let results = driver.results().await;
    assert_eq!(results[0].content, "the money is moved");
    assert_eq!(results[1].status, ResultStatus::NotExecuted);
}

/// A stop that is accepted before the run could pause stops it; neither the pause, nor an answer,
/// nor a resume cancels it.
pub async fn a_stop_before_a_pause_stops(on: &Subject) {
    let log = Log::default();
    let model = Arc::new(MockModel::replies([calling([("p1", "pay")])]));
    let agent = || {
        let pay = noted("pay", &log).approval();
        of_model(&model).tools(pay).build().unwrap()
    };
    let mut driver = RunDriver::new(on, agent()).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    assert!(
        matches!(effects[0].kind, EffectKind::End { .. }),
        "it is to pause"
    );
    stop(on, StopKind::Abort).await;
    driver.through(effects).await;
    let run = driver.run().await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(run.error.unwrap().code, ErrorCode::FrameworkCancelled);
    assert_eq!(driver.results().await[0].status, ResultStatus::NotExecuted);
    assert_eq!(log.take(), [""; 0]);

    // A stop that a paused run owes: the run that continues it ends as it was asked.
    let model = Arc::new(MockModel::replies([calling([("p2", "pay")])]));
    let pay = noted("pay", &log).approval();
    let again = of_model(&model).tools(pay).build().unwrap();
    let request =
        helix_agents_core::entries::ExecuteRequest::new(&again, "go").in_session(session_id());
    driver.ports.agents.replace(&again);
    driver.state = driver.entries.execute(request, &performer()).await.unwrap();
    driver.drive().await;
    let found = driver.found().await;
    let paused = found.run.unwrap();
    assert!(paused.status.is_suspended());
    let owed = Change::Stop(super::super::builders::stop(on, &paused.id));
    super::super::builders::changed(on, &session_id(), owed).await;
    let pending = &found.state.pending_client_tool_calls[&call("p2")];
    driver.entries.submit(&pending.approve()).await.unwrap();
    driver.state = driver
        .entries
        .resume(&session_id(), &performer())
        .await
        .unwrap();
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Interrupted);
    assert_eq!(log.take(), [""; 0], "the approved call is not started");
}

/// A run that waits before a retry of a model call receives a stop, and is stopped.
pub async fn a_stop_ends_a_wait(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        MockReply::error(ModelErrorKind::Overloaded),
        MockReply::text("never"),
    ]));
    let agent = of_model(&model).build().unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let EffectKind::Sleep { until } = effects[0].kind else {
        panic!("it waits: {effects:?}");
    };
    stop(on, StopKind::Interrupt).await;
    driver.through(effects).await;
    assert_eq!(driver.run().await.status, RunStatus::Interrupted);
    assert_eq!(model.seen().len(), 1, "the model is not asked again");
    assert!(
        driver.run().await.ended_at.unwrap() < until,
        "it does not wait to the end"
    );
}

/// A call waits but its pending entry is missing, as a program that writes rows itself can cause:
/// the run that continues asks again instead of polling without end.
pub async fn a_pending_call_that_was_lost_is_written_again(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        calling([("q1", "ask"), ("q2", "ask")]),
        MockReply::text("done"),
    ]));
    let agent = of_model(&model).tools(browser("ask")).build().unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    driver.drive().await;
    super::super::builders::changed(on, &session_id(), Change::RemovePending(call("q1"))).await;
    driver.entries.submit(&answer("q2", "red")).await.unwrap();
    driver.state = driver
        .entries
        .resume(&session_id(), &performer())
        .await
        .unwrap();
    driver.drive().await;
    assert!(
        driver.run().await.status.is_suspended(),
        "it waits for the answer"
    );
    let found = driver.found().await;
    let pending = found.state.pending_client_tool_calls;
    assert_eq!(pending.keys().collect::<Vec<_>>(), [&call("q1")]);
    let taken = driver.entries.submit(&answer("q1", "blue")).await.unwrap();
    assert_eq!(taken.outcome, SubmissionOutcome::Accepted);
    driver.state = driver
        .entries
        .resume(&session_id(), &performer())
        .await
        .unwrap();
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    let contents: Vec<_> = driver
        .results()
        .await
        .into_iter()
        .map(|one| one.content)
        .collect();
    assert_eq!(contents, ["blue", "red"]);
}
