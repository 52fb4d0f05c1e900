//! Conversations that are shortened for the context limit, twice, late, or on a store that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use helix_agents_core::agent::Agent;
use helix_agents_core::context::{ContextPolicy, StandIn};
use helix_agents_core::entries::ExecuteRequest;
use helix_agents_core::message::{Message, UserMessage};
use helix_agents_core::model::TokenUsage;
use helix_agents_core::perform::{Attempt, perform};
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{Change, Commit, Page};
use helix_agents_core::stream::ChunkPayload;
use helix_agents_core::usage::UsageRollup;
use serde_json::json;

use super::super::Subject;
use super::super::runtime::agents::{Gate, of_model};
use super::faulty_store::{CommitFate, FaultyStore, Meanwhile};
use super::run_driver::{GatedModel, RunDriver, performer, session_id, under_way};
use crate::{MockModel, MockReply};

fn reply(text: &str, prompt: u64) -> MockReply {
    MockReply::text(text).with_usage(TokenUsage::new(prompt, 10))
}

/// An agent whose first turn is too long for the second one. Another model summarizes it.
fn agent(model: &Arc<MockModel>, writer: Arc<GatedModel>) -> Agent {
    let policy = ContextPolicy::keep_turns(1).at_tokens(500);
    let policy = policy.summarized_by(writer as Arc<dyn helix_agents_core::model::Model>);
    of_model(model).context(policy).build().unwrap()
}

fn model() -> Arc<MockModel> {
    Arc::new(MockModel::replies([
        reply("one", 600),
        reply("two", 50),
        reply("three", 60),
    ]))
}

/// Ends the first turn and starts the second one.
async fn second_turn(driver: &mut RunDriver, agent: &Agent) {
    driver.drive().await;
    let request = ExecuteRequest::new(agent, "again").in_session(session_id());
    let started = driver.entries.execute(request, &performer()).await;
    driver.state = started.unwrap();
}

fn is_reduction(commit: &Commit) -> bool {
    let mut changes = commit.changes.iter();
    changes.any(|(_, change)| match change {
        Change::AppendUser(user) => StandIn::of(&Message::User(user.clone())).is_some(),
        _ => false,
    })
}

/// What is left at the end: one summary, paid once and told once, and a completed run.
async fn assert_summarized_once(driver: &RunDriver, tokens: u64) {
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    let messages = driver.messages().await;
    assert_eq!(messages.iter().filter_map(StandIn::of).count(), 1);
    let told = driver.streamed().await;
    let compacted = told.iter().filter(|payload| {
        matches!(payload, ChunkPayload::Custom { event_name, .. } if event_name == "context_compacted")
    });
    assert_eq!(compacted.count(), 1);
    let store = &driver.on.store;
    let usage = store.usage(session_id().as_root(), Page::ALL).await;
    let recorded: UsageRollup = usage.unwrap().items.iter().collect();
    assert_eq!(recorded.tokens.total(), tokens);
}

/// A summary whose acknowledgement is lost is neither made nor bought again; one that could not be stored for a while
/// is stored then.
pub async fn a_summary_whose_acknowledgement_is_lost_is_made_once(on: &Subject) {
    for is_made in [true, false] {
        let (model, gate) = (model(), Gate::default());
        let writer = Arc::new(GatedModel::new(&gate, 0, [reply("All.", 20)]));
        let agent = agent(&model, Arc::clone(&writer));
        let mut left = 1;
        let store = FaultyStore::new(on, move |commit| {
            if left == 0 || !is_reduction(commit) {
                return CommitFate::Made;
            }
            left -= 1;
            match is_made {
                true => CommitFate::Unacknowledged,
                false => CommitFate::Failed,
            }
        });
        let mut driver = RunDriver::on(store, on, agent.clone(), Vec::new()).await;
        second_turn(&mut driver, &agent).await;
        driver.drive().await;
        assert_eq!(writer.asked(), 1);
        assert_eq!(
            model.seen()[1].messages.len(),
            2,
            "the summary, and \"again\""
        );
        assert_summarized_once(&driver, 610 + 60 + 30).await;
        let sessions = driver.on.sessions();
        sessions.delete_session(&session_id()).await.unwrap();
    }
}

/// Two attempts at a model call each make a summary: one counts.
pub async fn two_attempts_at_a_summary_come_to_one(on: &Subject) {
    let (model, gate) = (model(), Gate::default());
    let texts = [reply("First.", 20), reply("Second.", 30)];
    let writer = Arc::new(GatedModel::new(&gate, 1, texts));
    let agent = agent(&model, Arc::clone(&writer));
    let mut driver = RunDriver::new(on, agent.clone()).await;
    second_turn(&mut driver, &agent).await;
    let effects = driver.begin();
    let ports = driver.ports.clone();
    let mut zombie = Box::pin(perform(&effects[0], Attempt::First, &ports));
    under_way(&mut zombie);
    let event = perform(&effects[0], Attempt::Repeat, &ports).await.unwrap();
    gate.open();
    // Its summary is no longer used.
    let _ = zombie.await;
    let effects = driver.feed(event);
    driver.through(effects).await;
    let summary = driver.messages().await;
    let summary = summary.iter().find(|one| StandIn::of(one).is_some());
    let Some(Message::User(summary)) = summary else {
        panic!("a summary is stored");
    };
    assert!(summary.content.ends_with("Second."), "{}", summary.content);
    assert_summarized_once(&driver, 610 + 60 + 40).await;
}

