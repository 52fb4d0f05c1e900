//! Tests of `/readyz`.

use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::store::{Change, Commit, StoreError};
use helix_agents_core::time::Timestamp;
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore};

use crate::kit::{ADMIN, NOW, Place};

/// Appends messages until the store is full.
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
async fn a_full_store_is_not_ready_until_it_has_room() {
    let small = SqliteConfig::new().max_pages(120);
    let place = Place::over(SqliteStore::in_memory_with(small).await.unwrap());
    place.ended("hello").await;
    place.ask(None, "GET", "/readyz", None).await.ok();
    fill(&place).await;
    // The last result is reused for a moment, because any client may ask.
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
