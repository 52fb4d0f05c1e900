//! The starts of sub-agents beside others who write.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use helix_agents_core::agent::Agent;
use helix_agents_core::machine::Effect;
use helix_agents_core::message::ResultStatus;
use helix_agents_core::perform::{Attempt, Ports, perform};
use helix_agents_core::session::{RunStatus, StopKind};
use helix_agents_core::store::{Change, Commit, SessionKey, SessionQuery, Sessions};
use helix_agents_core::tool::{PersistentAgent, Tool};
use serde_json::{Value, json};

use super::super::Subject;
use super::super::builders::changed;
use super::super::runtime::agents::{Gate, agent, gated};
use super::faulty_store::{CommitFate, FaultyStore};
use super::run_driver::{RunDriver, session_id};
use crate::{MockModel, MockReply};

/// The ways in which an agent starts another one.
const WAYS: [&str; 3] = ["sub-agent", "blocking", "non-blocking"];

/// An agent that starts another one with its first call.
fn starting(way: &str) -> Agent {
    let model = MockModel::replies([MockReply::text("Helped.")]);
    let helper = Agent::builder("helper").model(Arc::new(model)).build();
    let helper = helper.unwrap();
    let call = |tool: &str, arguments: Value| MockReply::calls([("c1", tool, arguments)]);
    let spawn = || {
        let arguments = json!({ "agent": "helper", "name": "anna", "initialMessage": "Help." });
        call("companion__spawnAgent", arguments)
    };
    let done = || MockReply::text("done");
    match way {
        "sub-agent" => {
            let task = call("subagent__helper", json!({ "message": "Help." }));
            agent([task, done()]).tools(Tool::sub_agent(&helper))
        }
        "blocking" => {
            agent([spawn(), done()]).persistent_agents([PersistentAgent::blocking(&helper)])
        }
        _ => agent([spawn(), done()]).persistent_agents([PersistentAgent::non_blocking(&helper)]),
    }
    .build()
    .unwrap()
}

fn creates(commit: &Commit) -> bool {
    let mut changes = commit.changes.iter();
    changes.any(|(_, change)| matches!(change, Change::Create(_)))
}

/// The number of sessions in the store, and that of the references of the root.
async fn started(on: &Subject) -> (usize, usize) {
    let all = on.store.list(&SessionQuery::default()).await.unwrap();
    let root = session_id();
    let family = on.store.extras(root.as_root()).await.unwrap();
    (all.items.len(), family.children.len())
}

async fn forget(on: &Subject) {
    let sessions = on.sessions();
    sessions.delete_session(&session_id()).await.unwrap();
}

/// A run whose first call is to start a child, with its effect.
async fn about_to_start(on: &Subject, store: FaultyStore, way: &str) -> (RunDriver, Effect) {
    let mut driver = RunDriver::on(store, on, starting(way), Vec::new()).await;
    let effects = driver.begin();
    let mut effects = driver.next(&effects).await;
    (driver, effects.remove(0))
}

/// Two attempts at the call of a sub-agent, of which each believes to be the only one, start one child.
///
/// proves in part: SUB-01, PER-02
pub async fn two_attempts_at_a_child_start_one(on: &Subject) {
    for way in WAYS {
        let other: Arc<Mutex<Option<(Effect, Ports)>>> = Arc::default();
        let theirs = Arc::clone(&other);
        let store = FaultyStore::new(on, move |commit| {
            let other = theirs.lock().unwrap().take();
            match other.filter(|_| creates(commit)) {
                None => CommitFate::Made,
                // Another attempt that has read the same is faster.
                Some((effect, ports)) => CommitFate::After(Box::pin(async move {
                    perform(&effect, Attempt::Repeat, &ports).await.unwrap();
                })),
            }
        });
        let (driver, effect) = about_to_start(on, store, way).await;
        *other.lock().unwrap() = Some((effect.clone(), driver.ports.clone()));
        // It may be told that it was overtaken.
        let _ = perform(&effect, Attempt::First, &driver.ports).await;
        assert_eq!(started(on).await, (2, 1), "{way}");
        forget(on).await;
    }
}

/// A child whose start is not acknowledged is started once, and its call waits for it.
///
/// proves in part: SUB-01, PER-02
pub async fn a_child_whose_acknowledgement_is_lost_is_started_once(on: &Subject) {
    for way in WAYS {
        let lost = AtomicBool::new(false);
        let store = FaultyStore::new(on, move |commit| {
            match creates(commit) && !lost.swap(true, Ordering::SeqCst) {
                true => CommitFate::Unacknowledged,
                false => CommitFate::Made,
            }
        });
        let (mut driver, effect) = about_to_start(on, store, way).await;
        let event = perform(&effect, Attempt::First, &driver.ports).await;
        driver.feed(event.unwrap());
        assert_eq!(started(on).await, (2, 1), "{way}");
        forget(on).await;
    }
}

