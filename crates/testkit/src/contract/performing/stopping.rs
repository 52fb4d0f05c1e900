//! Stops that arrive at unusual moments, and answers that arrive with them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use helix_agents_core::agent::Agent;
use helix_agents_core::entries::{Continuation, Entries, EntryError, ExecuteRequest};
use helix_agents_core::error::ErrorCode;
use helix_agents_core::machine::EffectKind;
use helix_agents_core::message::ResultStatus;
use helix_agents_core::model::ModelErrorKind;
use helix_agents_core::perform::{Attempt, perform};
use helix_agents_core::session::{RunStatus, SessionState, StopKind, SubmissionOutcome};
use helix_agents_core::store::{Change, Commit, NewSession, Sessions};
use serde_json::json;

use super::super::Subject;
use super::super::builders::{accepted, call, commit, created, running, sets};
use super::super::runtime::agents::{Gate, Log, browser, calling, noted, of_model};
use super::faulty_store::{CommitFate, FaultyStore, Meanwhile};
use super::run_driver::{GatedModel, RunDriver, answer, performer, session_id, stop, under_way};
use crate::{MockModel, MockReply, SequentialIds};

fn makes(commit: &Commit, is_it: impl Fn(&Change) -> bool) -> bool {
    commit.changes.iter().any(|(_, change)| is_it(change))
}

/// A stop arrives during a model call: the reply is kept, and none of its calls is started.
pub async fn a_stop_beside_a_model_call_begins_no_call(on: &Subject) {
    let (gate, log) = (Gate::default(), Log::default());
    let reply = calling([("c1", "charge"), ("c2", "charge")]);
    let agent = Agent::builder("agent")
        .model(Arc::new(GatedModel::new(&gate, 1, [reply])))
        .tools(noted("charge", &log))
        .build()
        .unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    let effects = driver.begin();
    let ports = driver.ports.clone();
    let mut asking = Box::pin(perform(&effects[0], Attempt::First, &ports));
    under_way(&mut asking);
    stop(on, StopKind::Interrupt).await;
    gate.open();
    let event = asking.await.unwrap();
    assert!(event.stop, "who performs it is told");
    let effects = driver.feed(event);
    driver.through(effects).await;
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(driver.run().await.status, RunStatus::Interrupted);
    let results = driver.results().await;
    assert!(
        results
            .iter()
            .all(|one| one.status == ResultStatus::NotExecuted)
    );
    assert_eq!(results.len(), 2, "the reply is kept, with its calls");
}

/// A stop arrives while a model call fails: the run ends at once, without a retry delay.
pub async fn a_stop_beside_a_failing_model_call_ends_the_run(on: &Subject) {
    let gate = Gate::default();
    let fails = MockReply::error(ModelErrorKind::Overloaded);
    let agent = Agent::builder("agent")
        .model(Arc::new(GatedModel::new(&gate, 1, [fails])))
        .build()
        .unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    let effects = driver.begin();
    let ports = driver.ports.clone();
    let mut asking = Box::pin(perform(&effects[0], Attempt::First, &ports));
    under_way(&mut asking);
    stop(on, StopKind::Interrupt).await;
    gate.open();
    let event = asking.await.unwrap();
    assert!(event.stop, "who performs it is told");
    let effects = driver.feed(event);
    assert!(
        matches!(effects[0].kind, EffectKind::End { .. }),
        "{effects:?}"
    );
    driver.through(effects).await;
    assert_eq!(driver.run().await.status, RunStatus::Interrupted);
}

/// A store in which another process acts once, before the first commit that makes such a change.
pub(super) fn before(
    on: &Subject,
    is_it: fn(&Change) -> bool,
    act: impl Fn() -> Meanwhile + Send + 'static,
) -> (FaultyStore, Arc<AtomicBool>) {
    let acted = Arc::new(AtomicBool::new(false));
    let once = Arc::clone(&acted);
    let store = FaultyStore::new(on, move |commit| {
        if !makes(commit, is_it) || once.swap(true, Ordering::SeqCst) {
            return CommitFate::Made;
        }
        CommitFate::After(act())
    });
    (store, acted)
}

fn pauses(change: &Change) -> bool {
    matches!(change, Change::Run(run) if run.status.is_suspended())
}

fn takes_an_answer(change: &Change) -> bool {
    matches!(change, Change::RemovePending(_))
}

