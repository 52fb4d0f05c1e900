//! Whether the server can do its work.

use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::store::{Change, Commit, StoreError};
use helix_agents_core::time::Timestamp;
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore};

use crate::kit::{ADMIN, NOW, Place};

/// Appends messages until there is no more room.
async fn fill(place: &Place) {
    let store = &place.runtime.backend().store;
    let refused = loop {
        let id = SessionId::new("s").unwrap();
        let said = UserMessage::new("x".repeat(2_000));
        let commit = Commit::new(id, Timestamp::from_millis(NOW)).then(Change::AppendUser(said));
        if let Err(refused) = store.commit(commit).await {
            break refused;
        }
    };
    assert!(matches!(refused, StoreError::Full { .. }), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_without_room_is_not_ready_until_there_is_some() {
    let small = SqliteConfig::new().max_pages(120);
    let place = Place::over(SqliteStore::in_memory_with(small).await.unwrap());
    place.ended("hello").await;
    place.ask(None, "GET", "/readyz", None).await.ok();
    fill(&place).await;
    // What is known from a moment ago is not asked again: anybody may ask for this.
    place.ask(None, "GET", "/readyz", None).await.ok();
    for _ in 0..2 {
        tokio::time::advance(Duration::from_secs(1)).await;
        let answer = place.ask(None, "GET", "/readyz", None).await;
        answer.is(503, "UNAVAILABLE");
    }
    place.ask(None, "GET", "/healthz", None).await.ok();
    let removed = place.ask(ADMIN, "DELETE", "/sessions/s", None).await;
    assert_eq!(removed.status, 204);
    tokio::time::advance(Duration::from_secs(1)).await;
    place.ask(None, "GET", "/readyz", None).await.ok();
}
