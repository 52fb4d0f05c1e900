//! Sessions that were imported: they have their messages, and no stream.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::message::Message;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::store::{Change, Commit, Page, Precondition, SessionKey, SessionStore};
use helix_agents_core::stream::StreamStatus;
use helix_agents_core::time::Clock;
use helix_agents_core::transcript::PairedStep;

use super::agents::Desk;
use super::page::Page as Chat;
use super::reading::text_of;

/// A server that has imported the session of another one, as `helix sessions import` does.
async fn imported(from: &Desk) -> Desk {
    let store = &Runtime::backend(&from.place.runtime).store;
    let id = SessionId::new("s").unwrap();
    let key = SessionKey::new(&id, &id);
    let found = store.load(key).await.unwrap().unwrap();
    let messages = store.messages(key, Page::first(100)).await.unwrap().items;
    let mut run = found.run.clone().unwrap();
    (run.start_sequence, run.turn_start) = (0, None);
    if let Some(suspended) = &mut run.suspended {
        suspended.before = None;
    }
    let status = match run.status.is_suspended() {
        true => StreamStatus::Paused,
        false => StreamStatus::Ended,
    };
    let mut commit = Commit::new(id, from.clock.now())
        .when(Precondition::Absent)
        .then(Change::Create(Box::new(found.state.clone())));
    for message in messages {
        commit = commit.then(match message {
            Message::User(user) => Change::AppendUser(user),
            Message::Assistant(reply) => {
                Change::AppendStep(PairedStep::new(reply, Vec::new()).unwrap())
            }
            other => panic!("{other:?}"),
        });
    }
    commit = commit.then(Change::StartRun(Box::new(run)));
    if let Some(mut step) = found.open_step.clone() {
        step.state_before = 0;
        commit = commit.then(Change::OpenStep(Some(Arc::new(step))));
    }
    let store = MemoryStore::new();
    store.commit(commit.stream(status)).await.unwrap();
    Desk::over(store)
}

#[tokio::test]
async fn an_imported_session_that_waits_shows_its_history_and_its_calls() {
    let first = Desk::new();
    let mut page = Chat::of(&first);
    page.say("count").await;
    page.say("pay").await;
    let desk = imported(&first).await;
    let mut loaded = Chat::loaded(&desk).await;
    let ids: Vec<_> = loaded
        .messages
        .iter()
        .map(|one| one["id"].clone())
        .collect();
    assert_eq!(ids, ["u0", "msg-1", "u2", "msg-3"]);
    assert_eq!(text_of(&loaded.messages[3]), "May I? ");
    assert_eq!(loaded.last.told("pending"), [&desk.pending().await]);
    loaded.decide("p1", true);
    assert!(loaded.would_send());
    assert_eq!(loaded.send().await.text(), "May I? paid: 5 cents");
    assert_eq!(loaded.messages.len(), 4);
}

#[tokio::test]
async fn an_imported_session_that_has_ended_has_nothing_to_resume() {
    let first = Desk::new();
    Chat::of(&first).say("count").await;
    let desk = imported(&first).await;
    assert_eq!(desk.place.get("/chat/s/stream").await.status, 204);
    assert_eq!(Chat::loaded(&desk).await.messages.len(), 2);
}
