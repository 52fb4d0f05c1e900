//! Tests of `/metrics`.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::{Backend, Runtime};
use helix_agents_core::store::{Change, Commit, LeaseRequest};
use helix_agents_core::{SessionId, time::Timestamp};
use serde_json::{Value, json};

use crate::kit::{NOW, Place, clock};
use crate::unreachable_store::UnreachableStore;

/// Asserts that `/metrics` has these lines.
async fn shows(place: &Place, lines: &[&str]) {
    let metrics = place.get("/metrics").await;
    for line in lines {
        let found = metrics.text().lines().any(|have| have == *line);
        assert!(found, "{line} is not in\n{}", metrics.text());
    }
}

/// The number of times that sessions were read, one by one.
async fn reads(place: &Place) -> u64 {
    let metrics = place.get("/metrics").await;
    let of = |operation: &str| {
        let name = format!("helix_store_duration_seconds_count{{operation=\"{operation}\"}} ");
        let mut lines = metrics.text().lines();
        let count = lines.find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok());
        count.unwrap_or(0)
    };
    of("load") + of("find")
}

/// A request reads its session once, and the first effect of the run once more.
#[tokio::test]
async fn a_start_and_a_resume_read_their_session_at_most_twice() {
    let place = Place::measured(clock(), MemoryStore::new());
    let begin = async |path: &str, body: Value, most: u64| {
        let before = reads(&place).await;
        let run = place.post(path, body.clone()).await.ok();
        if body["message"] == "wait" {
            place.outside.reached().await;
            let stop = json!({ "sessionId": "s" });
            place.post("/interrupt", stop).await.ok();
            place.outside.open();
        }
        let text = |key: &str| run[key].as_str().unwrap().to_owned();
        place.run_ended(&text("sessionId"), &text("runId")).await;
        let read = reads(&place).await - before;
        assert!(read <= most, "{path} with {body}: {read} reads");
    };
    let start = json!({ "agentType": "desk", "message": "hello" });
    begin("/start", start, 1).await;
    let start = json!({ "sessionId": "n", "agentType": "desk", "message": "hello" });
    begin("/start", start, 2).await;
    let next = json!({ "sessionId": "n", "mode": "with_message", "message": "hello" });
    begin("/resume", next, 2).await;
    // The interruption reads the session too.
    let start = json!({ "sessionId": "s", "agentType": "desk", "message": "wait" });
    begin("/start", start, 9).await;
    begin("/resume", json!({ "sessionId": "s" }), 2).await;
}

#[tokio::test]
async fn runs_steps_tokens_and_calls_are_counted() {
    let place = Place::measured(clock(), MemoryStore::new());
    for message in ["look", "hello", "fail"] {
        let body = json!({ "sessionId": message, "agentType": "desk", "message": message });
        place.post("/start", body).await.ok();
        place.settled(message).await;
    }
    shows(
        &place,
        &[
            "helix_runs_started_total{trigger=\"execute\"} 3",
            "helix_runs_ended_total{status=\"completed\"} 2",
            "helix_runs_ended_total{status=\"failed\"} 1",
            "helix_steps_total 3",
            "helix_tokens_total{model=\"scripted\",kind=\"input\"} 37",
            "helix_tokens_total{model=\"scripted\",kind=\"output\"} 10",
            "helix_model_calls_total{model=\"scripted\",outcome=\"ok\"} 3",
            "helix_model_calls_total{model=\"scripted\",outcome=\"provider_auth\"} 1",
            "helix_model_call_duration_seconds_count{model=\"scripted\"} 4",
            "helix_tool_calls_total{tool=\"look\",outcome=\"ok\"} 1",
            "helix_tool_call_duration_seconds_count{tool=\"look\"} 1",
            "helix_store_up 1",
        ],
    )
    .await;
    let metrics = place.get("/metrics").await;
    let commits = metrics
        .text()
        .lines()
        .find_map(|line| {
            line.strip_prefix("helix_store_duration_seconds_count{operation=\"commit\"} ")
        })
        .unwrap();
    assert!(
        commits.parse::<u64>().unwrap() >= 3 + 4,
        "{commits} commits"
    );
}

#[tokio::test]
async fn pending_calls_are_shown_with_their_age_until_they_are_answered() {
    let clock = clock();
    let place = Place::measured(Arc::clone(&clock), MemoryStore::new());
    shows(
        &place,
        &[
            "helix_pending_calls 0",
            "helix_pending_oldest_age_seconds 0",
        ],
    )
    .await;
    place.ended("ask").await;
    clock.advance(Duration::from_secs(90));
    shows(
        &place,
        &[
            "helix_runs_ended_total{status=\"suspended_client_tool\"} 1",
            "helix_pending_calls 1",
            "helix_pending_oldest_age_seconds 90",
        ],
    )
    .await;
    let answer = json!({ "sessionId": "s", "kind": "client-tool-result", "toolCallId": "q1", "result": "blue" });
    place.post("/submit-tool-result", answer).await.ok();
    place.settled("s").await;
    shows(
        &place,
        &[
            "helix_pending_calls 0",
            "helix_runs_started_total{trigger=\"continue\"} 1",
            "helix_due_sessions{kind=\"answered\"} 0",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_lease_is_shown_while_it_is_held_and_as_due_when_it_lapsed() {
    let place = Place::measured(clock(), MemoryStore::new());
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "wait" });
    place.post("/start", body).await.ok();
    place.outside.reached().await;
    shows(
        &place,
        &[
            "helix_leases 1",
            "helix_due_sessions{kind=\"lapsed_lease\"} 0",
        ],
    )
    .await;
    // The lease of another process, which released it.
    let given_up = LeaseRequest::given_up("another process");
    let commit = Commit::new(SessionId::new("s").unwrap(), Timestamp::from_millis(NOW));
    let commit = commit.then(Change::Lease(Some(given_up)));
    place.runtime.backend().store.commit(commit).await.unwrap();
    shows(
        &place,
        &[
            "helix_leases 0",
            "helix_due_sessions{kind=\"lapsed_lease\"} 1",
        ],
    )
    .await;
    place.outside.open();
    place.settled("s").await;
}

/// If the store cannot be read, the counters are still shown, with a metric that reports it.
#[tokio::test]
async fn a_store_that_cannot_be_read_does_not_hide_the_counters() {
    let mut backend = Backend::from(MemoryStore::new());
    backend.store = Arc::new(UnreachableStore);
    let place = Place::measured(clock(), backend);
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "hello" });
    place.post("/start", body).await.is(503, "UNAVAILABLE");
    let metrics = place.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    shows(
        &place,
        &[
            "helix_store_up 0",
            "helix_http_requests_total{operation=\"start\",status=\"503\"} 1",
        ],
    )
    .await;
    assert!(
        metrics
            .text()
            .contains("helix_store_errors_total{operation=")
    );
    assert!(!metrics.text().contains("helix_pending_calls"));
}