/// A run that is asked to stop between the look and the commit starts no child.
///
/// proves in part: SUB-05
pub async fn a_stop_beside_the_start_of_a_child_starts_none(on: &Subject) {
    for way in WAYS {
        let stopped = AtomicBool::new(false);
        let store = FaultyStore::new(on, {
            let on = on.clone();
            move |commit| {
                if !creates(commit) || stopped.swap(true, Ordering::SeqCst) {
                    return CommitFate::Made;
                }
                let on = on.clone();
                CommitFate::After(Box::pin(async move {
                    let root = session_id();
                    let stop = on.sessions();
                    let stop = stop.request_stop(&root, StopKind::Interrupt, None);
                    assert!(stop.await.unwrap().is_some());
                }))
            }
        });
        let (mut driver, effect) = about_to_start(on, store, way).await;
        let event = perform(&effect, Attempt::First, &driver.ports).await;
        let effects = driver.feed(event.unwrap());
        driver.through(effects).await;
        assert_eq!(started(on).await, (1, 0), "{way}");
        let results = driver.results().await;
        assert_eq!(results[0].status, ResultStatus::NotExecuted, "{way}");
        forget(on).await;
    }
}

/// A child that begins between the look of a stop and its commit is asked to stop, too.
///
/// proves in part: SUB-05
pub async fn a_child_that_begins_beside_a_stop_hears_of_it(on: &Subject) {
    for way in WAYS {
        let (driver, effect) =
            about_to_start(on, FaultyStore::new(on, |_| CommitFate::Made), way).await;
        let beginning = Mutex::new(Some((effect, driver.ports.clone())));
        let store = FaultyStore::new(on, move |_| match beginning.lock().unwrap().take() {
            None => CommitFate::Made,
            Some((effect, ports)) => CommitFate::After(Box::pin(async move {
                perform(&effect, Attempt::First, &ports).await.unwrap();
            })),
        });
        let (root, clock) = (session_id(), on.clock.as_ref());
        let sessions = Sessions::new(&store, clock);
        let asked = sessions.request_stop(&root, StopKind::Interrupt, None);
        let asked = asked.await;
        assert_eq!(asked.unwrap(), Some(driver.state.run_id.clone()));
        assert_eq!(started(on).await, (2, 1), "{way}");
        let child = &on.store.extras(root.as_root()).await.unwrap().children[0];
        let key = SessionKey::new(&root, &child.session_id);
        let child = on.store.load(key).await.unwrap().unwrap();
        assert!(child.inbox.is_empty(), "{way}: a message starts its run");
        let run = child.run.as_ref().map(|run| &run.id);
        assert_eq!(child.stop.as_ref().map(|stop| &stop.run_id), run, "{way}");
        forget(on).await;
    }
}

/// A run that only waits is not given up while its child works, however often it is taken over; a run with a call of
/// its own beside it is, and so is one whose child has ended.
///
/// proves in part: SUB-01
pub async fn a_run_that_waits_for_a_working_child_is_not_given_up(on: &Subject) {
    let (mut driver, effect) =
        about_to_start(on, FaultyStore::new(on, |_| CommitFate::Made), "sub-agent").await;
    let event = perform(&effect, Attempt::First, &driver.ports).await;
    driver.feed(event.unwrap());
    for _ in 0..7 {
        driver.taken_over(&starting("sub-agent")).await;
        assert_eq!(driver.state.broken, None, "its child works");
    }
    let root = session_id();
    let child = &on.store.extras(root.as_root()).await.unwrap().children[0];
    let key = SessionKey::new(&root, &child.session_id);
    let mut run = on.store.load(key).await.unwrap().unwrap().run.unwrap();
    run.status = RunStatus::Completed;
    changed(on, &child.session_id, Change::Run(Box::new(run))).await;
    for number in 1..=5 {
        driver.taken_over(&starting("sub-agent")).await;
        assert_eq!(driver.found().await.takeovers, number);
        assert_eq!(driver.state.broken.is_some(), number == 5);
    }
    forget(on).await;

    let gate = Gate::default();
    let helper = Agent::builder("helper").model(Arc::new(MockModel::replies([])));
    let helper = helper.build().unwrap();
    let calls = [
        ("c1", "subagent__helper", json!({ "message": "Help." })),
        ("c2", "charge", json!({})),
    ];
    let agent = agent([MockReply::calls(calls)])
        .tools(Tool::sub_agent(&helper))
        .tools(gated("charge", &gate))
        .build()
        .unwrap();
    let mut driver = RunDriver::new(on, agent.clone()).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let event = perform(&effects[0], Attempt::First, &driver.ports).await;
    driver.feed(event.unwrap());
    for number in 1..=5 {
        driver.taken_over(&agent).await;
        assert_eq!(driver.state.broken.is_some(), number == 5);
    }
}