/// A run uses an answer instead of pausing, and is asked to stop at the same time: the approved
/// call is not started.
pub async fn a_stop_beside_an_answer_that_is_taken_begins_nothing(on: &Subject) {
    let log = Log::default();
    let model = Arc::new(MockModel::replies([calling([("p1", "pay")])]));
    let pay = noted("pay", &log).approval();
    let agent = of_model(&model).tools(pay).build().unwrap();
    let (store, acted) = before(on, takes_an_answer, {
        let on = on.clone();
        move || {
            let on = on.clone();
            Box::pin(async move { stop(&on, StopKind::Interrupt).await })
        }
    });
    let mut driver = RunDriver::on(store, on, agent, Vec::new()).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let pending = driver.found().await.state.pending_client_tool_calls;
    let agreed = driver.entries.submit(&pending[&call("p1")].approve()).await;
    assert_eq!(agreed.unwrap().outcome, SubmissionOutcome::Accepted);
    driver.through(effects).await;
    assert!(acted.load(Ordering::SeqCst), "the stop came beside it");
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(driver.run().await.status, RunStatus::Interrupted);
    assert_eq!(driver.results().await[0].status, ResultStatus::NotExecuted);
}

/// A stop is accepted between the last read of a run and its pause: the run does not pause.
pub async fn a_stop_beside_a_pause_stops(on: &Subject) {
    let model = Arc::new(MockModel::replies([calling([("q1", "ask")])]));
    let agent = of_model(&model).tools(browser("ask")).build().unwrap();
    let (store, acted) = before(on, pauses, {
        let on = on.clone();
        move || {
            let on = on.clone();
            Box::pin(async move { stop(&on, StopKind::Abort).await })
        }
    });
    let mut driver = RunDriver::on(store, on, agent, Vec::new()).await;
    driver.drive().await;
    assert!(acted.load(Ordering::SeqCst), "the stop came beside it");
    let run = driver.run().await;
    assert_eq!(
        run.error.map(|error| error.code),
        Some(ErrorCode::FrameworkCancelled)
    );
    assert_eq!(driver.results().await[0].status, ResultStatus::NotExecuted);
}

/// An answer is accepted between the last read of a run and its pause: the same run continues with
/// it, and nobody has to resume it.
pub async fn an_answer_beside_a_pause_is_taken(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        calling([("q1", "ask")]),
        MockReply::text("done"),
    ]));
    let agent = of_model(&model).tools(browser("ask")).build().unwrap();
    let entries = Arc::new(OnceLock::<Entries>::new());
    let (store, acted) = before(on, pauses, {
        let entries = Arc::clone(&entries);
        move || {
            let entries = Arc::clone(&entries);
            Box::pin(async move {
                let taken = entries.get().unwrap().submit(&answer("q1", "blue")).await;
                let taken = taken.unwrap();
                assert_eq!(taken.outcome, SubmissionOutcome::Accepted);
                assert_eq!(taken.continuation, Continuation::None);
            })
        }
    });
    let mut driver = RunDriver::on(store, on, agent, Vec::new()).await;
    entries.set(driver.entries.clone()).unwrap();
    driver.drive().await;
    assert!(acted.load(Ordering::SeqCst), "the answer came beside it");
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    assert_eq!(driver.results().await[0].content, "blue");
}

/// A run pauses between the read of a submitter and its answer: the continuation follows from the
/// state at the commit, so that nobody waits for a run that has ended.
pub async fn a_pause_beside_an_answer_is_noticed(on: &Subject) {
    let model = Arc::new(MockModel::replies([calling([("q1", "ask")])]));
    let agent = of_model(&model).tools(browser("ask")).build().unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let ports = driver.ports.clone();
    let (store, acted) = before(on, |change| matches!(change, Change::Answer(..)), {
        move || {
            let (effect, ports) = (effects[0].clone(), ports.clone());
            Box::pin(async move {
                perform(&effect, Attempt::First, &ports).await.unwrap();
            })
        }
    });
    let (ports, shared) = (&driver.ports, Arc::new(store));
    let entries = Entries::new(
        shared.clone(),
        shared,
        Arc::clone(&ports.clock),
        Arc::clone(&ports.ids),
    );
    let taken = entries.submit(&answer("q1", "blue")).await.unwrap();
    assert!(acted.load(Ordering::SeqCst), "the pause came beside it");
    assert!(driver.run().await.status.is_suspended());
    assert_eq!(taken.outcome, SubmissionOutcome::Accepted);
    assert_eq!(taken.continuation, Continuation::CallerResumes);
}

