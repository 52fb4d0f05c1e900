//! Messages for the model beside its steps: they never stand between a call and its result.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::message::{Message, UserMessage};
use helix_agents_core::session::{RunRecord, RunStatus};
use helix_agents_core::store::{Change, Page};
use helix_agents_core::stream::{ChunkPayload, Sequence};

use super::Subject;
use super::builders::{
    accepted, changed, checkpoint_of, chunk, commit, created, open_step, paired, started,
    user_message,
};

fn notice(text: &str) -> Change {
    Change::Notice(UserMessage::hidden(text))
}

/// The texts of the users' messages, and the roles of the others.
async fn history(on: &Subject, id: &SessionId) -> Vec<String> {
    let on = on.elsewhere();
    let found = on.store.messages(id.as_root(), Page::ALL).await.unwrap();
    let loaded = on.store.load(id.as_root()).await.unwrap().unwrap();
    assert_eq!(loaded.message_count, found.items.len());
    let lines = found.items.into_iter().map(|message| match message {
        Message::User(user) => user.content,
        Message::Assistant(_) => "reply".to_owned(),
        _ => "result".to_owned(),
    });
    lines.collect()
}

/// A session with a message and a run.
async fn with_run(on: &Subject) -> (SessionId, RunRecord) {
    let id = created(on, "s").await;
    let run = started(on, &id, "run");
    let Message::User(go) = user_message("go") else {
        panic!("it is a message of a user");
    };
    let begun = commit(on, &id)
        .then(Change::AppendUser(go))
        .then(Change::StartRun(Box::new(run.clone())));
    accepted(on, begun).await;
    (id, run)
}

fn ended(run: &RunRecord, status: RunStatus) -> Change {
    let mut run = run.clone();
    run.status = status;
    Change::Run(Box::new(run))
}

/// In a session at rest, a notice is the next message.
pub async fn a_notice_to_a_session_at_rest_is_appended_at_once(on: &Subject) {
    let (id, run) = with_run(on).await;
    let done = commit(on, &id)
        .then(Change::AppendStep(paired(&[])))
        .then(ended(&run, RunStatus::Completed));
    accepted(on, done).await;
    let receipt = changed(on, &id, notice("one")).await;
    assert_eq!(receipt.message_count, 3);
    accepted(
        on,
        commit(on, &id).then(notice("two")).then(notice("three")),
    )
    .await;
    let expected = ["go", "reply", "one", "two", "three"];
    assert_eq!(history(on, &id).await, expected);
}

/// While a run is running or suspended, notices wait for the next step and come right after it, in the same
/// commit. The step is announced with the messages that there are, and so is its checkpoint.
pub async fn a_notice_comes_after_the_step_of_a_run(on: &Subject) {
    let (id, run) = with_run(on).await;
    let step = open_step(&run.id, "step", &["c-1"]);
    changed(on, &id, Change::OpenStep(Some(Arc::new(step)))).await;
    changed(on, &id, notice("one")).await;
    changed(on, &id, ended(&run, RunStatus::SuspendedClientTool)).await;
    changed(on, &id, notice("two")).await;
    assert_eq!(history(on, &id).await, ["go"]);
    let Message::User(more) = user_message("more") else {
        panic!("it is a message of a user");
    };
    let told = ChunkPayload::StepCommitted { message_count: 0 };
    let settled = commit(on, &id)
        .then(Change::OpenStep(None))
        .then(Change::AppendStep(paired(&["c-1"])))
        .then(Change::CheckpointHere(checkpoint_of(on, &id, "cp")))
        .then(Change::AppendUser(more))
        .say(chunk(on, &id, told));
    accepted(on, settled).await;
    let expected = ["go", "reply", "result", "one", "two", "more"];
    assert_eq!(history(on, &id).await, expected);
    let said = on.streams.read(&id, Sequence::START, 9).await.unwrap();
    let said = said.last().unwrap().chunk.payload.clone();
    assert_eq!(said, ChunkPayload::StepCommitted { message_count: 6 });
    let latest = on.sessions().get_latest_checkpoint(&id).await.unwrap();
    assert_eq!(latest.unwrap().message_count, 5);
    changed(on, &id, Change::AppendStep(paired(&["c-2"]))).await;
    assert_eq!(history(on, &id).await.len(), 8, "each is appended once");
}

/// A run that ends for good without another step appends what waits, in the order of its changes or not.
pub async fn a_notice_comes_with_the_end_of_a_run_without_a_step(on: &Subject) {
    let (id, run) = with_run(on).await;
    let step = open_step(&run.id, "step", &["c-1"]);
    changed(on, &id, Change::OpenStep(Some(Arc::new(step)))).await;
    changed(on, &id, notice("one")).await;
    let failed = commit(on, &id)
        .then(ended(&run, RunStatus::Failed))
        .then(Change::OpenStep(None));
    accepted(on, failed).await;
    assert_eq!(history(on, &id).await, ["go", "one"]);
}

/// A cut of the history discards the notices that wait: they are about what is cut.
pub async fn a_cut_discards_notices_that_wait(on: &Subject) {
    let (id, run) = with_run(on).await;
    changed(on, &id, notice("one")).await;
    changed(on, &id, Change::Truncate(1)).await;
    changed(on, &id, ended(&run, RunStatus::Interrupted)).await;
    assert_eq!(history(on, &id).await, ["go"]);
}
