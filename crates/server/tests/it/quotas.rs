//! Tests of the limits on the runs that one user may start.

use std::time::Duration;

use helix_agents_core::memory::MemoryStore;
use serde_json::json;

use crate::kit::{ALICE, Answer, BOB, Outside, Place, builder, runtime, tokens};

fn place(runs: usize, starts: u32) -> Place {
    let outside = Outside::new();
    let runtime = runtime(MemoryStore::new(), &outside);
    let server = builder(&runtime).authenticate(tokens());
    let server = server.max_runs_per_user(runs).max_starts_per_minute(starts);
    Place {
        app: server.build().unwrap().router(),
        outside,
        runtime,
    }
}

async fn start(place: &Place, token: Option<&str>, session: &str, message: &str) -> Answer {
    let body = json!({ "sessionId": session, "agentType": "desk", "message": message });
    place.ask(token, "POST", "/start", Some(body)).await
}

#[tokio::test(start_paused = true)]
async fn the_number_of_running_runs_of_a_user_is_limited() {
    let place = place(2, 1000);
    for session in ["a", "b"] {
        start(&place, ALICE, session, "wait").await.ok();
        place.outside.reached().await;
    }
    let refused = start(&place, ALICE, "c", "wait").await;
    refused.is(429, "RATE_LIMITED");
    assert_eq!(refused.headers["retry-after"], "1");
    start(&place, BOB, "d", "hello").await.ok();
    let resumed = json!({ "sessionId": "a" });
    let resumed = place.ask(ALICE, "POST", "/resume", Some(resumed)).await;
    resumed.is(429, "RATE_LIMITED");
    // A run that has ended makes room, and so does one that waits for a person.
    place.outside.open();
    place.outside.open();
    place.settled("a").await;
    place.settled("b").await;
    tokio::time::advance(Duration::from_secs(1)).await;
    for session in ["e", "f", "g", "h"] {
        start(&place, ALICE, session, "pay").await.ok();
        place.settled(session).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_starts_per_minute_of_a_user_is_limited() {
    let place = place(1000, 4);
    for session in ["a", "b", "c", "d"] {
        start(&place, ALICE, session, "hello").await.ok();
    }
    let refused = start(&place, ALICE, "e", "hello").await;
    refused.is(429, "RATE_LIMITED");
    assert_eq!(refused.headers["retry-after"], "15");
    start(&place, BOB, "f", "hello").await.ok();
    tokio::time::advance(Duration::from_secs(15)).await;
    start(&place, ALICE, "e", "hello").await.ok();
    start(&place, ALICE, "g", "hello")
        .await
        .is(429, "RATE_LIMITED");
}