/// Another process ends a paused run between the read and the commit of a resume: it is not
/// resumed.
pub async fn a_run_that_was_ended_meanwhile_is_not_resumed(on: &Subject) {
    let model = Arc::new(MockModel::replies([calling([("q1", "ask")])]));
    let agent = of_model(&model).tools(browser("ask")).build().unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    driver.drive().await;
    let paused = driver.run().await;
    driver.entries.submit(&answer("q1", "blue")).await.unwrap();
    let (store, acted) = before(on, |change| matches!(change, Change::StartRun(_)), {
        let (on, paused) = (on.clone(), paused.clone());
        move || {
            let mut failed = paused.clone();
            failed.status = RunStatus::Failed;
            let ended = commit(&on, &session_id())
                .then(Change::RemovePending(call("q1")))
                .then(Change::OpenStep(None))
                .then(Change::Run(Box::new(failed)));
            let on = on.clone();
            Box::pin(async move {
                accepted(&on, ended).await;
            })
        }
    });
    let (ports, shared) = (&driver.ports, Arc::new(store));
    let entries = Entries::new(
        shared.clone(),
        shared,
        Arc::clone(&ports.clock),
        Arc::clone(&ports.ids),
    );
    let resumed = entries.resume(&session_id(), &performer()).await;
    assert!(acted.load(Ordering::SeqCst), "it was ended beside it");
    assert!(
        matches!(resumed, Err(EntryError::Stale { .. })),
        "{resumed:?}"
    );
    assert_eq!(driver.run().await.id, paused.id, "no other run is started");
}

/// A session is replaced by one of another agent between the read and the commit of a new turn: the
/// turn is judged by the new session.
pub async fn a_turn_does_not_begin_in_a_session_that_was_replaced(on: &Subject) {
    created(on, "s").await;
    let (store, acted) = before(on, |change| matches!(change, Change::StartRun(_)), {
        let on = on.clone();
        move || {
            let other = SessionState::new(session_id(), "other", on.now());
            let replaced = commit(&on, &session_id())
                .then(Change::Delete)
                .then(Change::Create(Box::new(other)));
            let on = on.clone();
            Box::pin(async move {
                accepted(&on, replaced).await;
            })
        }
    });
    let shared = Arc::new(store);
    let ids = Arc::new(SequentialIds::new());
    let entries = Entries::new(shared.clone(), shared, on.clock.clone(), ids);
    let model = Arc::new(MockModel::replies([]));
    let agent = of_model(&model).build().unwrap();
    let request = ExecuteRequest::new(&agent, "go").in_session(session_id());
    let started = entries.execute(request, &performer()).await;
    assert!(acted.load(Ordering::SeqCst), "it was replaced beside it");
    assert!(
        matches!(started, Err(EntryError::OtherAgent { .. })),
        "{started:?}"
    );
}

/// A turn begins with keys of the state while others write to it: both changes are kept.
pub async fn a_turn_that_sets_keys_of_the_state_keeps_the_other_keys(on: &Subject) {
    let model = Arc::new(MockModel::replies([]));
    let agent = of_model(&model).build().unwrap();
    let new = NewSession::of(agent.name());
    on.sessions()
        .create_session(&session_id(), new)
        .await
        .unwrap();
    let (store, acted) = before(on, |change| matches!(change, Change::StartRun(_)), {
        let on = on.clone();
        move || {
            let on = on.clone();
            Box::pin(async move {
                let theirs = on.sessions();
                theirs
                    .merge_custom_state(&session_id(), sets("theirs", 1))
                    .await
                    .unwrap();
            })
        }
    });
    let shared = Arc::new(store);
    let ids = Arc::new(SequentialIds::new());
    let entries = Entries::new(shared.clone(), shared, on.clock.clone(), ids);
    let request = ExecuteRequest::new(&agent, "go").in_session(session_id());
    let request = request.with_state(json!({ "ours": 2 }));
    entries.execute(request, &performer()).await.unwrap();
    assert!(acted.load(Ordering::SeqCst), "they wrote beside it");
    let found = on
        .store
        .load(session_id().as_root())
        .await
        .unwrap()
        .unwrap();
    let state = &*found.state.custom_state;
    assert_eq!(*state, json!({ "theirs": 1, "ours": 2 }));
}

/// An abort arrives while another process takes the earlier interrupt: the abort is not lost.
///
/// proves: STO-04
pub async fn an_abort_beside_a_taken_interrupt_is_not_lost(on: &Subject) {
    let id = created(on, "s").await;
    running(on, &id, "run").await;
    stop(on, StopKind::Interrupt).await;
    let (store, acted) = before(on, |change| matches!(change, Change::ClearStop), {
        let on = on.clone();
        move || {
            let on = on.clone();
            Box::pin(async move { stop(&on, StopKind::Abort).await })
        }
    });
    let sessions = Sessions::new(&store, on.clock.as_ref());
    let taken = sessions.check_interrupt_flag(&id).await.unwrap();
    assert!(acted.load(Ordering::SeqCst), "the abort came beside it");
    let left = on.store.load(id.as_root()).await.unwrap().unwrap().stop;
    let kinds = taken.into_iter().chain(left).map(|stop| stop.kind);
    assert!(
        kinds.clone().any(|kind| kind == StopKind::Abort),
        "the abort is gone: {:?}",
        kinds.collect::<Vec<_>>()
    );
}