/// A process that dies after a summary was stored leaves it to the next one, which asks the model only.
pub async fn a_summary_outlives_its_process(on: &Subject) {
    let (model, gate) = (model(), Gate::default());
    let writer = Arc::new(GatedModel::new(&gate, 0, [reply("All.", 20)]));
    let agent = agent(&model, Arc::clone(&writer));
    let is_dead = Arc::new(AtomicBool::new(false));
    let dies = Arc::clone(&is_dead);
    let store = FaultyStore::new(on, move |commit| {
        if dies.load(Ordering::SeqCst) {
            return CommitFate::Full;
        }
        dies.store(is_reduction(commit), Ordering::SeqCst);
        CommitFate::Made
    });
    let mut driver = RunDriver::on(store, on, agent.clone(), Vec::new()).await;
    second_turn(&mut driver, &agent).await;
    let effects = driver.begin();
    let died = perform(&effects[0], Attempt::First, &driver.ports).await;
    died.expect_err("its reply cannot be stored");

    is_dead.store(false, Ordering::SeqCst);
    driver.taken_over(&agent).await;
    driver.drive().await;
    assert_eq!((writer.asked(), model.seen().len()), (1, 3));
    assert_eq!(model.seen()[1].messages, model.seen()[2].messages);
    assert_summarized_once(&driver, 610 + 70 + 30).await;
}

/// A message of somebody else arrives just when the acknowledgement of a summary is lost: the summary is stored once.
pub async fn a_message_beside_a_summary_is_not_taken_for_it(on: &Subject) {
    for is_made in [true, false] {
        let (model, gate) = (model(), Gate::default());
        let writer = Arc::new(GatedModel::new(&gate, 0, [reply("All.", 20)]));
        let agent = agent(&model, Arc::clone(&writer));
        let (mut left, others) = (1, on.clone());
        let store = FaultyStore::new(on, move |commit| {
            if left == 0 || !is_reduction(commit) {
                return CommitFate::Made;
            }
            left -= 1;
            let more = appends(&others, Message::User("by the way".into()));
            match is_made {
                true => CommitFate::UnacknowledgedAfter(more),
                false => CommitFate::FailedBefore(more),
            }
        });
        let mut driver = RunDriver::on(store, on, agent.clone(), Vec::new()).await;
        second_turn(&mut driver, &agent).await;
        driver.drive().await;
        assert_eq!(writer.asked(), 1);
        assert_summarized_once(&driver, 610 + 60 + 30).await;
        let sessions = driver.on.sessions();
        sessions.delete_session(&session_id()).await.unwrap();
    }
}

/// An earlier attempt stores its summary just before the next one begins, which uses it.
pub async fn an_attempt_uses_the_summary_of_an_earlier_one(on: &Subject) {
    let (model, gate) = (model(), Gate::default());
    let writer = Arc::new(GatedModel::new(&gate, 0, [reply("Again.", 20)]));
    let agent = agent(&model, Arc::clone(&writer));
    let (mut left, others) = (1, on.clone());
    let store = FaultyStore::new(on, move |commit| {
        let mut changes = commit.changes.iter();
        let begins = changes.any(|(_, change)| matches!(change, Change::Begin(_)));
        if left == 0 || !begins {
            return CommitFate::Made;
        }
        left -= 1;
        let stands = json!({ "from": 2, "summary": true });
        let summary = UserMessage::hidden("All.").with_metadata("helixContext", stands);
        CommitFate::After(appends(&others, Message::User(summary)))
    });
    let mut driver = RunDriver::on(store, on, agent.clone(), Vec::new()).await;
    second_turn(&mut driver, &agent).await;
    let effects = driver.begin();
    let event = perform(&effects[0], Attempt::Repeat, &driver.ports).await;
    let effects = driver.feed(event.unwrap());
    driver.through(effects).await;
    assert_eq!(writer.asked(), 0, "the summary is there");
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    assert_eq!(model.seen()[1].messages.len(), 2);
    let messages = driver.messages().await;
    assert_eq!(messages.iter().filter_map(StandIn::of).count(), 1);
}

/// Appends a message beside the run.
fn appends(on: &Subject, message: Message) -> Meanwhile {
    let on = on.clone();
    Box::pin(async move {
        let (sessions, id) = (on.sessions(), session_id());
        let appended = sessions.append_messages(&id, &[message], None).await;
        appended.map(drop).unwrap();
    })
}
